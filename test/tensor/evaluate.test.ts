// Values on demand: what is one submission, what is computed once, and whose memory comes back when.

import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { heldBytes } from '../../src/tensor/storage.ts'
import { scope } from '../../src/tensor/scope.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const KIB = 1024

/** The submissions and dispatches of some work. */
async function cost(device: Device, work: () => unknown): Promise<{ submissions: number; dispatches: number }> {
  const before = { ...device.stats }
  await work()
  return { submissions: device.stats.submissions - before.submissions, dispatches: device.stats.dispatches - before.dispatches }
}

test('values come from lists, typed arrays and numbers, and go back', async () => {
  await using device = openReference()
  const of = (values: Parameters<typeof Tensor.from>[0], options = {}): Tensor => Tensor.from(values, { device, ...options })
  expect(await of([[1, 2], [3, 4.5]]).toArray()).toEqual([[1, 2], [3, 4.5]]) // prettier-ignore
  expect(await of(7).item()).toBe(7)
  expect(of(7).shape).toEqual([])
  expect(of(new Int32Array([1, -2])).dtype).toBe('i32')
  expect(
    await of(new Uint8Array([1, 200]))
      .add(100)
      .data(),
  ).toEqual(Uint8Array.of(101, 44)) // wraps, as the type does
  expect(await of([[true, false]]).toArray()).toEqual([[1, 0]])
  expect(of([true]).dtype).toBe('bool')
  expect(await of([1, 2, 3, 4], { shape: [2, 2], dtype: 'f16' }).mul(3).toArray()).toEqual([[3, 6], [9, 12]]) // prettier-ignore
  expect(
    await of(new BigInt64Array([5n, -3n]))
      .to('f32')
      .data(),
  ).toEqual(Float32Array.of(5, -3))
  expect(await of(new Int16Array([5, -3])).data()).toEqual(Int32Array.of(5, -3))
  expect(await of(new Uint16Array([65_535])).data()).toEqual(Int32Array.of(65_535))
  expect(
    await of(new Uint8Array([0, 7]), { dtype: 'bool' })
      .sum()
      .item(),
  ).toBe(1)
  expect(of(new Float64Array(2)).dtype).toBe('f32') // few devices have doubles
  expect(inspect(of([[1, 2]]))).toBe('Tensor(f32[1, 2])')
  const given = Float32Array.of(1, 2)
  const copy = of(given)
  given[0] = 9
  expect(await copy.data()).toEqual(Float32Array.of(1, 2))
})

test('what is made without values: zeros, ones, eye, arange, linspace, iota', async () => {
  await using device = openReference()
  const list = (tensor: Tensor): Promise<unknown> => tensor.toArray()
  expect(await list(Tensor.zeros([2], { device }))).toEqual([0, 0])
  expect(await list(Tensor.ones([2], { device, dtype: 'i8' }))).toEqual([1, 1])
  expect(await list(Tensor.full([2], 2.5, { device }))).toEqual([2.5, 2.5])
  expect(await list(Tensor.full([1], -7, { device, dtype: 'i32' }))).toEqual([-7])
  expect(await list(Tensor.eye(2, 3, { device, k: 1 }))).toEqual([[0, 1, 0], [0, 0, 1]]) // prettier-ignore
  expect(await list(Tensor.arange(3))).toEqual([0, 1, 2])
  expect(await list(Tensor.arange(5, 0, -2, { device }))).toEqual([5, 3, 1])
  expect(await list(Tensor.arange(0, 1, 0.25, { device }))).toEqual([0, 0.25, 0.5, 0.75])
  expect(await list(Tensor.linspace(0, 1, 3, { device }))).toEqual([0, 0.5, 1])
  expect(await list(Tensor.iota([2, 2], 0, { device }))).toEqual([[0, 0], [1, 1]]) // prettier-ignore
  expect(() => Tensor.arange(0, 1, -1)).toThrow(/no such numbers/)
})

test('whatever hangs together is one submission, and asked for together is one, too', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2, 3], { device })
  const y = x.add(1).mul(x).softmax().sum()
  expect(await cost(device, () => y.item())).toEqual({ submissions: 1, dispatches: 3 })
  const [a, b] = [x.exp(), x.sum()]
  expect((await cost(device, () => Promise.all([a.data(), b.data()]))).submissions).toBe(1)
})

test('what somebody holds is not computed twice; what nobody wants is not computed at all', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2, 3, 4], { device })
  const total = x.exp().sum()
  const [half, third] = [total.div(2), total.div(3)]
  expect((await cost(device, () => half.item())).dispatches).toBe(2)
  expect((await cost(device, () => third.item())).dispatches).toBe(1) // the sum is there
  expect((await cost(device, () => third.item())).dispatches).toBe(0)
  x.sin()
  expect(device.stats.submissions).toBe(3)
})

test('a loop that goes on from its last result computes each step once', async () => {
  await using device = openReference()
  let x = Tensor.from([1, 2], { device })
  const costs = []
  for (let i = 0; i < 5; i++) {
    x = x.mul(2).flip()
    costs.push((await cost(device, () => x.sum().item())).dispatches)
  }
  expect(await x.data()).toEqual(Float32Array.of(64, 32))
  expect(new Set(costs.slice(1)).size).toBe(1)
})

test('an assignment changes the tensor, and nothing that was computed from it', async () => {
  await using device = openReference()
  const w = Tensor.from([1, 2], { device })
  const before = w.mul(10)
  w.assign(w.add(1))
  const after = w.mul(10)
  expect([await before.toArray(), await after.toArray(), await w.toArray()]).toEqual([
    [10, 20],
    [20, 30],
    [2, 3],
  ])
})

test('using and scope give memory back at once', async () => {
  await using device = openReference()
  const size = 16 * KIB
  {
    using x = Tensor.ones([size / 4], { device })
    await x.realize()
    expect(heldBytes(device)).toBe(size)
  }
  expect(heldBytes(device)).toBe(0)
  const sum = await scope(async () => {
    const x = Tensor.ones([size / 4], { device })
    await x.realize()
    const y = x.add(Tensor.from(new Float32Array(size / 4), { device }))
    return y.sum()
  })
  expect(await sum.item()).toBe(size / 4)
  expect(heldBytes(device)).toBe(4)
})

test('a tensor that was disposed of is refused, by name; what was computed from it stays', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2], { device })
  const y = await x.mul(2).realize()
  x[Symbol.dispose]()
  expect(() => x.add(1)).toThrow(expect.objectContaining({ code: 'closed' }))
  expect(await y.toArray()).toEqual([2, 4])
})

test('tensors of two devices do not meet, and one of a closed device says so', async () => {
  await using first = openReference()
  const second = openReference()
  const [a, b] = [Tensor.from([1], { device: first }), Tensor.from([1], { device: second })]
  expect(() => a.add(b)).toThrow(/add: .*different devices/)
  await b.realize()
  await second.close()
  await expect(b.add(1).data()).rejects.toMatchObject({ code: 'closed' })
  expect(await a.add(1).item()).toBe(2)
})

test('10,000 steps of a loop without any dispose hold memory steady', { timeout: 120_000 }, async () => {
  await using device = await openCpu()
  const steps = 10_000
  const rows = Tensor.linspace(-1, 1, 32 * KIB, { device }).reshape(32, KIB) // 128 KiB, as each step makes anew
  let x = Tensor.zeros([32, KIB], { device })
  let [most, early, late] = [0, 0, 0]
  for (let step = 0; step < steps; step++) {
    const change = rows.sub(x).mul(0.5)
    x = x.add(change)
    await x.realize()
    if (step % 100 === 0) await change.sum().item()
    most = Math.max(most, heldBytes(device))
    if (step < steps / 2) early = Math.max(early, device.stats.bytesLive)
    else late = Math.max(late, device.stats.bytesLive)
  }
  expect(await x.sub(rows).abs().max().item()).toBeLessThan(1e-6)
  expect(most).toBeLessThan(300 * 2 ** 20) // each step made 128 KiB at least: 1.2 GiB in all
  expect(late).toBeLessThan(1.2 * early)
})

test('graphs that differ in the sign of a zero, or in infinities, are different graphs', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2], { device })
  const results = [0, -0, Infinity, -Infinity, Number.NaN].map((value) => x.mul(value).data())
  expect((await Promise.all(results)).map(([first]) => first)).toEqual([0, -0, Infinity, -Infinity, Number.NaN])
  const [plus, minus] = [await x.mul(0).data(), await x.mul(-0).data()]
  expect([plus[0], minus[0]]).toEqual([0, -0])
})
