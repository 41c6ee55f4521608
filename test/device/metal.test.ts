// What only Metal has: the table of messages, lifetimes of objects, mapped files, indirect replay, faults.

import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { ByteRange, Command, Device } from '../../src/device/device.ts'
import { metal, profileOf } from '../../src/device/metal/metal.ts'
import { MESSAGES } from '../../src/device/metal/metal-backend.ts'
import { Pipelines } from '../../src/device/metal/pipeline.ts'
import { readSettings } from '../../src/device/metal/settings.ts'
import { describeGpu, findDevice, openMetal, probeMetal } from '../../src/device/metal/system.ts'
import { selfTest, selfTestCases } from '../../src/device/open/self-test.ts'
import { floats, put, scale, scaling, stepping, subtraction, toFloats } from './kernels.ts'
import { findSoft } from './metal-soft.ts'

const { soft: found, missing } = await findSoft()
const soft = found!
const CLEAN = { live: {}, overReleases: {}, misuse: [] }

async function failure(act: () => unknown): Promise<string> {
  try {
    await act()
    return 'nothing was thrown'
  } catch (error) {
    return isIngotError(error) ? `${error.code}: ${error.message}` : `not an error of Ingot: ${String(error)}`
  }
}

describe('metal', () => {
  let device: Device
  beforeEach(async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    soft.reset()
    device = await soft.open()
  })
  // Whatever a test did: nothing leaks, nothing is released twice, no rule of Metal is broken.
  afterEach(async () => {
    if (missing !== undefined) return
    soft.inject('device-lost', 0)
    soft.inject('slow', 0)
    await device.close()
    const left = JSON.stringify(soft.report())
    if (left !== JSON.stringify(CLEAN)) throw new Error(`soft-metal reports ${left}`)
  })

  it('says what it is', async () => {
    expect(device.detail).toBe('Ingot soft-metal, software (soft-metal)')
    expect(device.caps).toMatchObject({
      lanes: 1024,
      subgroup: 32,
      tiles: true,
      f16: true,
      f64: false,
      sharedBytes: 32768,
      bindings: 30,
      alignment: 16,
    })
    expect(await probeMetal(soft.settings)).toMatchObject({ available: true, software: true, detail: device.detail })
    const { caps, close } = await soft.open({ tiles: false }).then((plain) => ({ caps: plain.caps, close: () => plain.close() }))
    expect(caps.tiles).toBe(false)
    await close()
  })

  it('passes its self-test', async () => {
    const { passed, failed } = await selfTest(device)
    expect(failed).toEqual([])
    expect(passed).toHaveLength(selfTestCases(device.caps).length)
  })

  describe('lifetimes', () => {
    it('releases what was never freed or disposed, once', async () => {
      const [x, y] = [put(device, [1]), device.alloc(4)]
      const recording = device.record([await scaling(device, { buffer: x }, { buffer: y }, 1, 2)])
      void device.submit(recording)
      void device.submit(recording)
      device.write(x, 0, floats(2)) // staged, and never used
      await device.close()
      recording[Symbol.dispose]() // after its device
      expect(soft.report()).toEqual(CLEAN)
    })

    it('lets go of memory only after another submission was committed', async () => {
      const x = device.alloc(2 ** 29 + 16) // too large for the pool
      const live = (): number => soft.report().live.MTLBuffer ?? 0
      const before = live()
      await device.submit([{ kind: 'fill', to: { buffer: x }, bytes: 4, value: 1 }])
      device.free(x)
      expect(live()).toBe(before)
      const y = device.alloc(4)
      await device.submit([{ kind: 'fill', to: { buffer: y }, bytes: 4, value: 1 }])
      expect(live()).toBe(before) // one went, one came
      device.free(y)
    })

    it('keeps freed memory from others while the GPU uses it', async () => {
      soft.inject('slow', 20)
      const [x, y] = [put(device, [3]), device.alloc(4)]
      const running = device.submit([
        await scaling(device, { buffer: x }, { buffer: y }, 1, 10),
        { kind: 'read', from: { buffer: y }, bytes: 4 },
      ])
      device.free(x)
      device.free(y)
      const z = put(device, [99])
      expect(toFloats((await running)[0]!)).toEqual([30])
      expect(toFloats(await device.read(z, 0, 4))).toEqual([99])
      device.free(z)
    })
  })

  describe('submissions', () => {
    it('are one command buffer with one encoder, with barriers only where ranges meet', async () => {
      const buffers = Array.from({ length: 4 }, () => put(device, [1]))
      const [a, b, c, d] = buffers.map((buffer) => ({ buffer })) as [
        { buffer: never },
        { buffer: never },
        { buffer: never },
        { buffer: never },
      ]
      const work: Command[] = [
        await scaling(device, a, b, 1, 2),
        await scaling(device, a, c, 1, 3), // side by side
        await scaling(device, b, d, 1, 5), // after the first
        { kind: 'copy', from: c, to: a, bytes: 4 }, // the barrier before it was enough
        { kind: 'read', from: d, bytes: 4 },
        { kind: 'read', from: a, bytes: 4 },
      ]
      for (const indirect of [false, true]) {
        for (const buffer of buffers) device.write(buffer, 0, floats(1))
        const before = soft.counters()
        const got = await device.submit(indirect ? device.record(work) : work)
        const after = soft.counters()
        expect(got.map((bytes) => toFloats(bytes)[0])).toEqual([10, 3])
        expect([after.commandBuffers - before.commandBuffers, after.encoders - before.encoders]).toEqual([1, 1])
        expect(after.barriers - before.barriers).toBe(indirect ? 1 : 2) // those of indirect commands are theirs
      }
      for (const buffer of buffers) device.free(buffer)
    })

    it('stay one when the host writes while the GPU is busy', async () => {
      soft.inject('slow', 10)
      const [x, y] = [put(device, [1]), device.alloc(4)]
      const recording = device.record([
        await scaling(device, { buffer: x }, { buffer: y }, 1, 10),
        { kind: 'read', from: { buffer: y }, bytes: 4 },
      ])
      const before = soft.counters()
      const runs = [1, 2, 3, 4].map((value) => {
        device.write(x, 0, floats(value))
        return device.submit(recording)
      })
      expect((await Promise.all(runs)).map(([bytes]) => toFloats(bytes!)[0])).toEqual([10, 20, 30, 40])
      expect(soft.counters().commandBuffers - before.commandBuffers).toBe(4)
      recording[Symbol.dispose]()
    })

    it('do not block the event loop', async () => {
      soft.inject('slow', 60)
      const x = put(device, [1])
      let turns = 0
      const timer = setInterval(() => turns++, 5)
      await device.submit([await stepping(device, { buffer: x }, 1)])
      clearInterval(timer)
      expect(turns).toBeGreaterThan(3)
      expect(device.stats.gpuSeconds).toBeGreaterThan(0.05)
    })

    it('cost few messages: some twenty with indirect replay, less than ten per dispatch without', async () => {
      const [x, y] = [put(device, [1]), device.alloc(4)]
      const commands: Command[] = []
      for (let i = 0; i < 50; i++)
        commands.push(
          await scaling(device, { buffer: x }, { buffer: y }, 1, 2),
          await scaling(device, { buffer: y }, { buffer: x }, 1, 0.5),
        )
      commands.push({ kind: 'read', from: { buffer: x }, bytes: 4 })
      const count = async (work: Parameters<Device['submit']>[0]): Promise<number> => {
        const before = [device.stats.extras[MESSAGES]!, soft.counters().messages] as const
        expect(toFloats((await device.submit(work))[0]!)).toEqual([1])
        const own = device.stats.extras[MESSAGES]! - before[0]
        expect(soft.counters().messages - before[1]).toBe(own)
        return own
      }
      const recording = device.record(commands)
      await count(recording)
      expect(await count(recording)).toBeLessThan(25)
      expect(await count(commands)).toBeLessThan(10 * 100)
    })

    it('replay reads that stand between dispatches', async () => {
      const x = put(device, [1])
      const step = await stepping(device, { buffer: x }, 1)
      const read: Command = { kind: 'read', from: { buffer: x }, bytes: 4 }
      const recording = device.record([read, step, read, step, step, read, { kind: 'fill', to: { buffer: x }, bytes: 4, value: 0 }, read])
      expect((await device.submit(recording)).map((bytes) => toFloats(bytes)[0])).toEqual([1, 3, 15, 0])
      expect((await device.submit(recording)).map((bytes) => toFloats(bytes)[0])).toEqual([0, 1, 7, 0])
      recording[Symbol.dispose]()
    })

    it('move many bytes at any offset, to the last word', async () => {
      const words = 5003
      const bytes = new Uint8Array(Uint32Array.from({ length: words }, (_, i) => i * 2654435761).buffer)
      const [x, y] = [device.alloc(4 * words), device.alloc(4 * words)]
      device.write(x, 0, bytes)
      const [got] = await device.submit([
        { kind: 'fill', to: { buffer: y }, bytes: 4 * words, value: 0xab },
        { kind: 'copy', from: { buffer: x, offset: 12 }, to: { buffer: y, offset: 4 }, bytes: 4 * words - 16 },
        { kind: 'read', from: { buffer: y }, bytes: 4 * words },
      ])
      const want = new Uint8Array(4 * words).fill(0xab)
      want.set(bytes.subarray(12, 4 * words - 4), 4)
      expect(got).toEqual(want)
    })
  })

  describe('files', () => {
    let folder = ''
    afterAll(async () => {
      if (folder !== '') await rm(folder, { recursive: true })
    })

    const makeFile = async (bytes: Uint8Array): Promise<(offset: number, length: number) => ByteRange> => {
      folder ||= await mkdtemp(join(tmpdir(), 'ingot-metal-'))
      const path = join(folder, `${bytes.length}.bin`)
      await writeFile(path, bytes)
      return (offset, length) => ({ path, offset, bytes: length, read: async (at, size) => bytes.slice(offset + at, offset + at + size) })
    }
    const content = Uint8Array.from({ length: 100_003 }, (_, i) => i * 31 + (i >> 8))

    it('are mapped once, without a copy, and shared by their tensors', async () => {
      const range = await makeFile(content)
      const before = soft.report().live.MTLBuffer ?? 0
      const written = device.stats.bytesWritten
      const [a, b] = await Promise.all([device.load(range(32, 4096)), device.load(range(99_984, 19))])
      expect(soft.report().live.MTLBuffer).toBe(before + 1)
      expect(device.stats.bytesWritten).toBe(written)
      expect(await device.read(a, 0, 4096)).toEqual(content.slice(32, 32 + 4096))
      expect((await device.read(b, 16, 4)).slice(0, 3)).toEqual(content.slice(100_000))
      expect(await failure(() => device.write(a, 0, new Uint8Array(4)))).toMatch(/^bad-argument: .*loaded/)
      device.free(a)
      const y = device.alloc(64)
      const [got] = await device.submit([
        { kind: 'copy', from: { buffer: b }, to: { buffer: y }, bytes: 16 },
        { kind: 'read', from: { buffer: y }, bytes: 16 },
      ])
      expect(got).toEqual(content.slice(99_984, 100_000))
      device.free(b)
      const again = await device.load(range(64, 64))
      expect(await device.read(again, 0, 64)).toEqual(content.slice(64, 128))
    })

    it('are read where the range is not aligned, or mapping is switched off', async () => {
      const range = await makeFile(content)
      const plain = await soft.open({ mapped: false })
      for (const [each, offset] of [
        [device, 34],
        [plain, 64],
      ] as const) {
        const written = each.stats.bytesWritten
        const x = await each.load(range(offset, 100))
        expect(each.stats.bytesWritten - written).toBe(100)
        expect(await each.read(x, 0, 100)).toEqual(content.slice(offset, offset + 100))
      }
      await plain.close()
    })

    it('are refused where they end too early or are not there', async () => {
      const range = await makeFile(content)
      expect(await failure(() => device.load(range(99_984, 64)))).toMatch(/^bad-file: .*100003/)
      expect(await failure(() => device.load({ ...range(0, 64), path: join(folder, 'none') }))).toMatch(/none/)
      expect(toFloats(await device.read(put(device, [1]), 0, 4))).toEqual([1])
    })

    it('are seen through windows where a buffer cannot be as large', async () => {
      const range = await makeFile(content)
      process.env.INGOT_SOFT_METAL_MAX_BUFFER = String(4 * 4096)
      const small = await soft.open()
      try {
        const offsets = Array.from({ length: 24 }, (_, i) => 4096 * i + 16 * i)
        const handles = await Promise.all(offsets.map((offset) => small.load(range(offset, 5000))))
        const large = await small.load(range(8000, 12_000)) // more than half a window
        expect(soft.report().live.MTLBuffer).toBeGreaterThan(6)
        for (const [i, handle] of handles.entries())
          expect(await small.read(handle, 0, 5000)).toEqual(content.slice(offsets[i], offsets[i]! + 5000))
        expect(await small.read(large, 0, 12_000)).toEqual(content.slice(8000, 20_000))
      } finally {
        delete process.env.INGOT_SOFT_METAL_MAX_BUFFER
        await small.close()
      }
    })
  })

  describe('faults', () => {
    it('out of memory', async () => {
      soft.inject('oom', 2) // the pool is emptied and asked again
      expect(await failure(() => device.alloc(2 ** 20))).toMatch(/^out-of-memory: alloc: .*1048576 bytes/)
      soft.inject('oom', 0)
      expect(device.stats.buffers).toBe(0)
      device.free(device.alloc(2 ** 20))
    })

    it('more than the working set', async () => {
      process.env.INGOT_SOFT_METAL_WORKING_SET = '1000000'
      const small = await soft.open()
      try {
        const x = small.alloc(500_000)
        expect(await failure(() => small.alloc(500_000))).toMatch(/^out-of-memory: alloc: .*wanted at most 900000/)
        small.free(x)
        small.free(small.alloc(600_000)) // the pool is given up for it
      } finally {
        delete process.env.INGOT_SOFT_METAL_WORKING_SET
        await small.close()
      }
    })

    it('a command buffer that fails', async () => {
      const [x, y] = [put(device, [4]), device.alloc(4)]
      const work: Command[] = [await scaling(device, { buffer: x }, { buffer: y }, 1, 2), { kind: 'read', from: { buffer: y }, bytes: 4 }]
      const recording = device.record(work)
      for (const each of [work, recording]) {
        soft.inject('command-error', 1)
        expect(await failure(() => device.submit(each))).toMatch(/^device-failed: metal: Internal Error \(injected\)/)
        expect(toFloats((await device.submit(each))[0]!)).toEqual([8])
      }
    })

    it('a device that is lost', async () => {
      const x = put(device, [1])
      const work = [await stepping(device, { buffer: x }, 1)]
      soft.inject('device-lost', 1)
      expect(await failure(() => device.submit(work))).toMatch(/^device-lost: metal: Device removed/)
      soft.inject('device-lost', 0)
      expect(await failure(() => device.alloc(4))).toMatch(/^device-lost:/)
      expect(await failure(() => device.submit(work))).toMatch(/^device-lost:/)
    })

    it('a compiler that refuses', async () => {
      soft.inject('compile-error', 2) // asked again, to hear why
      const before = device.stats.compiles
      expect(await failure(() => device.compile(scale))).toMatch(/^compile-failed: scale: MSL line 1: injected compile error\n {2}\/\/ /)
      expect(device.stats.compiles).toBe(before)
      await device.compile(scale)
    })

    it('a text that is wrong, with its line', async () => {
      const system = await openMetal(soft.settings)
      const id = findDevice(system)
      const { system: version } = describeGpu(system, id, soft.settings)
      const texts = [
        '#include <metal_stdlib>\nusing namespace metal;\nkernel void broken() {\n  float x = nothing;\n}\n',
        '#include <metal_stdlib>\nkernel void other() {}\n',
      ]
      const wanted = [
        /^compile-failed: scale: MSL line 4: .*nothing.*\n {2}float x = nothing;/,
        /^device-failed: .*no function broken of scale/,
      ]
      for (const [i, text] of texts.entries()) {
        const pipelines = new Pipelines(system.objc, id, device.caps, {
          indirect: true,
          system: version,
          emit: () => ({ text, entry: 'broken', workgroup: [1, 1, 1] }),
        })
        expect(await failure(() => pipelines.compile(scale, 'key').program)).toMatch(wanted[i]!)
        await pipelines.close()
      }
      system.objc.release(id)
    })

    it('an access outside a buffer is a failed submission', async () => {
      const x = device.alloc(4)
      const wild = await subtraction(device, { buffer: x }, { buffer: x }, { buffer: device.alloc(1024) }, 256)
      expect(await failure(() => device.submit([wild]))).toMatch(/^device-failed: .*subtract/s)
    })
  })
})

describe('looking closer', () => {
  beforeEach(({ skip }) => {
    if (missing !== undefined) skip(missing)
  })

  it('times every kernel on its own', async () => {
    const device = await soft.open({ profile: true })
    const printed = vi.spyOn(console, 'error').mockImplementation(() => {})
    const [x, y] = [put(device, [1]), device.alloc(4)]
    const before = soft.counters().commandBuffers
    const [got] = await device.submit([
      await scaling(device, { buffer: x }, { buffer: y }, 1, 2),
      await scaling(device, { buffer: y }, { buffer: x }, 1, 2),
      { kind: 'read', from: { buffer: x }, bytes: 4 },
    ])
    expect(toFloats(got!)).toEqual([4])
    expect(soft.counters().commandBuffers - before).toBe(3)
    expect(
      profileOf(device)
        .map(({ name, calls }) => [name, calls])
        .toSorted((a, b) => (a.join() < b.join() ? -1 : 1)),
    ).toEqual([
      ['copy_words', 1],
      ['scale', 2],
    ])
    await device.close()
    expect(printed.mock.calls.join()).toMatch(/kernel +calls +total ms/)
    printed.mockRestore()
  })

  it('captures a trace, or says why not', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ingot-metal-'))
    const file = join(folder, 'x.gputrace')
    soft.reset()
    expect(await failure(() => soft.open({ capture: file }))).toMatch(/^device-unavailable: .*METAL_CAPTURE_ENABLED=1/)
    process.env.METAL_CAPTURE_ENABLED = '1'
    try {
      await (await soft.open({ capture: file })).close()
      await access(file)
      expect(await failure(() => soft.open({ capture: file }))).toMatch(/^device-unavailable: .*exists/)
      expect(soft.report()).toEqual(CLEAN)
    } finally {
      delete process.env.METAL_CAPTURE_ENABLED
      await rm(folder, { recursive: true })
    }
  })
})

describe('finding Metal', () => {
  it.skipIf(process.platform === 'darwin')('explains why it is not there', async () => {
    expect(await probeMetal(readSettings({}))).toMatchObject({
      available: false,
      reason: { evidence: `Metal needs macOS, and this is ${process.platform}`, prescription: expect.stringMatching(/INGOT_SOFT_METAL=1/) },
    })
    expect(await probeMetal(readSettings({ INGOT_SOFT_METAL: '/nowhere/lib.so' }))).toMatchObject({
      available: false,
      reason: { evidence: expect.stringMatching(/does not load/), prescription: expect.stringMatching(/build-soft-metal/) },
    })
    expect(metal.name).toBe('metal')
  })

  it('reads its switches', () => {
    expect(readSettings({})).toEqual({
      software: undefined,
      concurrent: true,
      indirect: true,
      residency: true,
      tiles: true,
      mapped: true,
      profile: false,
      capture: undefined,
    })
    const off = readSettings({
      INGOT_SOFT_METAL: '1',
      INGOT_METAL_CONCURRENT: '0',
      INGOT_METAL_INDIRECT: '0',
      INGOT_METAL_TILES: '0',
      INGOT_PROFILE: '1',
      INGOT_METAL_CAPTURE: 'x.gputrace',
    })
    expect(off).toMatchObject({
      software: expect.stringMatching(/build\/soft-metal\/libsoft-metal\.so$/),
      concurrent: false,
      indirect: false,
      tiles: false,
      profile: true,
      capture: 'x.gputrace',
    })
  })
})
