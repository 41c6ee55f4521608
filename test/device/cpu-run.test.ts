// What the cpu device does beyond the rules of every device: threads, traps, growth, GPU-style kernels.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findDifference } from '../../src/device/open/compare.ts'
import type { Device, Dispatch } from '../../src/device/device.ts'
import { cpu, openCpu } from '../../src/device/cpu/cpu.ts'
import { runFamily } from '../../src/device/open/run-family.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { buffersOf, packUniforms } from '../../src/ir/kernel.ts'
import { norm } from '../../src/kernel/reduce/norm.ts'
import { compareOutputs, randomKernel } from '../ir/random.ts'
import { floats, put, scaling, stepping, toFloats } from './kernels.ts'

const features = await detectWasm()
const ways: readonly (readonly [name: string, open: () => Promise<Device>])[] = [
  ['1 thread', () => openCpu({ threads: 1, level: 'wasm' })],
  ['2 threads', () => openCpu({ threads: 2, level: 'wasm' })],
  ['3 threads', () => openCpu({ threads: 3, level: 'wasm' })],
  ['no shared memory', () => openCpu({ features: { ...features, threads: false } })],
]

/** Reads x[n] into y[0]: with a large n outside of all memory. */
const peek = kernel('peek', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write'), n: uniform('u32') } }, (p) =>
  p.y.set(0, p.x.at(p.n)),
)

async function peeking(device: Device, n: number): Promise<Dispatch> {
  const [x, y] = [device.alloc(64), device.alloc(64)]
  return {
    kind: 'dispatch',
    program: await device.compile(peek),
    buffers: [{ buffer: x }, { buffer: y }],
    uniforms: packUniforms(peek, { n }),
    grid: [1, 1, 1],
  }
}

/** One total per workgroup of 64 lanes: subgroups, shared memory, barriers. */
const total = kernel(
  'total',
  { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') }, workgroup: [64], subgroup: 32 },
  (p, k) => {
    const partial = k.shared('partial', 'f32', 2)
    const sum = k.subSum(p.x.at(k.globalId.x))
    k.when(k.sublane.eq(0), () => partial.set(k.subgroupId, sum))
    k.barrier()
    k.when(k.lane.eq(0), () => p.y.set(k.workgroupId.x, partial.at(0).add(partial.at(1))))
  },
)

describe.each(ways)('%s', (_name, open) => {
  let device: Device
  beforeAll(async () => {
    device = await open()
  })
  afterAll(() => device.close())

  it('runs random kernels like the interpreter, all in one submission', async () => {
    const randoms = Array.from({ length: 12 }, (_, seed) =>
      randomKernel(seed, { subgroup: seed % 2 === 0 ? 8 : 0, workgroupMax: 16, tiles: seed % 4 === 0 }),
    )
    const commands = await Promise.all(
      randoms.map(async ({ kernel: written, buffers, uniforms, grid }) => {
        const given = buffers()
        const ranges = buffersOf(written).map(({ name }) => {
          const handle = device.alloc(given[name]!.length)
          device.write(handle, 0, given[name]!)
          return { buffer: handle, bytes: given[name]!.length }
        })
        const dispatch: Dispatch = {
          kind: 'dispatch',
          program: await device.compile(written),
          buffers: ranges,
          uniforms: packUniforms(written, uniforms),
          grid,
        }
        return { dispatch, reads: ranges.map((from) => ({ kind: 'read', from, bytes: from.bytes }) as const) }
      }),
    )
    const got = await device.submit([...commands.map(({ dispatch }) => dispatch), ...commands.flatMap(({ reads }) => reads)])
    for (const { kernel: written, buffers, uniforms, grid, outputs } of randoms) {
      const wanted = buffers()
      interpret(written, { buffers: wanted, uniforms, grid })
      const mine = Object.fromEntries(buffersOf(written).map(({ name }) => [name, got.shift()!]))
      compareOutputs(wanted, mine, outputs)
    }
    expect(got).toEqual([])
  })

  it('runs a kernel written for a GPU', async () => {
    const x = put(
      device,
      Array.from({ length: 640 }, (_, i) => i % 7),
    )
    const y = device.alloc(40)
    const program = await device.compile(total)
    const [sums] = await device.submit([
      { kind: 'dispatch', program, buffers: [{ buffer: x }, { buffer: y }], uniforms: new Uint8Array(0), grid: [10, 1, 1] },
      { kind: 'read', from: { buffer: y }, bytes: 40 },
    ])
    const wanted = Array.from({ length: 10 }, (_, group) =>
      Array.from({ length: 64 }, (_, i) => (group * 64 + i) % 7).reduce((a, b) => a + b),
    )
    expect(toFloats(sums!)).toEqual(wanted)
  })

  it.each(norm.cases)('norm %j', async (params) => {
    const inputs = Object.fromEntries(
      norm
        .buffers(params)
        .filter(({ role }) => role === 'in')
        .map(({ name, elements }) => [name, Float32Array.from({ length: elements }, (_, i) => Math.sin(i * 12.9898 + name.length))]),
    )
    const { y } = await runFamily(device, norm, params, inputs, { sentinels: true })
    expect(findDifference(y, norm.define(inputs, params)['y']!, norm.tolerance(params))).toBeUndefined()
  })

  it('rejects a submission whose kernel traps, and goes on', async () => {
    const bad = await peeking(device, 2 ** 29)
    const good = await peeking(device, 0)
    const x = put(device, [1])
    const next = await stepping(device, { buffer: x }, 1)
    const outcomes = await Promise.allSettled([
      device.submit([good]),
      device.submit([bad, next]),
      device.submit([next]),
      device.submit([good]),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect((outcomes[1] as PromiseRejectedResult).reason).toMatchObject({
      code: 'device-failed',
      message: expect.stringMatching(/memory access out of bounds/),
    })
    await device.sync()
    expect(await device.submit([good])).toEqual([])
  })

  it('grows its memory while threads are at work', async () => {
    const x = put(device, [1, 2, 3])
    const small = device.alloc(12)
    const first = device.submit([await scaling(device, { buffer: x }, { buffer: small }, 3, 2)])
    const large = device.alloc(48 * 2 ** 20)
    device.write(large, 47 * 2 ** 20, floats(4, 5, 6))
    const [doubled, filled] = await device.submit([
      await scaling(device, { buffer: large, offset: 47 * 2 ** 20 }, { buffer: large, offset: 40 * 2 ** 20, bytes: 12 }, 3, 10).then(
        (command) => ({
          ...command,
          buffers: [
            { buffer: large, offset: 47 * 2 ** 20, bytes: 12 },
            { buffer: large, offset: 40 * 2 ** 20, bytes: 12 },
          ],
        }),
      ),
      { kind: 'read', from: { buffer: large, offset: 40 * 2 ** 20 }, bytes: 12 },
      { kind: 'fill', to: { buffer: large }, bytes: 32 * 2 ** 20, value: 7 },
      { kind: 'copy', from: { buffer: large }, to: { buffer: large, offset: 34 * 2 ** 20 }, bytes: 4 * 2 ** 20 },
      { kind: 'read', from: { buffer: large, offset: 38 * 2 ** 20 - 4 }, bytes: 4 },
    ])
    await first
    expect(toFloats(doubled!)).toEqual([40, 50, 60])
    expect([...filled!]).toEqual([7, 7, 7, 7])
    expect(toFloats(await device.read(small, 0, 12))).toEqual([2, 4, 6])
  })

  it('keeps the order of a long queue', async () => {
    const x = put(device, [0])
    const next = device.record([await stepping(device, { buffer: x }, 1)])
    const all = Array.from({ length: 200 }, (_, i) => {
      if (i % 20 === 0) device.write(x, 0, floats(0))
      return device.submit(next)
    })
    expect(toFloats(await device.read(x, 0, 4))).toEqual([2 ** 20 - 1])
    await Promise.all(all)
  })
})

describe('the factory', () => {
  it('says what it would open', async () => {
    const { available, detail } = await cpu.probe()
    expect([available, detail]).toEqual([true, expect.stringMatching(/^(WebAssembly (relaxed )?SIMD|native .*), \d+ threads?$/)])
  })

  it('refuses a bad number of threads', async () => {
    await expect(cpu.open({ threads: 0 })).rejects.toMatchObject({ code: 'bad-argument' })
  })

  it('refuses an engine without SIMD', async () => {
    await expect(openCpu({ features: { ...features, simd: false } })).rejects.toMatchObject({ code: 'device-unavailable' })
  })
})
