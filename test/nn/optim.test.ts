// Optimisers against steps that were computed by hand, in plain doubles, and what they promise about submissions. test/data/optim.test.ts
// compares them with PyTorch's.

import { expect, test } from 'vitest'
import { openReference } from '../../src/device/reference/reference.ts'
import { type Named, type Optimizer, adam, adamw, clipByNorm, clipFactor, globalNorm, lion, sgd } from '../../src/nn/optim.ts'
import { type Schedule, rateAt } from '../../src/nn/schedule.ts'
import { compile } from '../../src/tensor/compile.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

/** Where a parameter that starts at 1 is after updates by gradients of 0.5 and then -1, at a rate of 0.1. */
async function follow(make: (parameters: Named) => Optimizer): Promise<number[]> {
  await using device = openReference()
  const p = Tensor.from([1], { device })
  const optimizer = make({ p })
  const path: number[] = []
  for (const slope of [0.5, -1]) {
    optimizer.update({ p: Tensor.from([slope], { device }) }, 0.1)
    path.push(await p.sum().item())
  }
  return path
}

const HAND: readonly [name: string, make: (parameters: Named) => Optimizer, first: number, second: number][] = [
  ['sgd', (p) => sgd(p), 0.95, 1.05],
  // the momentum is 0.5, then 0.9 * 0.5 - 1 = -0.55
  ['sgd with momentum', (p) => sgd(p, { momentum: 0.9 }), 0.95, 1.005],
  // 0.5, then 0.9 * 0.5 - 0.8 = -0.35: the first gradient is not dampened
  ['sgd with dampening', (p) => sgd(p, { momentum: 0.9, dampening: 0.2 }), 0.95, 0.985],
  // 0.5 + 0.9 * 0.5 = 0.95, then -1 + 0.9 * -0.55 = -1.495
  ['sgd after Nesterov', (p) => sgd(p, { momentum: 0.9, nesterov: true }), 0.905, 1.0545],
  // 0.5 + 0.2 * 1 = 0.7, then -1 + 0.2 * 0.93 = -0.814
  ['sgd with decay', (p) => sgd(p, { weightDecay: 0.2 }), 0.93, 1.0114],
  // means 0.05 / 0.1 and (0.045 - 0.1) / 0.19, squares 0.0025 / 0.01 and (0.002475 + 0.01) / 0.0199
  ['adam', (p) => adam(p, { betas: [0.9, 0.99], eps: 0 }), 0.9, 0.9 + (0.1 * (0.055 / 0.19)) / Math.sqrt(0.012475 / 0.0199)],
  // the same steps, and 0.1 * 0.2 of where it is
  [
    'adamw',
    (p) => adamw(p, { betas: [0.9, 0.99], eps: 0, weightDecay: 0.2 }),
    0.88,
    0.88 * 0.98 + (0.1 * (0.055 / 0.19)) / Math.sqrt(0.012475 / 0.0199),
  ],
  // 0.1 * 0.5 > 0; kept 0.005; 0.9 * 0.005 - 0.1 < 0
  ['lion', (p) => lion(p), 0.9, 1],
  ['lion with decay', (p) => lion(p, { weightDecay: 0.2 }), 0.88, 0.88 + 0.1 - 0.1 * 0.2 * 0.88],
]

test.for(HAND)('%s', async ([, make, first, second]) => {
  const path = await follow(make)
  expect(path[0]).toBeCloseTo(first, 6)
  expect(path[1]).toBeCloseTo(second, 6)
})

test('the mean that lion keeps has a beta of its own', async () => {
  await using device = openReference()
  const p = Tensor.from([1], { device })
  const { state, update } = lion({ p }, { betas: [0.5, 0.75] })
  update({ p: Tensor.from([2], { device }) }, 0.1)
  expect(await state['p.mean']?.toArray()).toEqual([0.5])
})

test('a compiled step is one submission, planned once, and changes parameters and state where they lie', async () => {
  await using device = openReference()
  const parameters = { w: Tensor.from([[1, 2]], { device }), b: Tensor.from([3], { device }) }
  const optimizer = adamw(parameters, { weightDecay: (name) => (name === 'w' ? 0.5 : 0) })
  let traces = 0
  using step = compile((rate: Tensor) => {
    traces++
    const gradients = { w: parameters.w.mul(0), b: parameters.b.mul(0) }
    optimizer.update(gradients, rate)
    return globalNorm(gradients)
  })
  for (const [i, rate] of [0.1, 0.2, 0.4].entries()) {
    const before = device.stats.submissions
    await step(Tensor.from(rate, { device }))
    if (i > 0) expect(device.stats.submissions - before).toBe(1)
  }
  expect(traces).toBe(1)
  // Only decay moves them, and only what it is for.
  const left = 0.95 * 0.9 * 0.8
  expect((await parameters.w.data())[1]).toBeCloseTo(2 * left, 6)
  expect(await parameters.b.toArray()).toEqual([3])
  expect(Object.keys(optimizer.state)).toEqual(['count', 'w.mean', 'w.square', 'b.mean', 'b.square'])
  expect(await optimizer.state['count']?.item()).toBe(3)
})

test('halves are parameters, too: their state is f32', async () => {
  await using device = openReference()
  const p = Tensor.from([1], { dtype: 'f16', device })
  const { state, update } = sgd({ p }, { momentum: 0.5 })
  update({ p: Tensor.from([2], { dtype: 'f16', device }) }, 0.25)
  expect(p.dtype).toBe('f16')
  expect(state['p.momentum']?.dtype).toBe('f32')
  expect(await p.toArray()).toEqual([0.5])
})

test('clipping is by one norm over all gradients', async () => {
  await using device = openReference()
  const gradients = { a: Tensor.from([3, 0], { device }), b: Tensor.from([[4]], { device }) }
  expect(await globalNorm(gradients).item()).toBe(5)
  const { a, b } = clipByNorm(gradients, 1)
  expect((await a?.data())?.[0]).toBeCloseTo(0.6, 6)
  expect(await b?.sum().item()).toBeCloseTo(0.8, 6)
  expect(await clipByNorm(gradients, 6)['b']?.toArray()).toEqual([[4]])
})

/** Dispatches of a compiled update of so many parameters, clipped. */
async function countDispatches(make: (parameters: Named) => Optimizer, parameters: number): Promise<number> {
  await using device = openReference()
  const named = (value: number): Named =>
    Object.fromEntries(Array.from({ length: parameters }, (_, i) => [`p${i}`, Tensor.full([4, 3], value, { device }).add(i)]))
  const [before, slopes] = [named(1), named(2)]
  for (const tensor of [...Object.values(before), ...Object.values(slopes)]) await tensor.realize()
  const optimizer = make(before)
  using step = compile((gradients: Named, rate: Tensor) => {
    optimizer.update(gradients, rate, clipFactor(globalNorm(gradients), 1))
  })
  await step(slopes, Tensor.from(0.1, { device }))
  const { dispatches } = device.stats
  await step(slopes, Tensor.from(0.1, { device }))
  return device.stats.dispatches - dispatches
}

// One for its part of the norm, one for each tensor of its state, one for itself.
const KERNELS: readonly [name: string, make: (parameters: Named) => Optimizer, each: number][] = [
  ['sgd', (p) => sgd(p, { weightDecay: 0.1 }), 2],
  ['sgd with momentum', (p) => sgd(p, { momentum: 0.9, dampening: 0.1, nesterov: true, weightDecay: 0.1 }), 3],
  ['adam', (p) => adam(p, { weightDecay: 0.1 }), 4],
  ['adamw', (p) => adamw(p, { weightDecay: 0.1 }), 4],
  ['lion', (p) => lion(p, { weightDecay: 0.1 }), 3],
]
test.for(KERNELS)('%s: a parameter more is a kernel for each tensor that changes, and one for the norm', async ([, make, each]) => {
  expect((await countDispatches(make, 5)) - (await countDispatches(make, 4))).toBe(each)
})

const RATES: readonly [schedule: Schedule, rates: readonly number[]][] = [
  [{ kind: 'constant' }, [8, 8, 8]],
  [{ kind: 'constant', warmup: 2 }, [4, 8, 8]],
  [{ kind: 'constant', warmup: 2, warmupOffset: 0 }, [0, 4, 8]],
  [{ kind: 'linear', total: 4 }, [8, 6, 4, 2, 0, 0]],
  [{ kind: 'linear', warmup: 1, total: 5, floor: 4 }, [8, 8, 7, 6, 5, 4, 4]],
  [{ kind: 'cosine', total: 2, floor: 2 }, [8, 5, 2, 2]],
  [{ kind: 'step', size: 2, gamma: 0.5 }, [8, 8, 4, 4, 2]],
]
test.for(RATES)('rates of %j', ([schedule, rates]) => {
  rates.forEach((rate, t) => expect(rateAt(schedule, 8, t)).toBeCloseTo(rate, 12))
})

test('what cannot be is refused', async () => {
  await using device = openReference()
  const p = Tensor.from([1], { device })
  expect(() => sgd({})).toThrow('there is nothing to optimise')
  expect(() => adam({ p: p.to('i32') })).toThrow('p cannot be optimised, got i32')
  expect(() => adam({ p }, { betas: [0.9, 1] })).toThrow('no such betas, got 0.9, 1')
  expect(() => adamw({ p }, { weightDecay: -1 })).toThrow('no such weight decay of p')
  expect(() => sgd({ p }).update({ q: p }, 1)).toThrow('there is no gradient for p, got q')
  expect(() => clipByNorm({ p }, 0)).toThrow('no such norm')
  expect(() => globalNorm({})).toThrow('there are no gradients')
  expect(() => rateAt({ kind: 'linear', warmup: 5, total: 5 }, 1, 7)).toThrow('the schedule ends before its warm-up')
  expect(() => rateAt({ kind: 'step', size: 0, gamma: 1 }, 1, 7)).toThrow('steps have no size')
  expect(() => rateAt({ kind: 'constant' }, 1, -1)).toThrow('no such update')
})
