// What a step needs: stated before it runs, near what the device then reports; layers and logits that are computed again.

import { expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { openNull } from '../../src/device/null/null.ts'
import { createDummyFile } from '../../src/llm/dummy-file.ts'
import { adamw } from '../../src/nn/optim.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { IGNORED, makeBatch } from '../../src/train/batch.ts'
import { crossEntropyOf, surprisesOf } from '../../src/train/loss.ts'
import { pairLoss } from '../../src/train/objective.ts'
import { type StepOptions, type Trainer, createTrainer } from '../../src/train/step.ts'
import { type Trainable, loadTrainable } from '../../src/train/trainable.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { tinyModel } from '../llm/tiny-model.ts'

const SIZES = { width: 256, heads: 4, kvHeads: 2, dim: 64, hidden: 512, vocabulary: 64000 }

/** Two layers with zeros for weights, and a large vocabulary. */
function loadDummy(device: Device): Promise<Trainable> {
  const file = createDummyFile('llama', { sizes: SIZES, format: 'q8_0', bias: false, fused: false })
  return loadTrainable(device, file, { contextLength: 4096, lora: { rank: 4 } })
}

function trainerOf(trainable: Trainable, options: Omit<StepOptions, 'optimizer'>): Trainer {
  return createTrainer(trainable, { optimizer: adamw(trainable.parameters), clipNorm: 1, ...options })
}

const sequence = (length: number): { ids: number[] } => ({ ids: Array.from({ length }, (_, i) => (7 * i + 3) % 29) })

test('a step of 4,096 tokens holds a tile of its logits', async () => {
  await using device = openNull()
  const trainable = await loadDummy(device)
  const batch = makeBatch(device, [sequence(4097)])
  using trainer = trainerOf(trainable, { recompute: true })
  const { step, total, weights, parameters, state } = await trainer.memory([batch])
  expect(step).toBeLessThan((4 * 4096 * SIZES.vocabulary) / 2)
  expect(total).toBe(step + weights + parameters + state)
  expect(state).toBe(2 * parameters + 4)
  trainable.free()
})

test.for([true, false])('so does one of pairs, where layers are computed again: %s', async (recompute) => {
  await using device = openNull()
  const trainable = await loadDummy(device)
  const batch = makeBatch(device, [sequence(513), sequence(513)])
  using trainer = trainerOf(trainable, { recompute, loss: pairLoss(trainable, 0.1) })
  using plain = trainerOf(trainable, { recompute })
  const [pairs, texts] = [await trainer.memory([batch]), await plain.memory([batch])]
  expect(pairs.step).toBeLessThan(4 * 1024 * SIZES.vocabulary)
  // What the model was has no gradients: nothing of it is kept.
  expect(pairs.step).toBeLessThan(1.2 * texts.step)
  trainable.free()
})

test('layers are computed again where a step would need more memory than there is', async () => {
  await using device = openNull()
  const trainable = await loadDummy(device)
  const batches = [makeBatch(device, [sequence(513)])]
  using kept = trainerOf(trainable, { recompute: false })
  using again = trainerOf(trainable, { recompute: true })
  const [all, less] = [await kept.memory(batches), await again.memory(batches)]
  expect(less.step).toBeLessThan(all.step)
  const chooses = async (memory: number): Promise<boolean> => {
    using trainer = trainerOf(trainable, { memory })
    const stated = await trainer.memory(batches)
    expect(stated).toMatchObject({ limit: memory, ...(stated.recompute ? { kept: all.total } : {}) })
    return stated.recompute
  }
  expect(await chooses(all.total)).toBe(false)
  expect(await chooses(all.total - 1)).toBe(true)
  trainable.free()
})

test.each([1, 3])('what is stated for %i batches is what the device has then', async (count) => {
  await using device = await openCpu()
  const { bytesLive } = { ...device.stats }
  await using gguf = await openGguf(await tinyModel())
  const trainable = await loadTrainable(device, gguf, { contextLength: 64, lora: { rank: 4 } })
  using trainer = trainerOf(trainable, {})
  const batches = Array.from({ length: count }, () => makeBatch(device, [sequence(65)]))
  const { total } = await trainer.memory(batches)
  await trainer.step(batches, 0.01)
  const used = device.stats.bytesLive - bytesLive
  expect(used).toBeGreaterThan(0.97 * total)
  expect(used).toBeLessThan(1.03 * total)
  trainable.free()
})

test('plans of other shapes, and measuring, need no more than the largest', async () => {
  await using device = await openCpu()
  await using gguf = await openGguf(await tinyModel())
  const trainable = await loadTrainable(device, gguf, { contextLength: 64, lora: { rank: 4 } })
  const { bytesLive: free } = { ...device.stats }
  const run = async (...lengths: readonly number[]): Promise<{ losses: number[]; bytes: number }> => {
    const trainer = trainerOf(trainable, {})
    const losses: number[] = []
    for (const length of lengths) losses.push((await trainer.step([makeBatch(device, [sequence(length)])], 0)).loss)
    losses.push(await trainer.evaluate(makeBatch(device, [sequence(33)])))
    const bytes = device.stats.bytesLive - free
    trainer[Symbol.dispose]()
    await new Promise((resolve) => setTimeout(resolve, 20)) // plans go after the calls under way
    return { losses, bytes }
  }
  const alone = await run(65)
  const all = await run(17, 65, 33, 49, 17)
  expect(all.bytes).toBeLessThan(1.1 * alone.bytes)
  // What was recorded for small buffers goes on in larger ones.
  expect(all.losses[4]).toBe(all.losses[0])
  expect(all.losses[1]).toBe(alone.losses[0])
  expect(all.losses[5]).toBe(alone.losses[1])
  trainable.free()
})

test('over hundreds of steps nothing grows', async () => {
  await using device = await openCpu()
  await using gguf = await openGguf(await tinyModel())
  const trainable = await loadTrainable(device, gguf, { contextLength: 16, lora: { rank: 2, targets: ['attn_q'] } })
  using trainer = trainerOf(trainable, {})
  const counts: number[][] = []
  for (let step = 0; step < 300; step++) {
    // Shapes of padded rows come and go; now and then there is a measurement.
    await trainer.step([makeBatch(device, [sequence(5 + 4 * (step % 3))])], 0.01)
    if (step % 10 === 9) await trainer.evaluate(makeBatch(device, [sequence(9)]))
    const { bytesLive, buffers, compiles, submissions, dispatches } = device.stats
    counts.push([bytesLive, buffers, compiles, submissions, dispatches])
  }
  const [early, late] = [counts[29]!, counts.at(-1)!]
  expect(late.slice(0, 3)).toEqual(early.slice(0, 3))
  // As many submissions and dispatches for thirty steps as in the beginning: nothing is planned, moved or computed beside them.
  const during = (from: number): number[] => [3, 4].map((i) => counts[from + 30]![i]! - counts[from]![i]!)
  expect(during(269)).toEqual(during(29))
  trainable.free()
})

test('computed again, gradients are the same to the last bit', async () => {
  await using device = await openCpu()
  const run = async (recompute: boolean): Promise<unknown[]> => {
    await using gguf = await openGguf(await tinyModel())
    const trainable = await loadTrainable(device, gguf, { contextLength: 16, lora: { rank: 4 } })
    using trainer = trainerOf(trainable, { recompute })
    const batches = [makeBatch(device, [sequence(9), sequence(6)])]
    const results = [await trainer.step(batches, 0.01), await trainer.step(batches, 0.01)]
    const learnt = await Promise.all(Object.values(trainable.parameters).map((each) => each.data()))
    trainable.free()
    return [results, learnt]
  }
  expect(await run(true)).toEqual(await run(false))
})

test('the loss of tiles is that of all rows', async () => {
  await using device = await openCpu()
  const [rows, vocabulary] = [70, 2 ** 18]
  const of = (length: number, f: (i: number) => number, dtype: 'f32' | 'i32' = 'f32'): Tensor =>
    Tensor.from(Array.from({ length }, (_, i) => f(i)), { dtype, device }) // prettier-ignore
  const hidden = of(rows * 2, (i) => Math.sin(3 * i)).reshape(rows, 2)
  const weight = Tensor.iota([vocabulary, 2], 0, { device }).to('f32').mul(1e-5).sin()
  const targets = of(rows, (i) => (i % 9 === 0 ? IGNORED : (i * 3701) % vocabulary), 'i32')
  const logits = (x: Tensor): Tensor => x.linear(weight)
  const model = { vocabulary, width: 2, state: { caches: [] }, forward: () => hidden, logits }
  const each = await logits(hidden).crossEntropy(targets, { ignoreIndex: IGNORED, reduction: 'none' }).data()
  const tiled = await surprisesOf(model, hidden, targets).data()
  each.forEach((loss, row) => expect(tiled[row]).toBeCloseTo(loss, 4))
  const got = await crossEntropyOf(model, hidden, targets).item()
  expect(got).toBeCloseTo(await logits(hidden).crossEntropy(targets, { ignoreIndex: IGNORED }).item(), 4)
})
