// What an instruction carries besides its opcode, as typed arguments and as bytes: one writer per kind of immediate.
// Knows nothing of stacks or modules. Invariant: an immediate that is out of range (a lane, an alignment) is refused
// here, checked or not, because the engine would only say at which byte it stumbled.

import { IngotError } from '../../base/error.ts'
import type { Bytes } from './encode.ts'
import { isAtomic, type Immediate, type Opcode, type ValType } from './opcode.ts'

/** Where a memory instruction reads or writes: `offset` bytes past the address, aligned to `align` bytes. */
export interface MemArg {
  readonly offset?: number
  /** a promise for speed, not a rule; by default the instruction's own width; atomics take no other */
  readonly align?: number
}

/** The arguments of `emit` by kind of immediate. Branches are given as distances; 0 is the innermost block. */
export interface Immediates {
  none: []
  zero: []
  segment: [segment: number]
  mem: [at?: MemArg]
  lane: [lane: number]
  memlane: [lane: number, at?: MemArg]
  shuffle: [lanes: readonly number[]]
  local: [local: number]
  global: [global: number]
  func: [func: number]
  indirect: [type: number]
  label: [distance: number]
  labels: [distances: readonly number[], otherwise: number]
  block: [result?: ValType | undefined]
  'const.i32': [value: number]
  'const.i64': [value: bigint]
  'const.f32': [value: number]
  'const.f64': [value: number]
  'const.v128': [bytes: Uint8Array]
}

type Writers = { readonly [I in Immediate]: (out: Bytes, op: Opcode, ...args: Immediates[I]) => void }

export const typeCodes = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const satisfies Record<ValType, number>
/** The block type of a block without result. */
export const NO_RESULT = 0x40

const writeIndex = (out: Bytes, _op: Opcode, index: number): void => out.u32(index)

const writers: Writers = {
  none: () => {},
  zero: (out, op) => writeZeros(out, op.width),
  segment: (out, op, segment) => {
    out.u32(segment)
    writeZeros(out, op.width)
  },
  mem: writeMemArg,
  lane: (out, op, lane) => writeLane(out, op, lane, op.width),
  memlane: (out, op, lane, at) => {
    writeMemArg(out, op, at)
    writeLane(out, op, lane, 16 / op.width)
  },
  shuffle: (out, op, lanes) => {
    if (lanes.length !== 16) throw refuse(op, 'wrong number of lanes', lanes.length, 16)
    for (const lane of lanes) writeLane(out, op, lane, 32)
  },
  local: writeIndex,
  global: writeIndex,
  func: writeIndex,
  indirect: (out, _op, type) => {
    out.u32(type)
    out.u8(0)
  },
  label: writeIndex,
  labels: (out, _op, distances, otherwise) => {
    out.u32(distances.length)
    for (const distance of distances) out.u32(distance)
    out.u32(otherwise)
  },
  block: (out, _op, result) => out.u8(result === undefined ? NO_RESULT : typeCodes[result]),
  'const.i32': (out, op, value) => {
    const fits = Number.isInteger(value) && value >= -0x8000_0000 && value <= 0xffff_ffff
    if (!fits) throw refuse(op, 'not a 32-bit integer', value, '-2^31 .. 2^32-1')
    out.i32(value)
  },
  'const.i64': (out, _op, value) => out.i64(value),
  'const.f32': (out, _op, value) => out.f32(value),
  'const.f64': (out, _op, value) => out.f64(value),
  'const.v128': (out, op, bytes) => {
    if (bytes.length !== 16) throw refuse(op, 'wrong number of bytes', bytes.length, 16)
    out.append(bytes)
  },
}

/** Writes an instruction: its opcode, then its immediate. */
export function writeInstruction<I extends Immediate>(out: Bytes, op: Opcode<I>, args: Immediates[I]): void {
  if (op.prefix === undefined) out.u8(op.code)
  else {
    out.u8(op.prefix)
    out.u32(op.code)
  }
  writers[op.immediate](out, op, ...args)
}

function writeMemArg(out: Bytes, op: Opcode, { offset = 0, align = op.width }: MemArg = {}): void {
  const power = 31 - Math.clz32(align)
  if (align !== 2 ** power || align > op.width || (isAtomic(op) && align !== op.width)) {
    throw refuse(op, 'bad alignment', align, isAtomic(op) ? op.width : `a power of two up to ${op.width}`)
  }
  const fits = Number.isInteger(offset) && offset >= 0 && offset <= 0xffff_ffff
  if (!fits) throw refuse(op, 'bad offset', offset, '0 .. 2^32-1')
  out.u32(power)
  out.u32(offset)
}

function writeLane(out: Bytes, op: Opcode, lane: number, count: number): void {
  if (!Number.isInteger(lane) || lane < 0 || lane >= count) throw refuse(op, 'no such lane', lane, `0 .. ${count - 1}`)
  out.u8(lane)
}

function writeZeros(out: Bytes, count: number): void {
  for (let i = 0; i < count; i++) out.u8(0)
}

const refuse = (op: Opcode, what: string, got: unknown, wanted: unknown): IngotError =>
  new IngotError('bad-kernel', what, { op: op.name, got, wanted })

const lanesOf = {
  i8x16: (lanes: readonly number[]) => Int8Array.from(lanes),
  i16x8: (lanes: readonly number[]) => Int16Array.from(lanes),
  i32x4: (lanes: readonly number[]) => Int32Array.from(lanes),
  f32x4: (lanes: readonly number[]) => Float32Array.from(lanes),
  f64x2: (lanes: readonly number[]) => Float64Array.from(lanes),
} as const

export type VectorShape = keyof typeof lanesOf

/** The 16 bytes of a vector constant. WASM is little-endian, and so is every machine that runs our engines. */
export function packLanes(shape: VectorShape, lanes: readonly number[]): Uint8Array {
  return new Uint8Array(lanesOf[shape](lanes).buffer)
}
