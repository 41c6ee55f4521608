// Programs that every device runs, with what they must give. The device's own tests call this with an executor on it.
import { describe, expect, it } from 'vitest'
import type { Executor } from '../../src/atlas/executor.ts'
import { compileProgram } from '../../src/atlas/compile/compile.ts'
import { interpretProgram } from '../../src/atlas/interpret.ts'
import type { LaunchOptions } from '../../src/atlas/launch.ts'
import type { AtlasProgram } from '../../src/atlas/program.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { IngotError } from '../../src/base/error.ts'
import { errorOf } from '../ir/run.ts'
import { HANDLE_CASES, HANDLE_FAULTS } from './handles.ts'

export const VECTOR_ADD = `
  movimm.u32 r0, 2
  shl.u64 r1, r255, r0       ; four bytes a lane
  movimm.u64 r2, 1
  movimm.u64 r3, 2
  movimm.u64 r4, 3
  ldg.f32 r5, [r2 + r1]
  ldg.f32 r6, [r3 + r1]
  add.f32 r7, r5, r6
  stg.f32 r7, [r4 + r1]`

/** What it runs with besides its buffers. */
export interface RunOptions extends LaunchOptions {
  readonly checks?: boolean
  readonly f64AsF32?: boolean
  /** of the host, 1 and on */
  readonly pools?: readonly Uint8Array[]
}

/** What a program leaves in its buffers, 1 and on, and then in its pools. */
export async function runCompiled(
  executor: Executor,
  program: AtlasProgram,
  buffers: readonly Uint8Array[],
  { pools = [], ...launch }: RunOptions,
): Promise<Uint8Array[]> {
  const handles = buffers.map((bytes) => {
    const handle = executor.allocate(bytes.length)
    executor.copyTo(handle, bytes)
    return handle
  })
  const poolHandles = pools.map((bytes) => {
    const handle = executor.allocatePool(bytes.length)
    executor.copyToPool(handle, bytes)
    return handle
  })
  const named = (all: readonly number[]): Record<number, number> => Object.fromEntries(all.map((handle, i) => [i + 1, handle]))
  try {
    await executor.execute(program, { ...launch, buffers: named(handles), pools: named(poolHandles) })
    return await Promise.all([
      ...handles.map((handle) => executor.copyFrom(handle)),
      ...poolHandles.map((handle) => executor.copyFromPool(handle)),
    ])
  } finally {
    for (const handle of handles) executor.free(handle)
    for (const handle of poolHandles) executor.freePool(handle)
  }
}

export function runInterpreted(program: AtlasProgram, buffers: readonly Uint8Array[], { pools = [], ...launch }: RunOptions): Uint8Array[] {
  const copies = [buffers, pools].map((all) => all.map((bytes) => bytes.slice()))
  const named = (all: readonly Uint8Array[] = []): Map<number, Uint8Array> => new Map(all.map((bytes, i) => [i + 1, bytes]))
  interpretProgram(program, { buffers: named(copies[0]), pools: named(copies[1]) }, launch)
  return copies.flat()
}

async function failure(work: Promise<unknown>): Promise<IngotError> {
  try {
    await work
  } catch (error) {
    if (error instanceof IngotError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

const words = (count: number): Uint8Array =>
  new Uint8Array(Uint32Array.from({ length: count }, (_, i) => Math.imul(i + 1, 0x9e3779b1)).buffer)

/** A program and all that it needs; compared with the interpreter to the last bit. */
const CASES: Record<string, { text: string; launch?: RunOptions; buffers?: readonly Uint8Array[] }> = {
  ...HANDLE_CASES,
  'a loop that counts down': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      mov.u32 r0, r252
      movimm.u32 r1, 1
      movimm.u32 r2, 3
      again:
      mul.u32 r1, r1, r2
      loop r0, @again
      stg.u32 r1, [r9 + r7]`,
    launch: { block: [8], grid: [2] },
    buffers: [words(16)],
  },
  'a launch of three dimensions': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      movimm.u32 r1, 100
      mad.u32 r2, r253, r1, r252
      mad.u32 r2, r2, r1, r254
      stg.u32 r2, [r9 + r7]`,
    launch: { block: [2, 3, 2], grid: [3, 2, 2] },
    buffers: [words(144)],
  },
  'nested loops that are left in the middle': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      movimm.u32 r0, 0
      movimm.u32 r1, 1
      movimm.u32 r5, 7
      cvt.u32.u64 r6, r255
      outer:
      movimm.u32 r2, 0
      inner:
      add.u32 r0, r0, r1
      seteq.u32 p0, r0, r6
      bra p0, @out
      add.u32 r2, r2, r1
      setlt.u32 p1, r2, r5
      bra p1, @inner
      setlt.u32 p2, r0, r6
      bra p2, @outer
      out:
      mad.u32 r0, r0, r5, r2
      stg.u32 r0, [r9 + r7]`,
    launch: { block: [8], grid: [3] },
    buffers: [words(24)],
  },
  'branches that skip each other': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      movimm.u32 r1, 1
      movimm.u32 r2, 2
      movimm.u32 r3, 4
      and.u32 r10, r252, r1
      and.u32 r11, r252, r2
      and.u32 r12, r252, r3
      movimm.u32 r0, 0
      seteq.u32 p0, r10, r1
      seteq.u32 p1, r11, r2
      seteq.u32 p2, r12, r3
      bra p0, @a
      bra p1, @b
      add.u32 r0, r0, r1
      bra @c
      a:
      add.u32 r0, r0, r2
      bra p2, @c
      b:
      add.u32 r0, r0, r3
      bra p1, @d
      c:
      mul.u32 r0, r0, r3
      d:
      stg.u32 r0, [r9 + r7]
      bra p2, @end
      exit
      end:
      add.u32 r0, r0, r1
      stg.u32 r0, [r9 + r7]`,
    launch: { block: [8] },
    buffers: [words(8)],
  },
  'a loop that is entered in the middle': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      movimm.u32 r0, 0
      movimm.u32 r1, 1
      movimm.u32 r2, 4
      setlt.u32 p0, r252, r2
      bra p0, @second
      first:
      mul.u32 r0, r0, r2
      second:
      add.u32 r0, r0, r1
      setlt.u32 p1, r0, r8
      bra p1, @first
      setlt.u32 p2, r0, r2
      bra p2, @second
      stg.u32 r0, [r9 + r7]`,
    launch: { block: [8] },
    buffers: [words(8)],
  },
  'calls of calls': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      mov.u32 r0, r252
      call @twice
      call @once
      call @twice
      stg.u32 r0, [r9 + r7]
      exit
      twice:
      call @once
      call @once
      ret
      once:
      add.u32 r0, r0, r0
      movimm.u32 r1, 5
      xor.u32 r0, r0, r1
      ret`,
    launch: { block: [8] },
    buffers: [words(8)],
  },
  'shared memory, turned round': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      cvt.u64.u32 r1, r252
      shl.u64 r2, r1, r8
      ldg.u32 r3, [r9 + r7]
      sts.u32 r3, [r2 + 0]
      barsync 0
      movimm.u64 r4, 28
      sub.u64 r5, r4, r2
      lds.u32 r6, [r5 + 0]
      barsync 1
      sts.u32 r6, [r5 + 32]
      barsync 0
      lds.u32 r10, [r2 + 32]
      add.u32 r10, r10, r6
      stg.u32 r10, [r9 + r7]`,
    launch: { block: [8], grid: [2], sharedBytes: 64 },
    buffers: [words(16)],
  },
  'memory of several types at once': {
    text: `
      ldg.u8 r1, [buf1 + 3]
      ldg.i16 r2, [buf1 + 2]
      ldg.u64 r3, [buf1 + 8]
      ldg.f32 r4, [buf1 + 4]
      stg.f32 r4, [buf1 + 16]
      stg.u64 r3, [buf1 + 24]
      stg.i16 r2, [buf1 + 22]
      stg.u8 r1, [buf1 + 21]`,
    buffers: [words(8)],
  },
  'two pools of a lane, one given back and taken again': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      movimm.u32 r0, 2
      movimm.u64 r1, 4
      movimm.u64 r2, 16
      poolalloc 24, r3
      poolstore.u32 r252, r3, r2
      again:
      poolalloc 8, r4
      poolload.u32 r5, r4, r1
      add.u32 r5, r5, r0
      poolload.u32 r6, r3, r2
      add.u32 r6, r6, r5
      poolstore.u32 r6, r3, r2
      poolstore.u32 r6, r4, r1
      poolfree r4
      loop r0, @again
      poolload.u32 r6, r3, r2
      stg.u32 r6, [r9 + r7]`,
    launch: { block: [4], grid: [2] },
    buffers: [words(8)],
  },
  'classes and phases': {
    text: `
      movimm.u64 r9, 1
      movimm.u32 r8, 4
      shl.u64 r7, r255, r8
      movimm.u64 r11, 4
      movimm.u64 r12, 8
      clsget r1
      mirror r2, r1
      nbrcount r3, r2
      nbrget r4, r2, 5
      unitytest p0, 0
      phaseadv 767
      phaseadv 700
      phaseget r5
      boundmap r6, r1, r1, r2
      sel.u8 r4, p0, r1, r4
      cvt.u32.u8 r13, r4
      add.u32 r13, r13, r3
      stg.u32 r13, [r9 + r7]
      add.u64 r7, r7, r11
      stg.u32 r5, [r9 + r7]
      add.u64 r7, r7, r11
      cvt.u32.u64 r14, r6
      stg.u32 r14, [r9 + r7]`,
    launch: { grid: [8] },
    buffers: [words(32)],
  },
}

export function describeCompiled(executorOf: () => Executor): void {
  describe.each(Object.entries(CASES))('%s', (_name, { text, launch = {}, buffers = [] }) => {
    it.each([true, false])('checks: %s', async (checks) => {
      const program = parseProgram(text)
      expect(await runCompiled(executorOf(), program, buffers, { ...launch, checks })).toEqual(runInterpreted(program, buffers, launch))
    })
  })

  it('adds vectors', async () => {
    const [a, b] = [Float32Array.from({ length: 96 }, (_, i) => i / 7), Float32Array.from({ length: 96 }, (_, i) => -i * i)]
    const buffers = [a, b, new Float32Array(96)].map(({ buffer }) => new Uint8Array(buffer))
    const [, , sum = new Uint8Array()] = await runCompiled(executorOf(), parseProgram(VECTOR_ADD), buffers, { grid: [3], block: [32] })
    expect(new Float32Array(sum.slice().buffer)).toEqual(a.map((x, i) => x + (b[i] ?? 0)))
  })

  it('reports the first lane that fails, and where', async () => {
    const program = parseProgram(VECTOR_ADD)
    const short = [new Uint8Array(256), new Uint8Array(100), new Uint8Array(256)]
    const error = await failure(runCompiled(executorOf(), program, short, { grid: [2], block: [32] }))
    const wanted = errorOf(() => runInterpreted(program, short, { grid: [2], block: [32] }))
    expect(error.code).toBe('out-of-range')
    expect(error.code).toBe(wanted.code)
    expect(error.what.split(',').slice(0, 2)).toEqual(wanted.what.split(',').slice(0, 2))
    expect(error.message).toContain('lane 25, instruction 6: ldg.f32 r6, [r3 + r1]), got byte 100')
  })

  it.each([
    ['division-by-zero', 'movimm.u32 r0, 3\nsub.u32 r1, r0, r252\ndiv.u32 r2, r0, r1', 3],
    ['division-by-zero', 'movimm.u64 r0, 2\nsub.u64 r1, r0, r255\ndiv.u64 r2, r0, r1', 2],
    ['uninitialised', 'movimm.u32 r0, 5\nsetlt.u32 p0, r252, r0\nbra p0, @a\nbra @b\na:\nmovimm.u8 r1, 1\nb:\nmov.u8 r2, r1', 5],
    ['uninitialised', 'mov.u8 r2, r1', 0],
    ['bad-address', 'ldg.u16 r1, [buf1 + 3]', 0],
    ['bad-class', 'movimm.u32 r0, 93\nadd.u32 r0, r0, r252\ncvt.u8.u32 r1, r0\nmirror r2, r1', 3],
    ['stack-underflow', 'ret', 0],
    ['out-of-range', 'movimm.u64 r0, 1\nldg.u8 r1, [r0 - 1]', 0],
    ['out-of-range', 'movimm.u64 r0, 1\nadd.u64 r0, r0, r255\npoolalloc 4, r1\npoolload.u8 r2, r1, r0', 3],
    ['unknown-handle', 'movimm.u64 r0, 0\npoolalloc 4, r1\npoolfree r1\npoolload.u8 r2, r1, r0', 0],
    ['unknown-handle', 'poolalloc 4, r1\npoolfree r1\npoolfree r1', 0],
    ['double-free', 'movimm.u32 r0, 1\na:\npoolalloc 8, r1\nloop r0, @a', 0],
    ...HANDLE_FAULTS,
  ])('%s: %j', async (code, text, lane) => {
    const [program, buffers, launch] = [parseProgram(text), [new Uint8Array(16)], { block: [8], pools: [new Uint8Array(16)] }] as const
    const error = await failure(runCompiled(executorOf(), program, buffers, launch))
    const wanted = errorOf(() => runInterpreted(program, buffers, launch))
    expect([error.code, wanted.code]).toEqual([code, code])
    expect(error.message).toContain(`lane ${lane}, instruction `)
    expect(wanted.message).toContain(`lane ${lane}, instruction `)
  })

  it('says what became of jumps', () => {
    const text = (name: string): string => CASES[name]?.text ?? ''
    const { block = [1] } = CASES['a loop that is entered in the middle']?.launch ?? {}
    expect(compileProgram(parseProgram(text('a loop that is entered in the middle')), { block }).explain()).toContain('dispatch loop')
    expect(compileProgram(parseProgram(text('calls of calls')), { block }).explain()).toContain('nested')
  })
}
