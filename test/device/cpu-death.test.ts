// Threads of the cpu device that die: what is pending fails, the next submission runs; if they keep dying, the device is lost.
// Also: a process that has nothing to wait for ends, and one that waits for a submission does not.

import { expect, it, vi } from 'vitest'
import type { ThreadEvents } from '../../src/device/cpu/wasm/thread.ts'
import type { BufferHandle, Device } from '../../src/device/device.ts'
import { floats, stepping, toFloats } from './kernels.ts'

const started: ThreadEvents[] = []
vi.mock('../../src/device/cpu/wasm/thread.ts', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../src/device/cpu/wasm/thread.ts')>()
  const startThread: typeof original.startThread = (start, events) => {
    started.push(events)
    return original.startThread(start, events)
  }
  return { ...original, startThread }
})
const { openCpu } = await import('../../src/device/cpu/cpu.ts')

/** A 1 in a buffer so large that work with it is for the threads, never for the caller (src/device/cpu/brief.ts). */
function putFar(device: Device): BufferHandle {
  const handle = device.alloc(1 << 25)
  device.write(handle, 0, floats(1))
  return handle
}

it('starts its threads anew', async () => {
  await using device = await openCpu({ threads: 2, level: 'wasm' })
  const x = putFar(device)
  const step = await stepping(device, { buffer: x }, 1)
  await device.submit([step])
  expect(started).toHaveLength(2)
  const many = Promise.allSettled(Array.from({ length: 100 }, () => device.submit([step])))
  started.at(-1)?.died('killed by a test')
  const failed = (await many).filter(({ status }) => status === 'rejected') as PromiseRejectedResult[]
  for (const { reason } of failed)
    expect(reason).toMatchObject({ code: 'device-failed', message: expect.stringMatching(/killed by a test/) })
  device.write(x, 0, new Uint8Array(Float32Array.of(3).buffer))
  await device.submit([step])
  expect(toFloats(await device.read(x, 0, 4))).toEqual([7])
  expect(started).toHaveLength(4)
})

it('is lost when they keep dying', async () => {
  await using device = await openCpu({ threads: 1, level: 'wasm' })
  const x = putFar(device)
  const step = await stepping(device, { buffer: x }, 1)
  for (let death = 0; death < 3; death++) {
    const before = started.length
    const pending = device.submit([step])
    started.at(-1)?.died('killed by a test')
    await expect(pending).rejects.toMatchObject({ code: 'device-failed' })
    await vi.waitUntil(() => started.length > before)
  }
  await expect(device.submit([step])).rejects.toMatchObject({ code: 'device-lost' })
})

it('does not hold the process when idle', async () => {
  await using device = await openCpu({ threads: 1, level: 'wasm' })
  const x = putFar(device)
  const step = await stepping(device, { buffer: x }, 1)
  const timeouts = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await device.submit([step])
  // The runner has timers of its own, which come and go.
  await vi.waitFor(async () => {
    const idle = timeouts()
    const pending = device.submit([step])
    const busy = timeouts()
    await pending
    expect([busy, timeouts()]).toEqual([idle + 1, idle])
  })
})
