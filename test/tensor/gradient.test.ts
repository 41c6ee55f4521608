// Gradients by transformation of the graph: against differences of values on random graphs, of gradients again, and what is asked of
// their callers. Those of single operations are held against PyTorch's in test/data.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { checkpoint, grad, gradients, valueAndGrad } from '../../src/tensor/grad.ts'
import { buildPlan } from '../../src/tensor/plan.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const open = (): Device => openReference({ check: false })

/** What a random graph does next, with a tensor of [3, 4] and another one of that shape. */
const STEPS: readonly ((x: Tensor, y: Tensor) => Tensor)[] = [
  (x) => x.tanh(),
  (x) => x.sigmoid().mul(x),
  (x) => x.sin(),
  (x) => x.mul(0.3).exp(),
  (x) => x.square().add(1).sqrt(),
  (x) => x.square().add(1).log(),
  (x) => x.gelu(),
  (x, y) => x.add(y),
  (x, y) => x.mul(y),
  (x, y) => x.sub(y.mul(2)),
  (x, y) => x.div(y.square().add(1)),
  (x) => x.sub(x.mean(-1, true)),
  (x) => x.mul(x.sum(0, true)),
  (x, y) => x.max(1, true).add(y),
  (x) => x.softmax(0),
  (x) => x.logSoftmax(),
  (x) => x.flip(1),
  (x) => x.transpose().reshape(3, 4),
  (x, y) => Tensor.concat([x.slice([0, 1]), y.slice([1, 3])]),
  (x) => x.slice(null, [0, 4, 2]).tile(1, 2),
  (x) => x.pad([[1, 0], [0, 0]]).slice([0, 3]), // prettier-ignore
  (x, y) => x.matmul(y.transpose()).matmul(y),
  (x) => x.cumsum(1),
  (x) => x.roll(1, 1).cumprod(0),
  (x) => x.layerNorm(),
  (x) => x.rmsNorm(),
  (x) => x.gather(Tensor.from([2, 0, 0], { dtype: 'i32' })),
  (x, y) => x.gt(0).where(x, y),
  (x) => x.minimum(0.4).maximum(-0.4),
]

const graph = fc.array(fc.tuple(fc.nat(STEPS.length - 1), fc.nat(9)), { minLength: 1, maxLength: 5 })
/** Twelve numbers of which no two are equal and none is zero, where conditions change over. */
const values = fc
  .array(fc.double({ min: -1.5, max: 1.5, noNaN: true }), { minLength: 12, maxLength: 12 })
  .map((list) => list.map((value, i) => value + Math.sin(7 * i + 1) / 8))

/** The sum of what a graph computes of x. */
function compute(x: Tensor, steps: readonly (readonly [number, number])[]): Tensor {
  const made = [x]
  for (const [step, other] of steps) made.push(STEPS[step]!(made.at(-1)!, made[other % made.length]!))
  return made
    .at(-1)!
    .mul(Tensor.linspace(-1, 1, 12, { dtype: 'f64' }).reshape(3, 4))
    .sum()
}

const double = (device: Device, list: readonly number[]): Tensor =>
  Tensor.from(Float64Array.from(list), { shape: [3, 4], dtype: 'f64', device })

/**
 * How a function changes with each element, by its values nearby. NaN at a kink, where it changes differently on either side, and where
 * it bends so much that a step of another size gives another answer.
 */
async function differences(device: Device, list: readonly number[], f: (x: Tensor) => Tensor): Promise<number[]> {
  const step = 1e-5
  const near = list.flatMap((value, i) => [1, -1, 2, -2].map((by) => f(double(device, list.with(i, value + by * step))).item()))
  const [here, ...results] = await Promise.all([f(double(device, list)).item(), ...near])
  return list.map((_, i) => {
    const [up, down, farUp, farDown] = results.slice(4 * i, 4 * i + 4).map((value) => value - here) as [number, number, number, number]
    const [slope, far] = [(up - down) / (2 * step), (farUp - farDown) / (4 * step)]
    const isKink = Math.abs(up + down) > 1e-2 * step * (1 + Math.abs(slope))
    return isKink || Math.abs(slope - far) > 1e-6 * (1 + Math.abs(slope)) ? Number.NaN : slope
  })
}

describe('random graphs', () => {
  test('gradients are what differences say', { timeout: 120_000 }, async () => {
    await using device = open()
    await fc.assert(
      fc.asyncProperty(graph, values, async (steps, list) => {
        const f = (x: Tensor): Tensor => compute(x, steps)
        const measured = await differences(device, list, f)
        fc.pre(!measured.some(Number.isNaN))
        const found = [...(await grad(f)(double(device, list)).data())]
        const size = Math.max(1, ...measured.map(Math.abs))
        found.forEach((value, i) => expect(Math.abs(value - measured[i]!) / size).toBeLessThan(1e-5))
      }),
      { numRuns: 50 },
    )
  })

  test('so are gradients of gradients', { timeout: 120_000 }, async () => {
    await using device = open()
    const smooth = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 21, 24]
    const chosen = fc.array(fc.tuple(fc.constantFrom(...smooth), fc.nat(9)), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(chosen, values, async (steps, list) => {
        const weights = Tensor.linspace(0.5, -1, 12, { dtype: 'f64' }).reshape(3, 4)
        const slope = (x: Tensor): Tensor =>
          grad((z: Tensor) => compute(z, steps))(x)
            .mul(weights)
            .sum()
        const measured = await differences(device, list, slope)
        fc.pre(!measured.some(Number.isNaN))
        const found = [...(await grad(slope)(double(device, list)).data())]
        const size = Math.max(1, ...measured.map(Math.abs))
        found.forEach((value, i) => expect(Math.abs(value - measured[i]!) / size).toBeLessThan(1e-4))
      }),
      { numRuns: 15 },
    )
  })
})

test('of trees of tensors, and of the arguments that are named', async () => {
  await using device = open()
  const of = (...list: number[]): Tensor => Tensor.from(list, { device })
  const f = (p: { w: Tensor; more: Tensor[] }, x: Tensor): Tensor => p.w.mul(x).add(p.more[0]!).sum()
  const [value, g] = valueAndGrad(f)({ w: of(1, 2), more: [of(3, 4)] }, of(5, 6))
  expect([await value.item(), await g.w.toArray(), await g.more[0]!.toArray()]).toEqual([24, [5, 6], [1, 1]])
  const second = grad(f, { argument: 1 })({ w: of(1, 2), more: [of(3, 4)] }, of(5, 6))
  expect(await second.toArray()).toEqual([1, 2])
  const both = grad((a: Tensor, b: Tensor) => a.mul(b).sum(), { argument: [0, 1] })(of(1, 2), of(3, 4))
  expect([await both[0].toArray(), await both[1].toArray()]).toEqual([[3, 4], [1, 2]]) // prettier-ignore
})

test('weights of linear layers and embeddings have the gradients of what these stand for', async () => {
  await using device = open()
  const of = (shape: number[], dtype: 'f32' | 'f16' = 'f32'): Tensor =>
    Tensor.from(
      Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => ((7 * i) % 5) - 2),
      { shape, dtype, device },
    )
  const [x, b] = [of([2, 3, 4]), of([5])]
  const ids = Tensor.from([[4, 0], [4, 1]], { dtype: 'u32', device }) // prettier-ignore
  for (const dtype of ['f32', 'f16'] as const) {
    const w = of([5, 4], dtype)
    const all = (f: (x: Tensor, w: Tensor, b: Tensor) => Tensor): Promise<unknown[]> => {
      const found = grad(
        (...args: [Tensor, Tensor, Tensor]) =>
          f(...args)
            .square()
            .sum(),
        { argument: [0, 1, 2] },
      )(x, w, b)
      return Promise.all(found.map((each) => each.toArray()))
    }
    const plain = await all((x, w, b) => x.matmul(w.to('f32').transpose()).add(b))
    expect(await all((x, w, b) => x.linear(w, b))).toEqual(plain)
    const rows = (f: (w: Tensor) => Tensor): Promise<unknown> => grad((w: Tensor) => f(w).square().sum())(w).toArray()
    expect(await rows((w) => w.embedding(ids.to('i32')))).toEqual(await rows((w) => w.embedding(ids)))
    expect(await rows((w) => w.embedding(ids))).toEqual(await rows((w) => w.to('f32').gather(ids)))
  }
})

test('only what comes through the argument counts', async () => {
  await using device = open()
  const x = Tensor.from([2, 3], { device })
  expect(await grad((y: Tensor) => y.mul(x).sum())(x).toArray()).toEqual([2, 3])
  expect(await grad((y: Tensor) => y.mul(y).sum())(x).toArray()).toEqual([4, 6])
  expect(await grad((y: Tensor) => y.mul(y.stopGradient()).sum())(x).toArray()).toEqual([2, 3])
  expect(await grad((y: Tensor) => y.mul(0).stopGradient().add(x).sum())(x).toArray()).toEqual([0, 0])
})

test('with a given cotangent, of tensors in the middle', async () => {
  await using device = open()
  const x = Tensor.from([1, 2, 3], { device })
  const h = x.square()
  const [dh, dx] = gradients(h.mul(2), [h, x], Tensor.from([1, 10, 100], { device }))
  expect([await dh!.toArray(), await dx!.toArray()]).toEqual([[2, 20, 200], [4, 80, 1200]]) // prettier-ignore
})

test('a checkpoint gives the same gradients in less memory', async () => {
  await using device = open()
  const layer = (x: Tensor): Tensor => x.matmul(x.transpose()).tanh().matmul(x).mul(0.1).sin()
  const block = (x: Tensor): Tensor => layer(layer(layer(layer(x))))
  const loss =
    (wrap: (f: (x: Tensor) => Tensor) => (x: Tensor) => Tensor) =>
    (x: Tensor): Tensor => {
      const own = wrap(block)
      return own(own(own(own(x)))).sum()
    }
  const x = Tensor.linspace(-1, 1, 64, { device }).reshape(8, 8)
  const kept = grad(loss((f) => f))(x)
  const again = grad(loss((f) => checkpoint(f)))(x)
  using first = await buildPlan(device, { reads: [kept] })
  using second = await buildPlan(device, { reads: [again] })
  expect(second.dispatches).toBeGreaterThan(first.dispatches)
  expect(second.arenaBytes).toBeLessThan(0.6 * first.arenaBytes)
  const [a, b] = [await kept.data(), await again.data()]
  a.forEach((value, i) => expect(b[i]).toBeCloseTo(value, 6))
})

describe('bad input', () => {
  const x = Tensor.from([1, 2])
  test.each([
    ['a result of several elements', () => grad((y: Tensor) => y.mul(2))(x), /no single number/],
    ['integers', () => grad((y: Tensor) => y.to('f32').sum())(Tensor.from([1], { dtype: 'i32' })), /only floats have gradients/],
    ['a result of integers', () => grad((y: Tensor) => y.argmax().to('i32'))(x), /only floats can be differentiated/],
    ['no tensor', () => grad((y: number) => Tensor.from(y))(1), /holds no tensors/],
    ['no result', () => grad((y: Tensor): Tensor => y.rank as never)(x), /gives no tensor/],
    ['a cotangent of another shape', () => gradients(x.mul(2), [x], Tensor.from([1])), /another shape/],
  ] as const)('%s', (_name, run, message) => {
    expect(run).toThrow(expect.objectContaining({ code: 'bad-argument', message: expect.stringMatching(message) as string }))
  })

  test('what cannot be differentiated says so', () => {
    const values = Tensor.from([[1, 2, 3, 4]])
    expect(() => grad((y: Tensor) => y.candidates(2).to('f32').sum())(values)).not.toThrow() // ids do not change
    const places = { positions: Tensor.iota([1]), slots: Tensor.iota([1]), table: Tensor.iota([1, 1]) }
    expect(() => grad((y: Tensor) => y.cacheWrite(x.reshape(1, 2), places).sum())(Tensor.zeros([1, 64, 2]))).toThrow(
      expect.objectContaining({ code: 'unsupported' }),
    )
  })
})
