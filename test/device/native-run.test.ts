// What the cpu device does with a native library: kernels that are not in it, two kinds of memory, mapped files, several devices
// at once, an event loop that goes on.

import { copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { findNative } from '../../src/device/cpu/native/library.ts'
import type { BufferHandle, Command, Device, Dispatch, Range } from '../../src/device/device.ts'
import { hashRunningSources } from '../../src/device/open/code-hash.ts'
import { buffer, deferredKernel, kernel, uniform } from '../../src/ir/author.ts'
import { packUniforms } from '../../src/ir/kernel.ts'
import { floats, put, scale, scaling, step, stepping, toFloats } from './kernels.ts'
import { NATIVE_LEVELS, buildTestLibrary } from './native-library.ts'

/** x[i] = x[i] + 100 for i < n, never in a library */
const foreign = kernel('foreign', { params: { x: buffer('f32', 'readwrite'), n: uniform('u32') } }, (p, k) => {
  k.when(k.workgroupId.x.lt(p.n), () => p.x.set(k.workgroupId.x, p.x.at(k.workgroupId.x).add(100)))
})
/** y[i] = x[i], never in a library */
const foreignCopy = kernel('foreignCopy', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') } }, (p, k) =>
  p.y.set(k.workgroupId.x, p.x.at(k.workgroupId.x)),
)
/** Counts to n, slowly, in each workgroup. */
const slow = kernel('slow', { params: { x: buffer('f32', 'write'), n: uniform('u32') } }, (p, k) => {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'i', to: p.n }, (i) => sum.set(sum.get().mul(0.5).add(i.to('f32'))))
  p.x.set(k.workgroupId.x, sum.get())
})

/** Times 1e-10. */
const shrink = kernel('shrink', { params: { x: buffer('f32', 'readwrite'), n: uniform('u32') } }, (p, k) => {
  p.x.set(k.workgroupId.x, p.x.at(k.workgroupId.x).mul(1e-10))
})

/** Known by its origin, so that what is in a library need not be written. */
const origin = { family: 'test', form: 'sevens', stage: '', traits: {} }
const named = (write: () => void): typeof foreign =>
  deferredKernel(origin, 'named', { params: { x: buffer('f32', 'write') } }, (p, k) => {
    write()
    p.x.set(k.workgroupId.x, k.const('f32', 7))
  })

const [level] = NATIVE_LEVELS.slice(-1) // the one that every CPU has
const { folder, missing } =
  level === undefined
    ? { folder: '', missing: 'no native kernels on this architecture' }
    : await buildTestLibrary('run', level, [scale, step, slow, shrink, named(() => {})])
const open = (threads = 2): Promise<Device> =>
  openCpu({ threads, libraries: folder, ...(level === undefined ? {} : { level: level.name }) })

const one = async (device: Device, which: typeof foreign, ranges: readonly Range[], n: number, count = n): Promise<Dispatch> => ({
  kind: 'dispatch',
  program: await device.compile(which),
  buffers: ranges,
  grid: [count, 1, 1],
  uniforms: which.params.some(({ kind }) => kind === 'uniform') ? packUniforms(which, { n }) : new Uint8Array(0),
})

describe('native kernels', () => {
  let device: Device
  beforeEach(({ skip }) => {
    if (missing !== undefined) skip(missing)
  })
  beforeAll(async () => {
    if (missing === undefined) device = await open()
  })
  afterAll(async () => {
    await device?.close()
  })

  it('say what they are', async () => {
    await using fresh = await open(1)
    expect(fresh.detail).toBe(`native ${level?.title}, 1 thread`)
    expect(fresh.caps).toMatchObject({ lanes: 1, width: level?.width, dot: true, parallel: 1 })
    await fresh.compile(foreign)
    expect(fresh.detail).toBe(`native ${level?.title}, 1 thread; 1 kernel as WebAssembly`)
  })

  it('run without their bodies being written', async () => {
    const x = device.alloc(8)
    const never = named(() => {
      throw new Error('written')
    })
    const [bytes] = await device.submit([await one(device, never, [{ buffer: x }], 2), { kind: 'read', from: { buffer: x }, bytes: 8 }])
    expect(toFloats(bytes!)).toEqual([7, 7])
  })

  it('take turns with WebAssembly in one submission', async () => {
    const x = put(device, [1, 2, 3])
    const y = device.alloc(12)
    const [stepped, added] = [await stepping(device, { buffer: x }, 3), await one(device, foreign, [{ buffer: x }], 3)]
    const read: Command = { kind: 'read', from: { buffer: x }, bytes: 12 }
    const before = device.stats.submissions
    const copies: Command[] = [
      { kind: 'copy', from: { buffer: x }, to: { buffer: y }, bytes: 12 },
      { kind: 'read', from: { buffer: y }, bytes: 12 },
    ]
    const got = await device.submit([stepped, read, added, added, read, stepped, added, ...copies])
    expect(device.stats.submissions - before).toBe(1)
    expect(got.map(toFloats)).toEqual([
      [3, 5, 7],
      [203, 205, 207],
      [507, 511, 515],
    ])
    const recording = device.record([added, stepped, read])
    const all = await Promise.all(Array.from({ length: 5 }, () => device.submit(recording)))
    const want = all.reduce((values) => [...values, values.at(-1)!.map((v) => (v + 100) * 2 + 1)], [[507, 511, 515]])
    expect(all.map(([bytes]) => toFloats(bytes!))).toEqual(want.slice(1))
  })

  it('flush subnormal numbers, and leave the threads of others as they were', async ({ skip }) => {
    const x = put(device, [1e-39, 1e-30, 1])
    const read: Command = { kind: 'read', from: { buffer: x }, bytes: 12 }
    const [bytes] = await device.submit([await one(device, shrink, [{ buffer: x }], 3), read])
    expect(toFloats(bytes!)).toEqual([0, 0, Math.fround(1e-10)]) // an operand, a result, and neither
    if (process.platform !== 'linux') return skip('the float modes of a thread are read on Linux')
    // As glibc's fenv_t has them. MXCSR: flush to zero, denormals are zero; FPCR: FZ.
    const [at, mask] = process.arch === 'x64' ? [28, 0x8040] : [0, 1 << 24]
    // Jobs run on the threads that asynchronous calls take: ask all of them.
    const { default: koffi } = await import('koffi')
    const fegetenv = koffi.load('libm.so.6').func('int fegetenv(void *env)')
    const modes = await Promise.all(
      Array.from({ length: 16 }, async () => {
        const env = new Uint8Array(64)
        await new Promise((resolve) => fegetenv.async(env, resolve))
        return new DataView(env.buffer).getUint32(at, true) & mask
      }),
    )
    expect(new Set(modes)).toEqual(new Set([0]))
  })

  it('keep the order of a long queue of both kinds', async () => {
    const x = put(device, [0])
    const [next, added] = [device.record([await stepping(device, { buffer: x }, 1)]), await one(device, foreign, [{ buffer: x }], 1)]
    let want = 0
    const all = Array.from({ length: 60 }, (_, i) => {
      if (i % 10 === 0) {
        device.write(x, 0, floats(i))
        want = i
      }
      want = i % 7 === 3 ? want + 100 : want * 2 + 1
      return device.submit(i % 7 === 3 ? [added] : next)
    })
    expect(toFloats(await device.read(x, 0, 4))).toEqual([want])
    await Promise.all(all)
  })

  it('use memory beside the heap for large buffers, WebAssembly included', async () => {
    const bytes = 144 * 2 ** 20
    const large = device.alloc(bytes)
    const [head, tail] = [
      { buffer: large, offset: 0, bytes: 12 },
      { buffer: large, offset: bytes - 64, bytes: 12 },
    ]
    device.write(large, 0, floats(1, 2, 3))
    const [first, second] = await device.submit([
      await scaling(device, head, tail, 3, 10),
      { kind: 'read', from: tail, bytes: 12 },
      await one(device, foreign, [tail], 3),
      { kind: 'fill', to: { buffer: large, offset: 4096 }, bytes: 4096, value: 1 },
      { kind: 'read', from: tail, bytes: 12 },
    ])
    expect([first, second].map((got) => toFloats(got!))).toEqual([
      [10, 20, 30],
      [110, 120, 130],
    ])
    expect(toFloats(await device.read(large, bytes - 64, 12))).toEqual([110, 120, 130])
    expect(await device.read(large, 8188, 8)).toEqual(Uint8Array.of(1, 1, 1, 1, ...(await device.read(large, 8192, 4))))
    device.free(large)
  })

  it('stay out of the way of timers', async () => {
    const x = device.alloc(4 * 64)
    const busy = await one(device, slow, [{ buffer: x }], 2_000_000, 64)
    let ticks = 0
    const timer = setInterval(() => {
      ticks++
    }, 1)
    const start = performance.now()
    await device.submit([busy])
    const ms = performance.now() - start
    clearInterval(timer)
    expect({ ms, ticks: ticks > Math.min(5, ms / 50) }).toMatchObject({ ticks: true })
  })

  it('run on several devices at once', async () => {
    const devices = await Promise.all([1, 2, 3].map((threads) => open(threads)))
    const results = await Promise.all(
      devices.map(async (each, i) => {
        const x = put(each, [i])
        const next = each.record([await stepping(each, { buffer: x }, 1), { kind: 'read', from: { buffer: x }, bytes: 4 }])
        const all = await Promise.all(Array.from({ length: 12 }, () => each.submit(next)))
        return toFloats(all.at(-1)![0]!)[0]
      }),
    )
    expect(results).toEqual([0, 1, 2].map((i) => (i + 1) * 2 ** 12 - 1))
    await Promise.all(devices.map((each) => each.close()))
  })

  it('finish before the device closes', async () => {
    const fresh = await open()
    const x = fresh.alloc(4 * 64)
    const busy = await one(fresh, slow, [{ buffer: x }], 200_000, 64)
    const pending = [fresh.submit([busy]), fresh.submit([busy, { kind: 'read', from: { buffer: x }, bytes: 4 }])]
    await fresh.close()
    expect((await Promise.all(pending))[1]).toHaveLength(1)
    await expect(fresh.submit([busy])).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('mapped files', () => {
  const home = mkdtempSync(join(tmpdir(), 'ingot-map-'))
  const path = join(home, 'weights.bin')
  const values = Float32Array.from({ length: 5000 }, (_, i) => i)
  let device: Device
  beforeEach(({ skip }) => {
    if (missing !== undefined) skip(missing)
  })
  beforeAll(async () => {
    writeFileSync(path, new Uint8Array(values.buffer))
    if (missing === undefined) device = await open()
  })
  afterAll(async () => {
    await device?.close()
    rmSync(home, { recursive: true, force: true })
  })
  const unread = () => Promise.reject(new Error('read instead of mapped'))
  const load = (offset: number, bytes: number): Promise<BufferHandle> => device.load({ path, offset, bytes, read: unread })

  it('serve native and other kernels, and are read-only', async () => {
    const [w, y] = [await load(400, 1200), device.alloc(1200)]
    const [scaled, copied] = await device.submit([
      await scaling(device, { buffer: w }, { buffer: y }, 300, 2),
      { kind: 'read', from: { buffer: y }, bytes: 8 },
      await one(device, foreignCopy, [{ buffer: w }, { buffer: y }], 300),
      { kind: 'read', from: { buffer: y, offset: 1192 }, bytes: 8 },
    ])
    expect([scaled, copied].map((bytes) => toFloats(bytes!))).toEqual([
      [200, 202],
      [398, 399],
    ])
    expect(() => device.write(w, 0, floats(1))).toThrow(/loaded/)
    expect(device.stats.bytesLive).toBe(2400)
    device.free(w)
    device.free(y)
  })

  it('can be loaded twice, in parts, and again after all are freed', async () => {
    const [a, b, part] = [await load(0, 4000), await load(0, 20000), await load(16, 16)]
    device.free(a)
    expect(toFloats(await device.read(part, 0, 8))).toEqual([4, 5])
    expect(toFloats(await device.read(b, 19996, 4))).toEqual([4999])
    device.free(b)
    device.free(part)
    const again = await load(0, 20000)
    expect(toFloats(await device.read(again, 4, 4))).toEqual([1])
    writeFileSync(`${path}.new`, new Uint8Array(values.map((v) => -v).buffer))
    rmSync(path)
    writeFileSync(path, new Uint8Array(values.map((v) => -v).buffer))
    const other = await load(0, 20000)
    expect([await device.read(again, 4, 4), await device.read(other, 4, 4)].map(toFloats)).toEqual([[1], [-1]])
    device.free(again)
    device.free(other)
  })

  it('are read where they cannot be mapped', async () => {
    const read = async (at: number, length: number): Promise<Uint8Array> => new Uint8Array(length).fill(at === 0 ? 7 : 0)
    for (const range of [{ path: join(home, 'gone'), offset: 0 }, { path, offset: 2 }, { path, offset: 20000 }, {}]) {
      const w = await device.load({ ...range, bytes: 4, read })
      expect([...(await device.read(w, 0, 4))]).toEqual([7, 7, 7, 7])
      device.free(w)
    }
  })
})

describe('the choice of a library', () => {
  it('says what is missing', async () => {
    expect(await findNative({ folder: join(tmpdir(), 'nothing here') })).toMatchObject({
      reason: { evidence: 'native kernels are not built', prescription: expect.stringMatching(/^install a C compiler/) },
    })
    await expect(openCpu({ level: 'mmx' })).rejects.toMatchObject({
      code: 'device-unavailable',
      message: expect.stringMatching(/no instruction set mmx here; there is wasm/),
    })
  })

  it('obeys INGOT_CPU', async () => {
    const before = process.env['INGOT_CPU']
    process.env['INGOT_CPU'] = 'wasm'
    await using device = await openCpu({ threads: 1 })
    if (before === undefined) delete process.env['INGOT_CPU']
    else process.env['INGOT_CPU'] = before
    expect(device.detail).toMatch(/^WebAssembly/)
  })

  /** The library with a manifest that says something else. */
  const withManifest = async (changes: object, look: (home: string, name: string) => Promise<void>): Promise<void> => {
    const name = level?.name ?? ''
    const home = mkdtempSync(join(tmpdir(), 'ingot-native-'))
    copyFileSync(join(folder, `libingot-${name}.so`), join(home, `libingot-${name}.so`))
    const manifest = JSON.parse(readFileSync(join(folder, `libingot-${name}.json`), 'utf8')) as object
    writeFileSync(join(home, `libingot-${name}.json`), JSON.stringify({ ...manifest, ...changes }))
    await look(home, name)
    rmSync(home, { recursive: true, force: true })
  }

  it('does not trust a library that is not the one of its manifest', async ({ skip }) => {
    if (missing !== undefined) return skip(missing)
    await withManifest({ key: 'another' }, async (home, name) => {
      expect(await findNative({ level: name, folder: home })).toMatchObject({
        reason: { evidence: expect.stringMatching(/not the one of its manifest/) },
      })
    })
  })

  it('does not load a library that was cut short or changed', async ({ skip }) => {
    if (missing !== undefined) return skip(missing)
    const damaged = (why: RegExp): object => ({
      reason: { evidence: expect.stringMatching(why), prescription: expect.stringMatching(/setup/) },
    })
    await withManifest({}, async (home, name) => {
      const path = join(home, `libingot-${name}.so`)
      const bytes = readFileSync(path)
      truncateSync(path, bytes.length >> 1) // loaded, this ends the process
      expect(await findNative({ level: name, folder: home })).toMatchObject(damaged(/is damaged: it has \d+ bytes instead of \d+/))
      bytes[bytes.length - 1]! ^= 1 // of the sections' table, which loading does not read: any byte counts
      rmSync(path) // a file of its own: one that is loaded must not be written over
      writeFileSync(path, bytes)
      expect(await findNative({ level: name, folder: home })).toMatchObject(damaged(/is damaged: its content/))
      rmSync(path)
      expect((await findNative({ level: name, folder: home })).reason).toBeDefined()
    })
    await withManifest({ library: undefined }, async (home, name) => {
      expect(await findNative({ level: name, folder: home })).toMatchObject(damaged(/is damaged: its manifest does not name it/))
    })
  })

  it('takes the next best, and says why', async ({ skip }) => {
    if (missing !== undefined) return skip(missing)
    await withManifest({}, async (home, name) => {
      // The best level of this architecture, as a library that is none.
      const best = NATIVE_LEVELS[0]!.name
      if (best === name) return
      writeFileSync(join(home, `libingot-${best}.so`), 'short')
      writeFileSync(
        join(home, `libingot-${best}.json`),
        JSON.stringify({ level: best, key: '', library: { bytes: 9, sha256: '' }, kernels: {} }),
      )
      expect(await findNative({ folder: home })).toMatchObject({
        native: { level },
        passedOver: { evidence: expect.stringMatching(/it has 5 bytes instead of 9/) },
      })
    })
  })

  it('does not use a library that was made from other sources', async ({ skip }) => {
    if (missing !== undefined) return skip(missing)
    const stale = { reason: { evidence: expect.stringMatching(/not of these sources/) } }
    for (const sources of [undefined, [], ['another']]) {
      await withManifest({ sources }, async (home, name) => {
        expect(await findNative({ level: name, folder: home, strict: true })).toMatchObject(stale)
      })
    }
    await withManifest({ sources: ['another', await hashRunningSources()] }, async (home, name) => {
      expect((await findNative({ level: name, folder: home, strict: true })).native?.level).toBe(level)
    })
  })
})
