// The cpu device in an engine without Atomics.waitAsync: threads tell by message when a job is done.

import { expect, it, vi } from 'vitest'
import { put, stepping, toFloats } from './kernels.ts'

it('runs without Atomics.waitAsync', async () => {
  const original = Object.getOwnPropertyDescriptor(Atomics, 'waitAsync')!
  vi.resetModules()
  Reflect.deleteProperty(Atomics, 'waitAsync')
  try {
    const { openCpu } = await import('../../src/device/cpu/cpu.ts')
    await using device = await openCpu({ threads: 2, level: 'wasm' })
    const x = put(device, [1])
    const step = await stepping(device, { buffer: x }, 1)
    await Promise.all(Array.from({ length: 10 }, () => device.submit([step])))
    expect(toFloats(await device.read(x, 0, 4))).toEqual([2 ** 11 - 1])
  } finally {
    Object.defineProperty(Atomics, 'waitAsync', original)
  }
})
