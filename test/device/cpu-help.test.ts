// Short work on the caller's thread, of which other threads take parts: all of it is done, once, whoever does it and whatever comes between.

import { expect, test } from 'vitest'
import { BackedDevice } from '../../src/device/core/backed-device.ts'
import { CpuBackend } from '../../src/device/cpu/cpu-backend.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device, Dispatch } from '../../src/device/device.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { packUniforms } from '../../src/ir/kernel.ts'
import { findNative } from '../../src/device/cpu/native/library.ts'

const GROUPS = 64
/** Counts up x[i] in workgroup i. */
const count = kernel('count', { params: { x: buffer('u32', 'readwrite'), n: uniform('u32') } }, (p, k) =>
  p.x.set(k.workgroupId.x, p.x.at(k.workgroupId.x).add(p.n)),
)
/** Reads past all memory in workgroup `n`. */
const trap = kernel('trap', { params: { x: buffer('u32', 'readwrite'), n: uniform('u32') } }, (p, k) =>
  p.x.set(k.workgroupId.x, p.x.at(k.workgroupId.x.mul(p.n))),
)

const dispatch = async (device: Device, of: typeof count, n: number): Promise<Dispatch> => {
  const x = device.alloc(4 * GROUPS)
  device.write(x, 0, new Uint8Array(4 * GROUPS))
  return {
    kind: 'dispatch',
    program: await device.compile(of),
    buffers: [{ buffer: x }],
    uniforms: packUniforms(of, { n }),
    grid: [GROUPS, 1, 1],
  }
}

/** Has all work done here, with help; gives how often. */
function alwaysHelped(device: Device): () => number {
  if (!(device instanceof BackedDevice) || !(device.backend instanceof CpuBackend)) throw new TypeError('no cpu device')
  const { runtime } = device.backend
  const [original, threads] = [runtime.runHere.bind(runtime), runtime.run.bind(runtime)]
  let helped = 0
  runtime.runHere = (job) => {
    helped++
    return original(job, true)
  }
  runtime.run = (job) => (runtime.pending === 0 && runtime.runHere(job, true) ? Promise.resolve() : threads(job))
  return () => helped
}

const { native } = await findNative()
const levels = ['wasm', ...(native === undefined ? [] : [native.level.name])]

test.each(levels)('every workgroup is done once: %s', async (level) => {
  for (const threads of [2, 3]) {
    await using device = await openCpu({ threads, level })
    const helped = alwaysHelped(device)
    const step = await dispatch(device, count, 1)
    const [range] = step.buffers
    for (let i = 0; i < 300; i++) {
      await device.submit([step])
      if (i % 100 === 50) await new Promise((resolve) => void setTimeout(resolve, 5)) // threads fall asleep
    }
    // work for the threads comes between
    const many = [device.submit([step, step]), device.submit([step, step])]
    await Promise.all([...many, device.submit([step])])
    await device.submit([step])
    const got = new Uint32Array((await device.read(range!.buffer, 0, 4 * GROUPS)).slice().buffer)
    expect([...got]).toEqual(Array.from({ length: GROUPS }, () => 306))
    expect(helped()).toBeGreaterThan(100)
  }
})

test('a trap fails its submission only, whoever meets it', async () => {
  await using device = await openCpu({ threads: 2, level: 'wasm' })
  alwaysHelped(device)
  const [step, bad] = [await dispatch(device, count, 2), await dispatch(device, trap, 2 ** 28)]
  const [range] = step.buffers
  for (let i = 0; i < 20; i++) {
    await expect(device.submit([bad])).rejects.toMatchObject({ code: 'device-failed' })
    await device.submit([step])
  }
  expect(new Uint32Array((await device.read(range!.buffer, 4 * (GROUPS - 1), 4)).slice().buffer)[0]).toBe(40)
})
