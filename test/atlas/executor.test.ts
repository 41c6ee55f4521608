// The executor: memory by handle, slots, the boundary pool, several programs at once. Runs on the reference device.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Executor as OpenExecutor } from '../../src/atlas.ts'
import { compileProgram } from '../../src/atlas/compile/compile.ts'
import { Executor } from '../../src/atlas/executor.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { errorOf } from '../ir/run.ts'
import { VECTOR_ADD } from './compiled.ts'

let executor: Executor
beforeEach(() => {
  executor = new Executor(openReference())
})
afterEach(() => executor.close())

const floats = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer)

describe('memory', () => {
  it('goes in and comes out, also of odd sizes', async () => {
    const handle = executor.allocate(7)
    expect(handle).toBe(1)
    expect([...(await executor.copyFrom(handle))]).toEqual([0, 0, 0, 0, 0, 0, 0])
    executor.copyTo(handle, Uint8Array.of(1, 2, 3, 4, 5, 6, 7))
    executor.copyTo(handle, Uint8Array.of(8, 9, 10), 4)
    expect([...(await executor.copyFrom(handle))]).toEqual([1, 2, 3, 4, 8, 9, 10])
    expect([...(await executor.copyFrom(handle, 4))]).toEqual([8, 9, 10])
    expect(executor.bytesOf(handle)).toBe(7)
  })

  it('has 96 slots, which come back', () => {
    const handles = Array.from({ length: 96 }, () => executor.allocate(4))
    expect(errorOf(() => executor.allocate(4)).code).toBe('too-large')
    expect(executor.slots).toHaveLength(96)
    executor.free(handles[41] ?? 0)
    expect(executor.allocate(4)).toBe(97)
    expect(executor.slots[41]).toEqual({ class: 41, handle: 97, bytes: 4, boundary: false })
    for (let round = 0; round < 200; round++) {
      const last = executor.slots.at(-1)?.handle ?? 0
      executor.free(last)
      executor.allocate(4)
    }
    expect(executor.stats.buffers).toBe(96)
  })

  it('refuses what is wrong and changes nothing', async () => {
    const handle = executor.allocate(8)
    executor.copyTo(handle, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8))
    const freed = executor.allocate(8)
    executor.free(freed)
    expect(errorOf(() => executor.free(freed)).code).toBe('double-free')
    expect(errorOf(() => executor.free(99)).code).toBe('unknown-handle')
    expect(errorOf(() => executor.copyTo(freed, new Uint8Array(4))).code).toBe('unknown-handle')
    expect(errorOf(() => executor.copyTo(handle, new Uint8Array(12))).code).toBe('out-of-range')
    expect(errorOf(() => executor.copyTo(handle, new Uint8Array(4), 8)).code).toBe('out-of-range')
    await expect(executor.copyFrom(handle, 4, 8)).rejects.toMatchObject({ code: 'out-of-range' })
    await expect(executor.copyFrom(99)).rejects.toMatchObject({ code: 'unknown-handle' })
    expect(errorOf(() => executor.allocate(0)).code).toBe('bad-argument')
    expect([...(await executor.copyFrom(handle))]).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(executor.slots).toHaveLength(1)
  })

  it('is a part of the boundary pool, which programs see by class', async () => {
    const handle = executor.allocateBoundary(5, 48, 256)
    expect(executor.slots).toEqual([{ class: 5, handle, bytes: 12288, boundary: true }])
    executor.copyTo(handle, Uint8Array.of(7, 0, 0, 0), 256)
    const program = parseProgram('ldg.u8 r1, [phi(5, 1, 0)]\nadd.u8 r1, r1, r1\nstg.u8 r1, [phi(5, 1, 1)]')
    await executor.execute(program)
    expect([...(await executor.copyFrom(handle, 256, 4))]).toEqual([7, 14, 0, 0])
    expect(errorOf(() => executor.allocateBoundary(5, 1, 1)).code).toBe('bad-argument')
    expect(errorOf(() => executor.allocateBoundary(96, 1, 1)).code).toBe('bad-class')
    expect(errorOf(() => executor.allocateBoundary(6, 49, 1)).code).toBe('bad-coordinates')
    expect(errorOf(() => executor.allocateBoundary(6, 1, 257)).code).toBe('bad-coordinates')
    executor.free(handle)
    expect(executor.allocateBoundary(5, 1, 1)).toBe(2)
  })
})

describe('pools', () => {
  it('are memory apart, with handles of their own', async () => {
    const [first, second] = [executor.allocatePool(7), executor.allocatePool(16)]
    expect([first, second]).toEqual([1, 2])
    expect(executor.slots).toEqual([])
    expect(executor.poolBytes(first)).toBe(7)
    executor.copyToPool(first, Uint8Array.of(1, 2, 3), 4)
    expect([...(await executor.copyFromPool(first))]).toEqual([0, 0, 0, 0, 1, 2, 3])
    const memory = executor.allocate(8)
    expect(memory).toBe(1)
    const program = parseProgram('movimm.u64 r0, 9\nmovimm.u64 r1, 8\nldg.u64 r2, [buf1 + 0]\npoolstore.u64 r1, r0, r2')
    await executor.execute(program, { pools: { 9: second } })
    expect([...(await executor.copyFromPool(second, 0, 4))]).toEqual([8, 0, 0, 0])
    executor.freePool(first)
    executor.freePool(second)
    expect(executor.stats.buffers).toBe(1)
  })

  it('refuse what is wrong and change nothing', async () => {
    const pool = executor.allocatePool(8)
    executor.copyToPool(pool, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8))
    const freed = executor.allocatePool(8)
    executor.freePool(freed)
    executor.allocate(8)
    expect(errorOf(() => executor.freePool(freed)).code).toBe('double-free')
    expect(errorOf(() => executor.freePool(9)).code).toBe('unknown-handle')
    expect(errorOf(() => executor.poolBytes(freed)).code).toBe('unknown-handle')
    expect(errorOf(() => executor.copyToPool(freed, new Uint8Array(4))).code).toBe('unknown-handle')
    expect(errorOf(() => executor.copyToPool(pool, new Uint8Array(8), 4)).code).toBe('out-of-range')
    await expect(executor.copyFromPool(pool, 8, 4)).rejects.toMatchObject({ code: 'out-of-range' })
    await expect(executor.copyFromPool(3)).rejects.toMatchObject({ code: 'unknown-handle' })
    for (const bytes of [0, -1, 1.5, NaN]) expect(errorOf(() => executor.allocatePool(bytes)).code).toBe('bad-argument')
    const load = parseProgram('movimm.u64 r0, 2\nmovimm.u64 r1, 0\npoolload.u8 r2, r0, r1')
    await expect(executor.execute(load)).rejects.toMatchObject({ code: 'unknown-handle' })
    expect([...(await executor.copyFromPool(pool))]).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(executor.stats.buffers).toBe(2)
  })
})

describe('handles that are computed while running', () => {
  const program = parseProgram('movimm.u64 r0, 1\nadd.u64 r0, r0, r0\nmovimm.u32 r1, 5\nstg.u32 r1, [r0 + 0]')

  it('mean what buffers names, or any memory', async () => {
    const [, second, third] = [1, 2, 3].map(() => executor.allocate(4))
    await executor.execute(program)
    expect([...(await executor.copyFrom(second ?? 0))]).toEqual([5, 0, 0, 0])
    await executor.execute(program, { buffers: { 2: third ?? 0 } })
    expect([...(await executor.copyFrom(third ?? 0))]).toEqual([5, 0, 0, 0])
    await expect(executor.execute(program, { buffers: { 1: 1 } })).rejects.toMatchObject({ code: 'unknown-handle' })
    executor.free(second ?? 0)
    await expect(executor.execute(program)).rejects.toMatchObject({ code: 'unknown-handle' })
  })

  it('are refused where nothing says which there are', () => {
    expect(errorOf(() => compileProgram(program)).message).toContain('r0 at instruction 3: stg.u32 r1, [r0 + 0]')
    expect(compileProgram(program, {}, { handles: { buffers: [1, 2] } }).explain()).toContain('handles: computed while running')
    const pool = parseProgram('poolload.u8 r1, r255, r255')
    expect(errorOf(() => compileProgram(pool)).code).toBe('unsupported')
  })

  it('are refused where a device cannot bind all that they may mean', async () => {
    const device = openReference()
    const small = new Executor(
      new Proxy(device, { get: (target, name) => (name === 'caps' ? { ...target.caps, bindings: 4 } : own(target, name)) }),
    )
    for (let i = 0; i < 4; i++) small.allocate(4)
    await expect(small.execute(program)).rejects.toMatchObject({
      code: 'too-large',
      message: expect.stringContaining('5 buffers') as string,
    })
    await small.execute(program, { buffers: { 1: 1, 2: 2 } })
    await small.close()
  })
})

/** A property of the real device, whose methods know only it. */
function own(device: Device, name: string | symbol): unknown {
  const value: unknown = Reflect.get(device, name)
  return typeof value === 'function' ? (value as (...given: unknown[]) => unknown).bind(device) : value
}

describe('programs', () => {
  it('run in one submission, one after the other, and are compiled once', async () => {
    const add = parseProgram(VECTOR_ADD)
    const [a, b, c] = [floats(1, 2, 3), floats(10, 20, 30), floats(0, 0, 0)].map((bytes) => {
      const handle = executor.allocate(bytes.length)
      executor.copyTo(handle, bytes)
      return handle
    })
    if (a === undefined || b === undefined || c === undefined) throw new Error('no handles')
    const { submissions, compiles } = { ...executor.stats }
    const again = { program: add, block: [3], buffers: { 1: c, 2: b, 3: a } } as const
    await executor.executeAll([{ program: add, block: [3] }, again])
    expect(executor.stats.submissions - submissions).toBe(1)
    expect(executor.stats.compiles - compiles).toBe(1)
    expect(new Float32Array((await executor.copyFrom(a)).slice().buffer)).toEqual(Float32Array.of(21, 42, 63))
    expect(executor.stats.buffers).toBe(3)
  })

  it('of no instructions do nothing', async () => {
    await executor.execute(parseProgram('; nothing'), { grid: [2], block: [4] })
    expect(executor.stats.buffers).toBe(0)
  })

  it('see a part of the boundary pool as a buffer', async () => {
    const handle = executor.allocateBoundary(3, 4, 256)
    await executor.execute(parseProgram('movimm.u32 r0, 99\nstg.u32 r0, [buf1 + 1020]'))
    expect([...(await executor.copyFrom(handle, 1020, 4))]).toEqual([99, 0, 0, 0])
    await expect(executor.execute(parseProgram('movimm.u32 r0, 99\nstg.u32 r0, [buf1 + 1024]'))).rejects.toMatchObject({
      code: 'out-of-range',
    })
  })

  it('that fail leave the executor as it was', async () => {
    const add = parseProgram(VECTOR_ADD)
    await expect(executor.execute(add)).rejects.toMatchObject({ code: 'unknown-handle' })
    for (let i = 0; i < 3; i++) executor.allocate(4)
    await expect(executor.execute(add, { block: [2] })).rejects.toMatchObject({ code: 'out-of-range' })
    expect(executor.stats.buffers).toBe(3)
    await executor.execute(add)
    await expect(executor.execute(add, { block: [0] })).rejects.toMatchObject({ code: 'bad-argument' })
  })

  it('that cannot be compiled are refused with the place', async () => {
    const refused = async (text: string, block = 4): Promise<unknown> =>
      executor.execute(parseProgram(text), { block: [block], sharedBytes: 16 }).then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(await refused('movimm.u8 r1, 1\nmov.i8 r2, r1')).toMatchObject({
      code: 'type-mismatch',
      message: expect.stringContaining('instruction 1 (mov.i8 r2, r1), got u8, written by instruction 0 (movimm.u8 r1, 1)') as string,
    })
    expect(
      await refused('movimm.u32 r0, 1\nsetlt.u32 p0, r252, r0\nbra p0, @a\nbarsync 0\na:\nexit'),
      'lanes part before a barrier',
    ).toMatchObject({ code: 'bad-kernel', message: expect.stringContaining('barrier that some lanes may not reach') as string })
    expect(await refused('a:\ncall @a')).toMatchObject({ code: 'unsupported' })
    expect(await refused('a:\nbra @a')).toMatchObject({ code: 'bad-program' })
  })
})

it('opens a device by name', async () => {
  await using opened = await OpenExecutor.open({ backend: 'reference' })
  expect(opened.device.name).toBe('reference')
  await expect(OpenExecutor.open({ backend: 'cuda' })).rejects.toMatchObject({ code: 'unsupported' })
  await expect(OpenExecutor.open({ backend: 'abacus' })).rejects.toMatchObject({ code: 'unknown-name' })
})
