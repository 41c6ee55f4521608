// Steps of training, timed: LoRA on all linear layers of a model file, over one sequence of random tokens.

import { open } from '../../device/open/open.ts'
import { adamw } from '../../nn/optim.ts'
import { makeBatch } from '../../train/batch.ts'
import { createTrainer } from '../../train/step.ts'
import { loadTrainable } from '../../train/trainable.ts'
import { type Gguf, openGguf } from '../../weights/gguf/gguf.ts'
import { openPeak } from '../op/limit.ts'

/** What is to be measured. */
export interface TrainRun {
  readonly model: string
  readonly tokens: number
  readonly rank: number
  readonly steps: number
  readonly recompute: boolean
  readonly device?: string
  readonly threads?: number
}

/** What was. */
export interface TrainSamples {
  /** of each step, the first one left out, which plans */
  readonly seconds: readonly number[]
  /** of the last step */
  readonly loss: number
  /** the most that the process held */
  readonly bytes: number
}

export interface OwnTrainSamples extends TrainSamples {
  readonly device: string
  /** as stated before the first step */
  readonly statedBytes: number
  /** f32 operations of a second that the device does at most, measured beside each step: machines change their speed */
  readonly peaks: readonly number[]
}

export async function measureTraining({
  model,
  tokens,
  rank,
  steps,
  recompute,
  device: name,
  threads,
}: TrainRun): Promise<OwnTrainSamples> {
  const { device } = await open(name ?? 'auto', threads === undefined ? {} : { threads })
  await using gguf = await openGguf(model)
  const trainable = await loadTrainable(device, gguf, { contextLength: tokens, lora: { rank, alpha: 2 * rank } })
  using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters, { weightDecay: 0.01 }), clipNorm: 1, recompute })
  const ids = Array.from({ length: tokens + 1 }, (_, i) => (i * 7919 + 13) % trainable.model.vocabulary)
  const { total: statedBytes } = await trainer.memory([makeBatch(device, [{ ids }])])
  const peak = await openPeak(device)
  const [seconds, peaks]: [number[], number[]] = [[], []]
  let loss = Number.NaN
  for (let step = 0; step <= steps; step++) {
    const begun = performance.now()
    loss = (await trainer.step([makeBatch(device, [{ ids }])], 1e-4)).loss
    if (step === 0) continue
    seconds.push((performance.now() - begun) / 1000)
    peaks.push(await peak.sample())
  }
  const bytes = process.resourceUsage().maxRSS * 1024
  peak.dispose()
  const { detail } = device
  trainable.free()
  await device.close()
  return { seconds, loss, bytes, device: detail, statedBytes, peaks }
}

/** Operations that a step cannot do without: a product with every matrix forward, and one back to its input. */
export function operationsOf({ tensors }: Pick<Gguf, 'tensors'>, tokens: number): number {
  const isProduct = ({ name, dims }: { name: string; dims: readonly number[] }): boolean =>
    dims.length === 2 && (name !== 'token_embd.weight' || !tensors.has('output.weight'))
  return [...tensors.values()].filter(isProduct).reduce((sum, { elements }) => sum + 4 * elements * tokens, 0)
}
