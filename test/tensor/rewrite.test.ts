// What rewriting and sharing recipes must not change: the digits that a type holds, and which memory is which.

import { expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { assignment, buildPlan } from '../../src/tensor/plan.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

test.each([
  ['f16', [2048], (x: Tensor) => x.add(1).sub(2048), [0]], // 2049 has a digit too many
  ['bf16', [256], (x: Tensor) => x.add(1).sub(256), [0]],
  ['i8', [100], (x: Tensor) => x.add(100).quotient(2), [-28]], // 200 wraps to -56
  ['u8', [200], (x: Tensor) => x.add(100).quotient(2), [22]],
] as const)('a chain of %s rounds or wraps between its operations, in one kernel', async (dtype, values, chain, expected) => {
  await using device = openReference()
  const result = chain(Tensor.from([...values], { dtype, device }))
  expect(await result.toArray()).toEqual(expected)
  expect(device.stats.dispatches).toBe(1)
})

/** The sum of a leaf after 1 was added to it, and of another one before: a plan of this form for any two memories. */
async function sums(device: Device, first: Storage, second: Storage): Promise<number | undefined> {
  const [x, y] = [Tensor.leaf(first, [4]), Tensor.leaf(second, [2, 2])]
  const result = assignment(x, x.add(1)).sum().add(y.sum())
  using plan = await buildPlan(device, { reads: [result] })
  const [bytes] = await plan.run()
  return new Float32Array(bytes!.slice().buffer)[0]
}

test('two leaves of one memory are not taken for two memories, though a plan for two was made before', async () => {
  await using device = openReference()
  const storage = (): Storage => {
    const buffer = device.alloc(16)
    device.write(buffer, 0, new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer))
    return new Storage('plain', buffer)
  }
  expect(await sums(device, storage(), storage())).toBe(14 + 10)
  const one = storage()
  expect(await sums(device, one, one)).toBe(14 + 10) // what was there before is what the second one sees
})

test.each([1, 2, 3])('a product reads factors that are transposed %i times where they lie', async (times) => {
  await using device = openReference()
  const of = (shape: number[]): Tensor =>
    Tensor.from(Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.cos(i)), { shape, device }) // prettier-ignore
  const turn = (x: Tensor, count: number): Tensor => (count === 0 ? x : turn(x.transpose(), count - 1))
  const [a, b] = [of([3, 9, 9]), of([9, 9])]
  await a.realize()
  await b.realize()
  const { dispatches } = { ...device.stats }
  const got = await turn(a, times)
    .matmul(turn(b, times + 1))
    .data()
  expect(device.stats.dispatches - dispatches).toBe(1)
  const copied = (x: Tensor, isTurned: boolean): Tensor => (isTurned ? x.transpose().mul(1) : x)
  const want = await copied(a, times % 2 === 1).matmul(copied(b, times % 2 === 0)).data() // prettier-ignore
  got.forEach((value, i) => expect(value).toBeCloseTo(want[i]!, 5))
})
