// Tensors and where they lie: handles of two devices are never mixed up, and what is too large is refused by the device, in its words,
// while everything made before stays as it is.

import { describe, expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { openNull } from '../../src/device/null/null.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { closeDevices, setDefaultDevice } from '../../src/tensor/default-device.ts'
import { compile } from '../../src/tensor/compile.ts'
import { assignment, buildPlan } from '../../src/tensor/plan.ts'
import { heldBytes } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const refused = (message: RegExp) =>
  expect.objectContaining({ code: 'bad-argument', message: expect.stringMatching(message) as string }) as Error

describe('of two devices', () => {
  /** One without a device, which then came to lie on the first, and something on the second. */
  const settled = async (first: Device, second: Device): Promise<[Tensor, Tensor]> => {
    const x = Tensor.from([1, 2, 3])
    await x.add(Tensor.from([1], { device: first })).data()
    return [x, Tensor.from([10, 20, 30], { device: second })]
  }

  test('a tensor lies where it was first used', async () => {
    await using first = openReference()
    await using second = openReference()
    const [x, other] = await settled(first, second)
    expect(x.device).toBe(first)
    expect(() => x.add(other)).toThrow(refused(/different devices/))
    expect(await x.add(1).toArray()).toEqual([2, 3, 4])
  })

  test('a device is the same by its name and by itself', async () => {
    setDefaultDevice('reference')
    try {
      const x = Tensor.from([1, 2, 3])
      const sum = await x.add(1).realize()
      const named = Tensor.from([10, 20, 30], { device: 'reference' })
      expect(await sum.add(named).add(x).toArray()).toEqual([13, 25, 37])
    } finally {
      setDefaultDevice('auto')
      await closeDevices()
    }
  })

  test('what was written down before it lay anywhere is refused when it is computed', async () => {
    await using first = openReference()
    await using second = openReference()
    const x = Tensor.from([1, 2, 3])
    const [there, here] = [x.add(Tensor.from([1], { device: first })), x.mul(Tensor.from([2], { device: second }))]
    expect(await there.toArray()).toEqual([2, 3, 4])
    await expect(here.data()).rejects.toThrow(refused(/lies on another device.*bring its data\(\) there/))
    expect(await there.add(x).toArray()).toEqual([3, 5, 7])
  })

  test('so it is by compiled functions and plans', async () => {
    await using first = openReference()
    await using second = openReference()
    const [x, other] = await settled(first, second)
    using both = compile((a: Tensor, b: Tensor) => [a.add(1), b.add(1)])
    await expect(both(x, other)).rejects.toThrow(refused(/different devices/))
    expect((await both(x, x)).map(({ device }) => device)).toEqual([first, first])
    await expect(both(other, other)).rejects.toThrow(refused(/another device/)) // the plan is the first one's
    await expect(buildPlan(second, { reads: [x] })).rejects.toThrow(refused(/another device/))
    expect(() => assignment(x, other)).toThrow(refused(/different devices/))
    expect(await other.add(1).toArray()).toEqual([11, 21, 31])
  })
})

const SMALL = { bufferBytes: 2 ** 20, bindingBytes: 2 ** 20 }
describe.each([
  ['reference', async () => openReference({ check: false, caps: SMALL }), true],
  ['null', async () => openNull(SMALL), false],
  ['cpu', () => openCpu({ level: 'wasm' }), true], // as native code, it has what the machine has
] as const)('too much for %s', (_name, open, isComputed) => {
  test('is refused by the device, and the rest stays usable', async () => {
    await using device = await open()
    const x = await Tensor.from([1, 2, 3], { device }).realize()
    const kept = await x.mul(2).realize()
    const held = heldBytes(device)
    const huge = Tensor.ones([2 ** 31], { device })
    for (const work of [() => huge.data(), () => huge.add(x.sum()).realize(), () => huge.cumsum().sum().item()])
      await expect(work()).rejects.toMatchObject({
        name: 'IngotError',
        code: expect.stringMatching(/^(too-large|out-of-memory)$/) as string,
      })
    using step = compile((a: Tensor) => a.expand(2 ** 30, 3).add(1))
    await expect(step(x)).rejects.toMatchObject({ code: expect.stringMatching(/^(too-large|out-of-memory)$/) as string })
    expect(heldBytes(device)).toBe(held)
    if (isComputed)
      expect([await x.toArray(), await kept.add(1).toArray()]).toEqual([[1, 2, 3], [3, 5, 7]]) // prettier-ignore
    else await expect(kept.add(1).data()).resolves.toHaveLength(3)
  })

  test('what was written down before stays, whatever it was to be computed with', async () => {
    await using device = await open()
    const x = Tensor.from([1, 2, 3], { device })
    const [sum, product] = [x.add(1), x.mul(2)]
    const huge = sum
      .add(product)
      .expand(2 ** 30, 3)
      .cumsum(1)
    await expect(Promise.all([huge.data(), product.data()])).rejects.toMatchObject({ name: 'IngotError' })
    await expect(huge.realize()).rejects.toMatchObject({ name: 'IngotError' })
    const values = Promise.all([sum.toArray(), product.add(1).toArray(), x.toArray()])
    if (isComputed)
      expect(await values).toEqual([[2, 3, 4], [3, 5, 7], [1, 2, 3]]) // prettier-ignore
    else expect(await values).toHaveLength(3)
  })

  test('fills up one buffer after the other, and gives back what is not used', async () => {
    await using device = await open()
    const before = device.stats.bytesLive
    const x = Tensor.ones([2 ** 28], { device }) // a gigabyte
    const tensors = Array.from({ length: 8 }, (_, i) => x.add(i))
    await expect(Promise.all(tensors.map((tensor) => tensor.cumsum().realize()))).rejects.toMatchObject({ name: 'IngotError' })
    expect(device.stats.bytesLive).toBe(before)
    expect(await Tensor.from([1, 2], { device }).add(1).data()).toHaveLength(2)
  })
})
