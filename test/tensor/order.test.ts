// Assignments: who reads an old value reads it before it is overwritten, or reads a copy; what can be computed in place is.

import { expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { operandsOf } from '../../src/tensor/node.ts'
import { graphOf } from '../../src/tensor/graph.ts'
import { orderNodes } from '../../src/tensor/order.ts'
import { type Plan, assignment, buildPlan } from '../../src/tensor/plan.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

function variable(device: Device, values: readonly number[]): Tensor {
  const buffer = device.alloc(4 * values.length)
  device.write(buffer, 0, new Uint8Array(Float32Array.from(values).buffer))
  return Tensor.over(buffer, [values.length])
}

async function valuesOf(device: Device, tensor: Tensor): Promise<number[]> {
  using plan = await buildPlan(device, { reads: [tensor] })
  return numbers((await plan.run())[0])
}

const numbers = (bytes: Uint8Array | undefined): number[] => [...new Float32Array(bytes!.slice().buffer)]
const read = async (plan: Plan): Promise<number[][]> => (await plan.run()).map(numbers)

test('w = w - lr * g works in place, and each run sees the last', async () => {
  await using device = openReference()
  const [w, g] = [variable(device, [1, 2, 3]), variable(device, [1, 0, -1])]
  const plan = await buildPlan(device, { effects: [assignment(w, w.sub(g.mul(0.5)))] })
  expect([plan.dispatches, plan.arenaBytes]).toEqual([1, 0])
  await plan.run()
  await plan.run()
  expect(await valuesOf(device, w)).toEqual([0, 2, 4])
})

test.each([0, 1])('what else reads the old value comes before, wherever it is asked for (%d)', async (order) => {
  await using device = openReference()
  const w = variable(device, [1, 2, 3])
  const [before, after] = [w.mul(10), assignment(w, w.add(1))]
  // The result is wanted after the assignment in one order of the roots, and before it in the other.
  const plan = await buildPlan(device, { reads: order === 0 ? [before, after] : [after, before] })
  const results = await read(plan)
  expect(order === 0 ? results : results.toReversed()).toEqual([
    [10, 20, 30],
    [2, 3, 4],
  ])
})

test('a reader of both old and new gets a copy of the old', async () => {
  await using device = openReference()
  const w = variable(device, [1, 2, 3])
  const next = assignment(w, w.mul(2))
  const plan = await buildPlan(device, { reads: [next.sub(w), w] })
  expect(await read(plan)).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ])
  expect(await valuesOf(device, w)).toEqual([2, 4, 6])
})

test('two variables exchange their values', async () => {
  await using device = openReference()
  const [a, b] = [variable(device, [1, 2]), variable(device, [3, 4])]
  const plan = await buildPlan(device, { effects: [assignment(a, b), assignment(b, a)] })
  await plan.run()
  expect([await valuesOf(device, a), await valuesOf(device, b)]).toEqual([
    [3, 4],
    [1, 2],
  ])
})

test('and so they do when each is computed from the other', async () => {
  await using device = openReference()
  const [a, b] = [variable(device, [1, 2]), variable(device, [3, 4])]
  const plan = await buildPlan(device, { effects: [assignment(a, b.add(a)), assignment(b, a.sub(b))] })
  await plan.run()
  expect([await valuesOf(device, a), await valuesOf(device, b)]).toEqual([
    [4, 6],
    [-2, -2],
  ])
})

test('a value that reads other elements is not computed in place', async () => {
  await using device = openReference()
  const w = variable(device, [1, 2, 3, 4])
  const plan = await buildPlan(device, { effects: [assignment(w, w.flip().add(w))] })
  await plan.run()
  expect(await valuesOf(device, w)).toEqual([5, 5, 5, 5])
  const sum = await buildPlan(device, { effects: [assignment(w, w.sum(0, true).expand(4))] })
  await sum.run()
  expect(await valuesOf(device, w)).toEqual([20, 20, 20, 20])
})

test('nor is a square matrix turned over in place', async () => {
  await using device = openReference()
  const w = variable(device, [1, 2, 3, 4])
  const square = w.reshape(2, 2)
  const plan = await buildPlan(device, { effects: [assignment(w, square.transpose().mul(10).reshape(4))] })
  await plan.run()
  expect(await valuesOf(device, w)).toEqual([10, 30, 20, 40])
})

test('assignments follow each other', async () => {
  await using device = openReference()
  const w = variable(device, [1, 2])
  const once = assignment(w, w.add(1))
  const twice = assignment(once, once.mul(10))
  const plan = await buildPlan(device, { reads: [twice.add(once)] })
  expect(await read(plan)).toEqual([[22, 33]])
  expect(await valuesOf(device, w)).toEqual([20, 30])
})

test('the same memory cannot be changed twice from one value', async () => {
  await using device = openReference()
  const w = variable(device, [1, 2])
  await expect(buildPlan(device, { effects: [assignment(w, w.add(1)), assignment(w, w.add(2))] })).rejects.toThrow(/changed twice/)
})

test('the order puts every reader of a leaf before what overwrites it', () => {
  const device = openReference()
  const w = variable(device, [1, 2])
  const readers = Array.from({ length: 5 }, (_, i) => w.mul(i))
  const { nodes } = orderNodes(graphOf([assignment(w, w.add(1)).node, ...readers.map(({ node }) => node)]), 0)
  const written = nodes.findIndex(({ op }) => op === 'assign')
  const reading = nodes.flatMap((node, at) => (node.op !== 'assign' && operandsOf(node).includes(w.node) ? [at] : []))
  expect(reading).toHaveLength(6)
  for (const at of reading) expect(at).toBeLessThan(written)
})
