// Products of f32 matrices by a BLAS library: found or not, used where it is right and faster, remembered. The libraries are a plain one
// that is compiled here, so that there is one everywhere, and what the system has.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { asyncProperty, assert, boolean, constant, integer, property, record } from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { findDifference } from '../../src/device/open/compare.ts'
import { findBlas } from '../../src/device/cpu/blas/library.ts'
import { cpu, openCpu, productsOf } from '../../src/device/cpu/cpu.ts'
import type { BlasOptions } from '../../src/device/cpu/blas/choice.ts'
import { measuredSize } from '../../src/device/cpu/blas/measure.ts'
import type { Choice } from '../../src/device/cpu/blas/report.ts'
import { type TimingStore, openTimings } from '../../src/device/cpu/blas/timing.ts'
import type { Device } from '../../src/device/device.ts'
import { runFamily } from '../../src/device/open/run-family.ts'
import { openVerdicts } from '../../src/device/open/verdict.ts'
import { packUniforms } from '../../src/ir/kernel.ts'
import { type Launch, boundBuffers } from '../../src/kernel/family.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { matmul } from '../../src/kernel/matmul/matmul.ts'
import type { BatchAxis } from '../../src/kernel/matmul/params.ts'
import { floats, put, toFloats } from './kernels.ts'
import { NATIVE_LEVELS, buildTestLibrary } from './native-library.ts'

interface Shape {
  readonly m: number
  readonly k: number
  readonly n: number
  readonly bias: boolean
  readonly rank?: number
}
const paramsOf = (shape: Shape) => ({ format: 'f32', ...shape })
const [level] = NATIVE_LEVELS.slice(-1) // the one that every CPU has
const caps = { ...(await openReferenceCaps()), lanes: 1 }
const kernels = [false, true].map((bias) => linear.work(caps, paramsOf({ m: 4, k: 4, n: 9, bias })).launches[0]!.kernel)
const { folder, missing } =
  level === undefined ? { folder: '', missing: 'no native kernels on this architecture' } : await buildTestLibrary('blas', level, kernels)

async function openReferenceCaps(): Promise<Device['caps']> {
  await using device = await openCpu({ level: 'wasm', threads: 1 })
  return device.caps
}

/** Compiles test/device/plain-blas.c, once for each set of flags. */
function plainBlas(name: string, ...flags: readonly string[]): string {
  const path = join(folder, `libplain-${name}.so`)
  const source = join(import.meta.dirname, 'plain-blas.c')
  if (missing !== undefined) return path
  mkdirSync(folder, { recursive: true })
  const draft = `${path}.${process.pid}`
  execFileSync(process.env['CC'] ?? 'cc', ['-O2', '-shared', '-fPIC', ...flags, '-o', draft, source])
  execFileSync('mv', [draft, path])
  return path
}
const like = (config: string, parallel: number): string[] => [`-DCONFIG="${config}"`, `-DPARALLEL=${parallel}`]
const plain = plainBlas('plain')
const threaded = plainBlas('threaded', ...like('OpenBLAS 9.9 MAX_THREADS=2', 1))
const openmp = plainBlas('openmp', ...like('OpenBLAS 9.9 MAX_THREADS=64', 2))
const wrong = plainBlas('wrong', '-DWRONG')

const open = (threads: number, blas: BlasOptions): Promise<Device> =>
  openCpu({ threads, blas, libraries: folder, ...(level === undefined ? {} : { level: level.name }) })
const valuesOf = (count: number, seed: number): Float32Array => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7 + seed))

/** What is wrong with a product that a device computes, guards included. */
async function check(device: Device, shape: Shape): Promise<string | undefined> {
  const { m, k, n, bias, rank = 0 } = shape
  const joined = rank === 0 ? {} : { u: valuesOf(n * rank, 4), v: valuesOf(rank * m, 5) }
  const inputs = { x: valuesOf(n * k, 1), w: valuesOf(m * k, 2), ...(bias ? { bias: valuesOf(m, 3) } : {}), ...joined }
  const { y } = await runFamily(device, linear, paramsOf(shape), inputs, { sentinels: true })
  return findDifference(y, linear.define(inputs, paramsOf(shape)).y!, linear.tolerance(paramsOf(shape)))
}

/** What a dispatch binds, given the buffers of the product. */
function buffersBy<T>(launch: Launch, given: Readonly<Record<string, T>>): T[] {
  return boundBuffers(launch).map((name) => given[name]!)
}

/** Timings in memory. */
function memoryStore(): TimingStore & { readonly all: Map<string, readonly Choice[]> } {
  const all = new Map<string, readonly Choice[]>()
  return {
    all,
    get: async (key) => all.get(key),
    set: async (key, choices) => {
      all.set(key, choices)
    },
  }
}

beforeEach(({ skip }) => {
  if (missing !== undefined) skip(missing)
})

describe('a BLAS library', () => {
  it('is not there, is not one, or cannot be used: and says so', async () => {
    const reasonOf = async (library: string): Promise<string | undefined> => (await findBlas(library)).reason?.evidence
    expect(await reasonOf('off')).toBe('INGOT_BLAS is off')
    expect(await reasonOf(join(folder, 'nothing.so'))).toMatch(/no library .*nothing.so, which INGOT_BLAS names, can be loaded/)
    const text = join(folder, 'text.so')
    writeFileSync(text, 'no library at all')
    expect(await reasonOf(text)).toMatch(/can be loaded/)
    expect(await reasonOf(join(folder, `libingot-${level?.name}.so`))).toMatch(/has no cblas_sgemm/)
    expect(await reasonOf(plainBlas('wide', ...like('OpenBLAS 9.9 USE64BITINT MAX_THREADS=64', 1)))).toMatch(/takes 64-bit sizes/)
    expect(await reasonOf(plainBlas('single', ...like('OpenBLAS 9.9 SINGLE_THREADED', 0)))).toMatch(/built for one thread/)
  })

  it('says what it is, and how often it may be called at once', async () => {
    expect((await findBlas(plain)).blas).toMatchObject({ name: 'libplain-plain.so', calls: 1 })
    expect((await findBlas(threaded)).blas).toMatchObject({ name: 'OpenBLAS 9.9', calls: 2 })
    expect((await findBlas(openmp)).blas).toMatchObject({ name: 'OpenBLAS 9.9', calls: 1 })
  })

  it('is looked for in INGOT_BLAS', async () => {
    vi.stubEnv('INGOT_BLAS', threaded)
    expect((await findBlas()).blas?.path).toBe(threaded)
    vi.stubEnv('INGOT_BLAS', 'OFF')
    expect((await findBlas()).reason).toEqual({ evidence: 'INGOT_BLAS is off', prescription: '' })
    vi.unstubAllEnvs()
  })

  it.each(['off', '/nowhere/libblas.so'])('is not needed (%s)', async (library) => {
    await using device = await open(2, { library })
    expect(productsOf(device)).toBeUndefined()
    expect(await check(device, { m: 33, k: 17, n: 20, bias: true })).toBeUndefined()
    expect(productsOf(device)).toMatchObject({ reason: { evidence: expect.any(String) }, choices: [] })
    expect(device.detail).not.toMatch(/BLAS/)
  })
})

const system = missing === undefined ? (await findBlas('')).blas : undefined
const libraries = [
  ['one with its own threads', plain],
  ['one that is called by ours', threaded],
  ['OpenMP', openmp],
  ["the system's", system?.path],
] as const

describe.each(libraries)('products by %s', (_, library) => {
  const devices: Device[] = []
  beforeEach(({ skip }) => {
    if (library === undefined) skip('no BLAS library is installed')
  })
  beforeAll(async () => {
    if (missing === undefined && library !== undefined)
      devices.push(...(await Promise.all([1, 2, 3].map((threads) => open(threads, { library, always: true })))))
  })
  afterAll(async () => {
    for (const device of devices) await device.close()
  })

  it('are right for any size', async () => {
    const side = integer({ min: 1, max: 70 })
    await assert(
      asyncProperty(record({ m: side, k: side, n: side, bias: boolean(), rank: integer({ min: 0, max: 9 }) }), async (shape) => {
        for (const device of devices) expect(await check(device, shape)).toBeUndefined()
      }),
      {
        numRuns: 40,
        examples: [
          [{ m: 1, k: 1, n: 1, bias: true, rank: 0 }],
          [{ m: 1, k: 67, n: 1, bias: false, rank: 0 }],
          [{ m: 200, k: 3, n: 1, bias: true, rank: 0 }],
          [{ m: 1, k: 3, n: 200, bias: true, rank: 2 }],
        ],
      },
    )
  })

  it('are right whichever way the matrices lie', async () => {
    const side = integer({ min: 9, max: 50 })
    const shape = record({ m: side, k: side, n: side, transposeA: boolean(), transposeB: boolean(), bias: boolean() })
    await assert(
      asyncProperty(shape, async (each) => {
        const params = { ...each, type: 'f32', batch: [] } as const
        const inputs = {
          a: valuesOf(each.m * each.k, 1),
          b: valuesOf(each.k * each.n, 2),
          ...(each.bias ? { bias: valuesOf(each.n, 3) } : {}),
        }
        for (const device of devices) {
          const { y } = await runFamily(device, matmul, params, inputs, { sentinels: true })
          expect(findDifference(y, matmul.define(inputs, params).y!, 1e-9)).toBeUndefined() // these waves cancel out far
        }
      }),
      { numRuns: 30 },
    )
  })

  it('are the same every time', async () => {
    const shape = { m: 150, k: 61, n: 70, bias: true }
    const inputs = { x: valuesOf(70 * 61, 1), w: valuesOf(150 * 61, 2), bias: valuesOf(150, 3) }
    for (const device of devices) {
      const runs = await Promise.all(Array.from({ length: 4 }, () => runFamily(device, linear, paramsOf(shape), inputs)))
      for (const { y } of runs) expect(y).toEqual(runs[0]!.y)
    }
  })

  it('keep their order among other work, also when replayed', async () => {
    const device = devices[1]!
    const {
      launches: [launch],
    } = linear.work(device.caps, paramsOf({ m: 2, k: 2, n: 1, bias: false }))
    const [x, w, y] = [put(device, [1, 1]), put(device, [1, 1, 0, 2]), device.alloc(8)]
    const multiply = {
      kind: 'dispatch',
      program: await device.compile(launch!.kernel),
      buffers: buffersBy(launch!, { x: { buffer: x }, w: { buffer: w }, y: { buffer: y } }),
      uniforms: packUniforms(launch!.kernel, launch!.uniforms),
      grid: launch!.grid,
    } as const
    const recording = device.record([
      multiply,
      { kind: 'copy', from: { buffer: y }, to: { buffer: x }, bytes: 8 },
      { kind: 'read', from: { buffer: x }, bytes: 8 },
    ])
    const all = await Promise.all(Array.from({ length: 4 }, () => device.submit(recording)))
    expect(all.map(([bytes]) => toFloats(bytes!))).toEqual([
      [2, 2],
      [4, 4],
      [8, 8],
      [16, 16],
    ])
    device.write(x, 0, floats(1, 0))
    expect(toFloats((await device.submit(recording))[0]!)).toEqual([1, 0])
  })

  it('fill their blanks with every submission, also the one that finds out who multiplies', async () => {
    const device = devices[1]!
    const {
      launches: [launch],
    } = linear.work(device.caps, paramsOf({ m: 2, k: 2, n: 1, bias: false }))
    const recording = device.record([
      {
        kind: 'dispatch',
        program: await device.compile(launch!.kernel),
        buffers: buffersBy(launch!, { x: { blank: 0, bytes: 8 }, w: { blank: 1, bytes: 16 }, y: { blank: 2, bytes: 8 } }),
        uniforms: packUniforms(launch!.kernel, launch!.uniforms),
        grid: launch!.grid,
      },
      { kind: 'read', from: { blank: 2, bytes: 8 }, bytes: 8 },
    ])
    const [x, w, y] = [put(device, [1, 1]), put(device, [1, 1, 0, 2]), device.alloc(8)]
    const multiply = async (): Promise<number[]> =>
      toFloats((await device.submit(recording, [{ buffer: x }, { buffer: w }, { buffer: y }]))[0]!)
    expect(await multiply()).toEqual([2, 2])
    const [other, to] = [put(device, [3, 1]), device.alloc(8)]
    const [bytes] = await device.submit(recording, [{ buffer: other }, { buffer: w }, { buffer: to }])
    expect(toFloats(bytes!)).toEqual([4, 2])
    expect(await multiply()).toEqual([2, 2])
  })
})

describe('the choice', () => {
  const large = { m: 64, k: 64, n: 64, bias: false }

  it('is made for classes of sizes', () => {
    const side = integer({ min: 1, max: 2 ** 20 })
    assert(
      property(record({ m: side, k: side, n: side, rank: constant(0), transposeA: boolean(), transposeB: boolean() }), (size) => {
        const measured = measuredSize(size)
        const { m, k, n } = measured
        expect([m, k, n].every((count, i) => Number.isInteger(Math.log2(count)) && count <= [size.m, size.k, size.n][i]!)).toBe(true)
        expect(m * k * n).toBeLessThanOrEqual(2 ** 24)
        expect(measuredSize(measured)).toEqual({ ...size, m, k, n })
      }),
    )
    const lie = { rank: 0, transposeA: false, transposeB: true }
    expect(measuredSize({ m: 2048, k: 2048, n: 128, ...lie })).toEqual({ m: 256, k: 512, n: 128, ...lie })
  })

  it('is measured once, and remembered', async () => {
    const timings = memoryStore()
    await using device = await open(2, { library: threaded, timings })
    expect(productsOf(device)).toBeUndefined()
    for (const m of [64, 70, 127]) expect(await check(device, { ...large, m })).toBeUndefined()
    const { choices } = productsOf(device)!
    expect(choices).toEqual([
      {
        size: '64 x 64 x 64 nt',
        verdict: expect.stringMatching(/^(faster|slower)$/),
        why: expect.stringMatching(/^\d+\.\d times as fast$/),
      },
    ])
    expect([...timings.all.keys()]).toEqual([expect.stringContaining(threaded)])
    await using again = await open(2, {
      library: threaded,
      timings: { get: timings.get, set: () => Promise.reject(new Error('measured again')) },
    })
    expect(await check(again, large)).toBeUndefined()
    expect(productsOf(again)!.choices).toEqual(choices)
    await using other = await open(1, { library: threaded, timings })
    await check(other, large)
    expect(timings.all.size).toBe(2)
  })

  it('falls on a library only if it is right', async () => {
    const timings = memoryStore()
    await using device = await open(2, { library: wrong, timings })
    expect(await check(device, large)).toBeUndefined()
    expect(productsOf(device)!.choices).toEqual([{ size: '64 x 64 x 64 nt', verdict: 'wrong', why: expect.stringMatching(/^NMSE /) }])
    // What is remembered is believed: this library then shows what it is.
    const [key] = timings.all.keys()
    timings.all.set(key!, [{ size: '64 x 64 x 64 nt', verdict: 'faster', why: '9.0 times as fast' }])
    await using trusting = await open(2, { library: wrong, timings })
    expect(await check(trusting, large)).toMatch(/NMSE 1.00e\+0/)
    expect(trusting.detail).toMatch(/, libplain-wrong.so$/)
    expect(await check(trusting, { ...large, n: 200 })).toBeUndefined()
  })

  it('survives a store that fails or holds nonsense', async () => {
    const fails = (): Promise<never> => Promise.reject(new Error('no disk'))
    const nonsense: Choice = { size: '?', verdict: 'faster', why: '' }
    for (const timings of [
      { get: fails, set: fails },
      { get: async () => undefined, set: fails },
      { get: async () => [nonsense], set: async () => {} },
    ]) {
      await using device = await open(2, { library: plain, timings })
      expect(await check(device, large)).toBeUndefined()
      expect(await check(device, large)).toBeUndefined()
    }
    const home = mkdtempSync(join(tmpdir(), 'ingot-blas-'))
    vi.stubEnv('XDG_CACHE_HOME', home)
    try {
      mkdirSync(join(home, 'ingot'))
      writeFileSync(join(home, 'ingot', 'timings.json'), '{"libblas')
      for (let i = 0; i < 2; i++) {
        await using device = await open(2, { library: plain })
        expect(await check(device, large)).toBeUndefined()
        expect(productsOf(device)!.choices).toHaveLength(1)
      }
    } finally {
      vi.unstubAllEnvs()
      rmSync(home, { recursive: true })
    }
  })

  it('is kept apart from the verdicts of self-tests, among which it once was', async () => {
    const home = mkdtempSync(join(tmpdir(), 'ingot-blas-'))
    vi.stubEnv('XDG_CACHE_HOME', home)
    try {
      const verdicts = join(home, 'ingot', 'verdicts.json')
      const old = JSON.stringify({
        'blas/of/old': { passed: ['64 x 64 x 64: 9.0 times as fast'], failed: [] },
        test: { passed: ['a'], failed: [] },
      })
      mkdirSync(join(home, 'ingot'))
      writeFileSync(verdicts, old)
      await using device = await open(2, { library: threaded })
      expect(await check(device, large)).toBeUndefined()
      const { choices } = productsOf(device)!
      expect(choices).toHaveLength(1)
      expect(readFileSync(verdicts, 'utf8')).toBe(old)
      expect(await openVerdicts().get('test')).toEqual({ passed: ['a'], failed: [] })
      const [key] = Object.keys(JSON.parse(readFileSync(join(home, 'ingot', 'timings.json'), 'utf8')) as object)
      expect(await openTimings().get(key!)).toEqual(choices)
      // What has another shape is as good as not there.
      writeFileSync(
        join(home, 'ingot', 'timings.json'),
        JSON.stringify({ [key!]: [{ size: '64 x 64 x 64 nt', verdict: 'fine', why: '' }] }),
      )
      expect(await openTimings().get(key!)).toBeUndefined()
    } finally {
      vi.unstubAllEnvs()
      rmSync(home, { recursive: true })
    }
  })

  it('is reported, also when the library is wrong', async () => {
    const examine = async (library: string): Promise<unknown> => {
      await using device = await open(2, { library, timings: memoryStore() })
      const findings = (await cpu.examine?.(device, { available: true, detail: '', key: '' })) ?? []
      return findings.find(({ probe }) => probe === 'f32 products')
    }
    expect(await examine('off')).toEqual({
      probe: 'f32 products',
      status: 'note',
      evidence: "by Ingot's own kernels: INGOT_BLAS is off",
      prescription: '',
    })
    expect(await examine(threaded)).toMatchObject({ status: 'note', evidence: expect.stringMatching(/^OpenBLAS 9.9 .*16 x 16 x 16 nt \(/) })
    expect(await examine(wrong)).toMatchObject({
      status: 'warn',
      evidence: expect.stringMatching(/^libplain-wrong.so .* is wrong: NMSE .* \(16 x 16 x 16 nt\)$/),
      prescription: expect.stringMatching(/INGOT_BLAS=off/),
    })
  })

  it('leaves alone what is a batch', async () => {
    await using device = await open(2, { library: wrong, always: true })
    const run = async (batch: readonly BatchAxis[]): Promise<unknown> => {
      const params = { type: 'f32', m: 10, n: 10, k: 1, transposeA: false, transposeB: true, batch, bias: false } as const
      const inputs = { a: valuesOf(20, 1).fill(2), b: valuesOf(20, 1).fill(3) }
      return (await runFamily(device, matmul, params, inputs))['y']
    }
    expect(await run([{ size: 2, strideA: 10, strideB: 10 }])).toEqual(new Float32Array(200).fill(6))
    expect(await run([])).toEqual(new Float32Array(100))
  })
})
