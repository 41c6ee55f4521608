// Pairs of answers and dropout: losses against a computation by hand, learning, and the same masks for the same seed.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { buildWithLora } from '../../src/nn/lora.ts'
import type { ModelSource } from '../../src/nn/source.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import type { StepEvent } from '../../src/train/event.ts'
import { finetune } from '../../src/train/finetune.ts'
import type { FinetuneOptions } from '../../src/train/options.ts'
import { makeTinyPlace } from './tiny-place.ts'

const tiny = makeTinyPlace()
const { at, model: MODEL } = tiny

async function stepsOf(more: Partial<FinetuneOptions> & Pick<FinetuneOptions, 'data'>): Promise<StepEvent[]> {
  const steps: StepEvent[] = []
  const base = { model: MODEL, device: tiny.device, context: 24, batch: 2, steps: 3, rate: 0.01, lora: { rank: 2 } }
  for await (const event of finetune({ ...base, ...more })) if (event.kind === 'step') steps.push(event)
  return steps
}

describe('pairs', () => {
  const PAIRS = [
    { prompt: 'ab cd', chosen: ' aa', rejected: ' dd ca' },
    { prompt: 'cab', chosen: ' bc d', rejected: ' b' },
  ]

  /** ln of the probability of an answer. */
  async function likelihood(model: Model, prompt: string, answer: string): Promise<number> {
    const ids = [...model.tokenize(prompt + answer, { addSpecial: true }), model.tokenizer.eos!]
    const { ends } = model.tokenizer.locate(prompt + answer, { addSpecial: true })
    const first = ends.findIndex((end) => end > prompt.length)
    let sum = 0
    await model.evaluate(ids.slice(0, -1), (rows, from) => {
      for (let row = 0; row * model.vocabulary < rows.length; row++) {
        const logits = rows.subarray(row * model.vocabulary, (row + 1) * model.vocabulary)
        const next = from + row + 1
        if (next >= first) sum += logits[ids[next]!]! - Math.log(logits.reduce((total, logit) => total + Math.exp(logit), 0))
      }
    })
    return sum
  }

  test('cost what a computation by hand says, and ln 2 before anything is learnt', async () => {
    const [out, beta] = [at('dpo.gguf'), 0.3]
    const [first] = await stepsOf({ data: PAIRS, beta, steps: 3, out })
    expect(first!.loss).toBeCloseTo(Math.LN2, 6)
    // The first step of a run that begins with what was learnt cannot be had; the loss after the last one is that of validation.
    const measured: number[] = []
    const run = finetune({ model: MODEL, device: tiny.device, context: 24, batch: 2, steps: 3, rate: 0.01, lora: { rank: 2 }, data: [...PAIRS.slice(0, 1), ...PAIRS.slice(0, 1)], beta, validation: 1, out: at('dpo-one.gguf') }) // prettier-ignore
    for await (const event of run) if (event.kind === 'validation') measured.push(event.loss)
    await using model = await load(MODEL, { device: tiny.device, cacheType: 'f32', contextLength: 32 })
    const { prompt, chosen, rejected } = PAIRS[0]!
    const preference = async (): Promise<number> => (await likelihood(model, prompt, chosen)) - (await likelihood(model, prompt, rejected))
    const before = await preference()
    await model.setAdapters([{ path: at('dpo-one.gguf') }])
    const gain = (await preference()) - before
    expect(gain).toBeGreaterThan(0.5)
    expect(measured.at(-1)).toBeCloseTo(Math.log1p(Math.exp(-beta * gain)), 4)
  })

  test('are learnt, and refused where all weights are', async () => {
    const steps = await stepsOf({ data: PAIRS, steps: 12, rate: 0.02, beta: 0.5 })
    expect(steps.at(-1)!.loss).toBeLessThan(0.2)
    await expect(finetune({ model: MODEL, device: tiny.device, data: PAIRS, full: true, context: 24 })).rejects.toThrow('by adapters only')
  })
})

describe('dropout', () => {
  const DATA = ['abcd ab', 'dd ca ab', 'cab dab', 'aaaa bc'].map((text) => ({ text }))
  const lora = { rank: 2, dropout: 0.3 }

  test('is that of a seed, also for a run that goes on; without it there is none', async () => {
    const [checkpoint, whole] = [at('drop.checkpoint'), await stepsOf({ data: DATA, lora, steps: 6, out: at('whole.gguf') })]
    const losses = whole.map(({ loss }) => loss)
    const other = await stepsOf({ data: DATA, steps: 6 })
    expect(other[0]!.loss).toBe(losses[0]) // B is 0: nothing of an adapter is seen yet
    expect(other.at(-1)!.loss).not.toBe(losses.at(-1))
    await stepsOf({ data: DATA, lora, steps: 6, checkpoint: { path: checkpoint, every: 3 } })
    const rest = await stepsOf({ data: DATA, lora, steps: 6, resume: checkpoint, out: at('rest.gguf') })
    expect(rest.map(({ loss }) => loss)).toEqual(losses.slice(3))
    expect(readFileSync(at('rest.gguf'))).toEqual(readFileSync(at('whole.gguf')))
  })

  test('leaves out the same on every device, and something else in each layer and step', async () => {
    await using reference = openReference({ check: false })
    const seen = async (place: Device, words: readonly number[], layer: number): Promise<number[]> => {
      const noise = { key: Tensor.from(Uint32Array.from(words), { device: place }) }
      const source = { adapter: () => undefined } as Partial<ModelSource> as ModelSource // all that is asked for
      const names = ['blk.0.a.weight', 'blk.1.a.weight']
      const { adapters } = buildWithLora((own) => names.map((name) => own.adapter(name, [4, 64])), source, { rank: 1, dropout: 0.25, noise, device: place }) // prettier-ignore
      const x = Tensor.full([8, 64], 1, { device: place })
      return Array.from(await adapters.get(names[layer]!)!.drop!(x)!.data())
    }
    const mask = await seen(tiny.device, [7, 1], 0)
    expect(await seen(reference, [7, 1], 0)).toEqual(mask)
    expect(mask.filter((value) => value === 0).length / mask.length).toBeCloseTo(0.25, 1)
    expect(mask.every((value) => value === 0 || Math.abs(value - 4 / 3) < 1e-6)).toBe(true)
    for (const others of [await seen(tiny.device, [7, 2], 0), await seen(tiny.device, [8, 1], 0), await seen(tiny.device, [7, 1], 1)])
      expect(others).not.toEqual(mask)
  })
})
