// Metal against WebGPU, kernel by kernel, on the same bytes: two compilers, two GPUs, one meaning.

import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { runFamily } from '../../src/device/open/run-family.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { dequantize } from '../../src/kernel/linear/dequantize.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { randomBlocks } from '../kernel/block.ts'
import { randomFrom } from '../kernel/input.ts'
import { findSoft } from './metal-soft.ts'
import { missingGpu } from './missing.ts'

const { soft, missing } = await findSoft()
const reason = missing ?? (await missingGpu())

describe('metal and webgpu agree', () => {
  beforeEach(({ skip }) => {
    if (reason !== undefined) skip(reason)
  })

  let devices: readonly [Device, Device] | undefined
  afterAll(async () => {
    for (const device of devices ?? []) await device.close()
  })
  const both = async <T>(run: (device: Device) => Promise<T>): Promise<[T, T]> => {
    devices ??= [await soft!.open(), await webgpu.open()]
    return [await run(devices[0]), await run(devices[1])]
  }
  const format = 'q4_k'
  const random = randomFrom(5)
  const floats = (length: number): Float32Array => Float32Array.from({ length }, () => 2 * random() - 1)

  it.each([
    { m: 64, k: 256, n: 1 },
    { m: 19, k: 512, n: 1 },
    { m: 1, k: 768, n: 3 },
    { m: 37, k: 512, n: 11 },
  ])('on products of q4_k, $m x $k x $n', async ({ m, k, n }) => {
    const inputs = { w: randomBlocks(format, m * k, random), x: floats(n * k) }
    const [a, b] = await both((device) => runFamily(device, linear, { format, m, k, n, bias: false }, inputs, { sentinels: true }))
    const largest = Math.max(...a.y!.map(Math.abs))
    const tolerance = n > 8 ? 1e-3 : 1e-4 // matrix tiles take their inputs in f16
    expect(Math.max(...a.y!.map((value, i) => Math.abs(value - b.y![i]!))) / largest).toBeLessThan(tolerance)
  })

  it('on every bit of decoded weights', async () => {
    const w = randomBlocks(format, 256 * 37, random)
    const [a, b] = await both((device) => runFamily(device, dequantize, { format, elements: 256 * 37 }, { w }))
    expect(a.y).toEqual(b.y)
  })
})
