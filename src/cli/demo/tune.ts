// The part of the demonstration that trains: an adapter over the default model, on a page of text that is in the package, and a
// generation with it. What is shown of it is the caller's business.

import { readFile } from 'node:fs/promises'
import { packageFile } from '../../base/place.ts'
import type { Device } from '../../device/device.ts'
import { DEFAULT_CHUNK } from '../../llm/default.ts'
import { Engine } from '../../llm/engine.ts'
import { type GenerateOptions, Generation } from '../../llm/generation.ts'
import { createRandom } from '../../llm/random.ts'
import type { Tokenizer } from '../../llm/tokenizer/tokenizer.ts'
import { adamw } from '../../nn/optim.ts'
import { rateAt } from '../../nn/schedule.ts'
import { type Sequence, makeBatch } from '../../train/batch.ts'
import { createTrainer } from '../../train/step.ts'
import { type Trainable, loadTrainable } from '../../train/trainable.ts'
import type { Gguf } from '../../weights/gguf/gguf.ts'

const TEXT = 'assets/genesis.txt'
export const RANK = 8
const ALPHA = 16
/** Sequences of a step, and their tokens. */
const [SEQUENCES, LENGTH] = [4, 96]
const RATE = 8e-3
const WARMUP = 4 // steps
export const STEPS = 60
/** A slow machine takes fewer steps. */
const MOST_MS = 15_000

/** A step that was taken. */
export interface TunedStep {
  /** counted from 1 */
  readonly step: number
  readonly loss: number
  /** since the first step */
  readonly ms: number
}

export interface TuneOptions {
  readonly steps: number
  readonly onStep: (step: TunedStep) => void
}

/** An adapter that has learnt, with the model that it changes. */
export interface Tuned {
  readonly parameters: number
  /** Continues a prompt with the adapter. */
  generate(prompt: readonly number[], options: GenerateOptions): Promise<string>
  free(): void
}

/** Trains an adapter. */
export async function tune(device: Device, file: Gguf, tokenizer: Tokenizer, options: TuneOptions): Promise<Tuned> {
  const ids = tokenizer.encode(await readFile(packageFile(TEXT), 'utf8'), { addSpecial: true })
  const trainable = await loadTrainable(device, file, { contextLength: LENGTH, lora: { rank: RANK, alpha: ALPHA, seed: 1 } })
  try {
    await train(trainable, ids, options)
  } catch (error) {
    trainable.free()
    throw error
  }
  return {
    parameters: Object.values(trainable.parameters).reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0),
    generate: async (prompt, options) => {
      const capacity = prompt.length + (options.maxTokens ?? LENGTH)
      const engine = new Engine(device, trainable.model, { capacity, cacheType: 'f16', chunk: DEFAULT_CHUNK })
      try {
        const { text } = await new Generation({ engine, tokenizer, exclusively: (work) => work() }, prompt, options)
        return text
      } finally {
        await engine.close()
      }
    },
    free: () => trainable.free(),
  }
}

async function train(trainable: Trainable, ids: readonly number[], { steps, onStep }: TuneOptions): Promise<void> {
  using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters), clipNorm: 1 })
  const random = createRandom(1)
  const piece = (): Sequence => {
    const from = Math.floor(random() * (ids.length - LENGTH))
    return { ids: ids.slice(from, from + LENGTH + 1) }
  }
  let begun: number | undefined
  for (let step = 0; step < steps; step++) {
    const batch = makeBatch(trainable.device, Array.from({ length: SEQUENCES }, piece))
    const { loss } = await trainer.step([batch], rateAt({ kind: 'cosine', warmup: Math.min(WARMUP, steps - 1), total: steps }, RATE, step))
    begun ??= performance.now()
    const ms = performance.now() - begun
    onStep({ step: step + 1, loss, ms })
    if (ms > MOST_MS) return
  }
}
