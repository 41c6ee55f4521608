// Steps of training on small models: gradients against differences, one submission, accumulation, targets that do not count, and learning
// by heart. test/data/lora.test.ts compares whole runs with PyTorch's.

import { describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { layersOf, rankOf } from '../../src/llm/adapter/adapter.ts'
import { readAdapterGguf, writeAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { ARCHITECTURES } from '../../src/model/index.ts'
import { adamw, sgd } from '../../src/nn/optim.ts'
import { compile } from '../../src/tensor/compile.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { random } from '../../src/tensor/random.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { IGNORED, makeBatch } from '../../src/train/batch.ts'
import { lossOf } from '../../src/train/loss.ts'
import { createTrainer } from '../../src/train/step.ts'
import { type LoadTrainableOptions, type Trainable, loadTrainable } from '../../src/train/trainable.ts'
import { formatOf } from '../../src/quant/index.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { fromBytes } from '../../src/weights/source.ts'
import { type TinyFile, tinyModel } from '../llm/tiny-model.ts'
import { createTinySource } from '../nn/tiny-source.ts'

const SEQUENCES = [{ ids: [3, 1, 4, 1, 5, 9, 2] }, { ids: [2, 7, 1, 8] }]

async function loadTiny(
  device: Device,
  options: Partial<LoadTrainableOptions> & { change?: (file: TinyFile) => void } = {},
): Promise<Trainable> {
  const { change, ...rest } = options
  await using gguf = await openGguf(await tinyModel(change === undefined ? {} : { change }))
  return await loadTrainable(device, gguf, { contextLength: 16, ...rest }) // before the file is closed
}

/** Matrices of the layers as Q8_0. */
function quantise({ tensors }: TinyFile): void {
  for (const [name, tensor] of tensors) {
    if (!name.startsWith('blk') || tensor.dims.length < 2) continue
    const data = async (): Promise<Uint8Array> => {
      const plain = (await tensor.data()) as Uint8Array
      return formatOf('q8_0').encode!(new Float32Array(plain.slice().buffer))
    }
    tensors.set(name, { ...tensor, type: 'q8_0', data })
  }
}

describe('gradients of a whole model', () => {
  test.for(ARCHITECTURES.map(({ names }, i) => [names[0]!, i] as const))('%s', async ([name, index]) => {
    await using device = await openCpu()
    const source = createTinySource(device, name, { bias: name === 'qwen2' })
    const model = ARCHITECTURES[index]!.build(source)
    const batch = makeBatch(device, SEQUENCES)
    const weights = [...source.weights]
    const directions = weights.map(([, { shape }], i) => random.normal(shape, { seed: i, device }))
    using slopes = compile(() => {
      const found = gradients(lossOf(model, batch), weights.map(([, weight]) => weight)) // prettier-ignore
      return found.map((by, i) => by.mul(directions[i]!).sum())
    })
    const expected = await slopes()
    using loss = compile(() => lossOf(model, batch))
    await loss() // traced with the tensors that are assigned to below
    const far: string[] = []
    for (const [i, [label, weight]] of weights.entries()) {
      const values = await weight.data()
      const along = await directions[i]!.data()
      const at = async (h: number): Promise<number> => {
        const moved = Float32Array.from(values, (value, j) => value + h * along[j]!)
        weight.assign(Tensor.from(moved, { shape: [...weight.shape], device }))
        return (await loss()).item()
      }
      const got = ((await at(2e-3)) - (await at(-2e-3))) / 4e-3
      await at(0)
      const want = await expected[i]!.item()
      if (!(Math.abs(got - want) <= 2e-3 + 0.01 * Math.abs(want))) far.push(`${label}: ${want} is ${got} by differences`)
    }
    expect(weights.length).toBeGreaterThan(15)
    expect(far).toEqual([])
  })
})

test('a step is one submission, planned once, and gives the loss before its update', async () => {
  await using device = await openCpu()
  const trainable = await loadTiny(device, { lora: { rank: 4 } })
  using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters), clipNorm: 1 })
  const batch = makeBatch(device, SEQUENCES)
  const before = await trainer.evaluate(batch)
  const { loss, losses, norm } = await trainer.step([batch], 0.01)
  expect(loss).toBeCloseTo(before, 5)
  expect(losses).toEqual([loss])
  expect(norm).toBeGreaterThan(0)
  const { submissions, bytesLive } = { ...device.stats }
  for (let i = 0; i < 5; i++) await trainer.step([makeBatch(device, SEQUENCES)], 0.01)
  expect(device.stats.submissions - submissions).toBe(5)
  expect(device.stats.bytesLive).toBe(bytesLive)
  expect(await trainer.evaluate(batch)).toBeLessThan(before)
  trainable.free()
})

test('gradients of several batches are averaged: the mean of their means', async () => {
  await using device = await openCpu()
  const [first, second] = SEQUENCES.map((sequence) => makeBatch(device, [sequence]))
  const after = async (steps: (trainer: ReturnType<typeof createTrainer>) => Promise<unknown>): Promise<number[]> => {
    const trainable = await loadTiny(device)
    using trainer = createTrainer(trainable, { optimizer: sgd(trainable.parameters) })
    const start = await trainable.parameters['blk.0.attn_q.weight']!.data()
    await steps(trainer)
    const end = await trainable.parameters['blk.0.attn_q.weight']!.data()
    trainable.free()
    return Array.from(end, (value, i) => value - start[i]!)
  }
  const [a, b, both] = [
    await after((trainer) => trainer.step([first!], 1)),
    await after((trainer) => trainer.step([second!], 1)),
    await after((trainer) => trainer.step([first!, second!], 1)),
  ]
  both.forEach((value, i) => expect(value).toBeCloseTo((a[i]! + b[i]!) / 2, 5))
  expect(Math.max(...both.map(Math.abs))).toBeGreaterThan(1e-3)
})

test('a base in Q8_0 is learnt over by heart', async () => {
  await using device = await openCpu()
  const trainable = await loadTiny(device, { lora: { rank: 8, alpha: 16, seed: 3 }, change: quantise })
  using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters), clipNorm: 1 })
  const batch = makeBatch(device, [...SEQUENCES, { ids: [6, 6, 2, 5, 3, 1, 7], prompt: 4 }])
  const { loss: first } = await trainer.step([batch], 0.01)
  for (let i = 0; i < 80; i++) await trainer.step([batch], 0.01)
  expect(await trainer.evaluate(batch)).toBeLessThan(0.1 * first)
  trainable.free()
})

test('an adapter that was saved gives the loss that training reported', async () => {
  await using device = await openCpu()
  const trainable = await loadTiny(device, { lora: { rank: 2, alpha: 6 } })
  using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters) })
  const batch = makeBatch(device, SEQUENCES)
  for (let i = 0; i < 3; i++) await trainer.step([batch], 0.05)
  const loss = await trainer.evaluate(batch)
  const parts: Uint8Array[] = []
  const sink = { write: async (bytes: Uint8Array) => void parts.push(bytes.slice()) }
  await writeAdapterGguf(sink, { architecture: 'llama', alpha: 6, tensors: trainable.parameters })
  const saved = await readAdapterGguf(fromBytes(new Uint8Array(Buffer.concat(parts)), 'adapter.gguf'), { device })
  const given = new Map(layersOf(saved).map(({ weight, a, b }) => [weight, { a, b }]))
  const again = await loadTiny(device, { lora: { rank: rankOf(saved), alpha: saved.alpha, given } })
  using other = createTrainer(again, { optimizer: sgd(again.parameters) })
  expect(await other.evaluate(batch)).toBe(loss)
  trainable.free()
  again.free()
})

test('all weights learn, also of a file in halves: their values in f32 do', async () => {
  await using device = await openCpu()
  await using gguf = await openGguf(await tinyModel({ type: 'f16' }))
  const trainable = await loadTrainable(device, gguf, { contextLength: 16 })
  expect(Object.values(trainable.parameters).every(({ dtype }) => dtype === 'f32')).toBe(true)
  expect(Object.keys(trainable.parameters).toSorted()).toEqual([...gguf.tensors.keys()].toSorted())
  using trainer = createTrainer(trainable, { optimizer: sgd(trainable.parameters) })
  const batch = makeBatch(device, SEQUENCES)
  const { loss } = await trainer.step([batch], 0.1)
  expect(await trainer.evaluate(batch)).toBeLessThan(loss)
  trainable.free()
})

test('batches: what comes next, prompts that do not count, and padding', async () => {
  await using device = await openCpu()
  const { tokens, targets, positions } = makeBatch(device, [{ ids: [5, 6, 7, 8], prompt: 3 }, { ids: [9, 4] }])
  expect(await tokens.toArray()).toEqual([[5, 6, 7], [9, 4, 0]]) // prettier-ignore
  expect(await targets.toArray()).toEqual([[IGNORED, IGNORED, 8], [4, IGNORED, IGNORED]]) // prettier-ignore
  expect(await positions.toArray()).toEqual([[0, 1, 2], [0, 1, 2]]) // prettier-ignore
  expect(() => makeBatch(device, [{ ids: [1] }])).toThrow('there is nothing to predict')
  expect(() =>
    makeBatch(
      device,
      [{ ids: [9, 4] }].map(({ ids }) => ({ ids, prompt: 2 })),
    ),
  ).toThrow('no target counts')
})
