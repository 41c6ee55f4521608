// What the interpreter gives, and which errors it finds.
import { describe, expect, it } from 'vitest'
import { mirrorOf, neighboursOf } from '../../src/atlas/class.ts'
import { interpretProgram } from '../../src/atlas/interpret.ts'
import type { LaunchOptions } from '../../src/atlas/launch.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import type { IngotError } from '../../src/base/error.ts'
import { errorOf } from '../ir/run.ts'

/** Runs a text with one buffer of bytes, number 1. */
function run(text: string, bytes = 64, launch: LaunchOptions = {}): DataView {
  const buffer = new Uint8Array(bytes)
  interpretProgram(parseProgram(text), { buffers: new Map([[1, buffer]]) }, launch)
  return new DataView(buffer.buffer)
}

function failure(text: string, launch: LaunchOptions = {}): IngotError {
  return errorOf(() => run(text, 64, launch))
}

const set = (register: number, type: string, value: number | string): string => `movimm.${type} r${register}, ${value}\n`

describe('values', () => {
  it.each([
    ['add', 'i8', 127, 1, -128],
    ['sub', 'u16', 0, 1, 65535],
    ['mul', 'i32', 2 ** 31 - 1, 2 ** 31 - 1, 1],
    ['mul', 'u64', '0xffffffffffffffff', '0xffffffffffffffff', 1],
    ['div', 'i32', -7, 2, -3],
    ['div', 'i64', '-9223372036854775808', -1, -9223372036854775808n],
    ['min', 'i8', -1, 1, -1],
    ['max', 'u8', 255, 1, 255],
    ['xor', 'u32', 0xf0f0, 0xffff, 0x0f0f],
    ['add', 'f32', 16777216, 1, 16777216],
    ['add', 'f16', 2048, 1, 2048],
    ['add', 'bf16', 256, 1, 256],
    ['div', 'f32', 1, 0, Infinity],
  ])('%s.%s of %s and %s is %s', (op, type, a, b, wanted) => {
    const view = run(`${set(1, type, a)}${set(2, type, b)}${op}.${type} r3, r1, r2\ncvt.f64.${type} r4, r3\nstg.f64 r4, [buf1 + 0]`)
    expect(view.getFloat64(0, true)).toBe(Number(wanted))
  })

  it('shifts modulo the width', () => {
    const shifted = (op: string, type: string, value: number, by: number): bigint =>
      run(`${set(1, type, value)}${set(2, 'u32', by)}${op}.${type} r3, r1, r2\ncvt.i64.${type} r4, r3\nstg.i64 r4, [buf1 + 0]`).getBigInt64(
        0,
        true,
      )
    expect(shifted('shl', 'u8', 1, 9)).toBe(2n)
    expect(shifted('shr', 'i16', -4, 17)).toBe(-2n)
    expect(shifted('shl', 'i64', 1, 63)).toBe(-(2n ** 63n))
    expect(shifted('shr', 'u32', 2 ** 31, 31)).toBe(1n)
  })

  it('rounds fma once and mad twice', () => {
    const a = Math.fround(1 + 2 ** -12)
    const text = (op: string): string =>
      `${set(1, 'f32', a)}${set(2, 'f32', Math.fround(-(1 + 2 ** -11)))}${op}.f32 r3, r1, r1, r2\nstg.f32 r3, [buf1 + 0]`
    expect(run(text('fma')).getFloat32(0, true)).toBe(2 ** -24)
    expect(run(text('mad')).getFloat32(0, true)).toBe(0)
  })

  it('converts, cut and limited', () => {
    const converted = (from: string, to: string, value: number | string): number =>
      run(`${set(1, from, value)}cvt.${to}.${from} r2, r1\ncvt.f64.${to} r3, r2\nstg.f64 r3, [buf1 + 0]`).getFloat64(0, true)
    expect(converted('f32', 'u8', 300.7)).toBe(255)
    expect(converted('f32', 'u8', -3)).toBe(0)
    expect(converted('f64', 'i64', -1e30)).toBe(-(2 ** 63))
    expect(converted('f32', 'i32', '0x7fc00000')).toBe(0)
    expect(converted('i32', 'u8', -1)).toBe(255)
    expect(converted('u64', 'f32', '0x8000008000000001')).toBe(2 ** 63 + 2 ** 40)
  })
})

describe('lanes', () => {
  it('know where they are', () => {
    const text = `
      movimm.u32 r0, 2
      shl.u64 r1, r255, r0
      movimm.u64 r2, 1
      movimm.u32 r3, 100
      mad.u32 r4, r253, r3, r252
      mad.u32 r4, r254, r3, r4
      stg.u32 r4, [r2 + r1]`
    const view = run(text, 48, { grid: [2, 1, 2], block: [3] })
    expect(Array.from({ length: 12 }, (_, i) => view.getUint32(4 * i, true) - 300)).toEqual([
      0, 1, 2, 100, 101, 102, 0, 1, 2, 100, 101, 102,
    ])
  })

  it('exchange through shared memory at a barrier', () => {
    const text = `
      movimm.u32 r0, 2
      shl.u64 r1, r255, r0
      movimm.u64 r2, 12
      sub.u64 r3, r2, r1
      movimm.u64 r4, 1
      sts.u32 r252, [r1 + 0]
      barsync 0
      lds.u32 r5, [r3 + 0]
      stg.u32 r5, [r4 + r1]`
    const view = run(text, 16, { block: [4], sharedBytes: 16 })
    expect([0, 4, 8, 12].map((at) => view.getUint32(at, true))).toEqual([3, 2, 1, 0])
  })

  it('loop, call and return', () => {
    const view = run(`
      movimm.u32 r0, 4
      movimm.i32 r1, 1
      movimm.i32 r2, 3
      again:
      call @triple
      loop r0, @again
      stg.i32 r1, [buf1 + 0]
      exit
      triple:
      mul.i32 r1, r1, r2
      ret`)
    expect(view.getInt32(0, true)).toBe(3 ** 5)
  })

  it('know classes, phases and the boundary pool', () => {
    const view = run(
      `clsget r1
       mirror r2, r1
       nbrcount r3, r1
       nbrget r4, r1, 5
       unitytest p0, 0.5
       phaseadv 700
       phaseadv 100
       phaseget r5
       movimm.u8 r6, 47
       boundmap r7, r1, r6, r6
       sel.u8 r8, p0, r1, r2
       stg.u8 r1, [buf1 + 0]
       stg.u8 r2, [buf1 + 1]
       stg.u32 r3, [buf1 + 4]
       stg.u8 r4, [buf1 + 2]
       stg.u32 r5, [buf1 + 8]
       stg.u64 r7, [buf1 + 16]
       stg.u8 r8, [buf1 + 3]
       stg.u8 r1, [phi(1, 2, 3)]
       ldg.u8 r9, [phi(1, 2, 3)]
       stg.u8 r9, [buf1 + 12]`,
      64,
      { grid: [98] },
    ) // the last block has class 1
    expect([0, 1, 2, 3, 12].map((at) => view.getUint8(at))).toEqual([1, mirrorOf(1), neighboursOf(1)[5], 1, 1])
    expect(view.getUint32(4, true)).toBe(6)
    expect(view.getUint32(8, true)).toBe(32)
    expect(view.getBigUint64(16, true)).toBe(BigInt(12288 + 47 * 256 + 47))
  })

  it('add up by class and use pools', () => {
    const text = `
      clsget r1
      movimm.f64 r2, 0.5
      resaccum r1, r2
      poolalloc 16, r3
      movimm.u64 r4, 8
      poolstore.f64 r2, r3, r4
      poolload.f64 r5, r3, r4
      resaccum r1, r5
      poolfree r3`
    const { accumulators } = interpretProgram(parseProgram(text), { buffers: new Map() }, { grid: [97], block: [2] })
    expect(accumulators.slice(0, 3)).toEqual(Float64Array.of(4, 2, 2))
  })

  it('reduce over registers', () => {
    const values = [5, -3, 7]
    const text = values.map((value, i) => set(10 + i, 'i32', value)).join('')
    const reduced = (op: string): number => run(`${text}${op}.i32 r1, r10, 3\nstg.i32 r1, [buf1 + 0]`).getInt32(0, true)
    expect(['reduceadd', 'reducemin', 'reducemax', 'reducemul'].map(reduced)).toEqual([9, -3, 7, -105])
  })
})

describe('errors', () => {
  it.each([
    ['uninitialised', 'mov.u8 r1, r0'],
    ['uninitialised', 'a:\nbra p3, @a'],
    ['uninitialised', 'lds.u8 r1, [buf0 + 0]'],
    ['type-mismatch', 'movimm.u8 r0, 1\nmov.i8 r1, r0'],
    ['type-mismatch', 'mov.u32 r1, r255'],
    ['division-by-zero', 'movimm.i64 r0, 0\ndiv.i64 r1, r0, r0'],
    ['stack-underflow', 'ret'],
    ['stack-overflow', 'a:\ncall @a'],
    ['unknown-handle', 'ldg.u8 r1, [buf2 + 0]'],
    ['unknown-handle', 'movimm.u64 r0, 9\npoolfree r0'],
    ['out-of-range', 'ldg.u8 r1, [buf1 + 64]'],
    ['out-of-range', 'movimm.u64 r0, 1\nldg.u8 r1, [r0 - 1]'],
    ['out-of-range', 'movimm.u64 r0, 8\npoolalloc 8, r1\npoolload.u8 r2, r1, r0'],
    ['out-of-range', 'sts.u8 r252, [buf0 + 9]'.replace('sts.u8 r252', 'movimm.u8 r1, 0\nsts.u8 r1')],
    ['bad-address', 'ldg.u32 r1, [buf1 + 2]'],
    ['bad-class', 'movimm.u8 r0, 96\nmirror r1, r0'],
    ['bad-coordinates', 'movimm.u8 r0, 48\nboundmap r1, r0, r0, r0'],
    ['double-free', 'movimm.u32 r0, 1\na:\npoolalloc 8, r1\nloop r0, @a'],
  ])('%s: %j', (code, text) => {
    const error = failure(text, { sharedBytes: 8 })
    expect(error.code).toBe(code)
    expect(error.message).toContain('lane 0, instruction ')
  })

  it('name the lane and the instruction', () => {
    const error = failure('movimm.u32 r0, 3\nsub.u32 r1, r0, r252\ndiv.u32 r2, r0, r1', { block: [8] })
    expect(error.message).toBe('atlas: an integer is divided by zero (lane 3, instruction 2: div.u32 r2, r0, r1)')
  })

  it('of barriers: lanes that wait at different ones', () => {
    const text = 'movimm.u32 r0, 1\nsetlt.u32 p0, r252, r0\nbra p0, @other\nbarsync 1\nexit\nother:\nbarsync 2'
    expect(failure(text, { block: [2] }).code).toBe('bad-barrier')
  })

  it('of launches', () => {
    for (const launch of [
      { grid: [0] },
      { block: [1025] },
      { block: [1.5] },
      { sharedBytes: -1 },
      { grid: [2 ** 31], block: [2] },
    ] as const) {
      expect(failure('exit', launch).code).toBe('bad-argument')
    }
  })
})
