// The twelve types of Atlas, and what a value of each is in JavaScript: integers are bigints, floats are numbers that the type can hold.
// Knows neither registers nor instructions.

import { decodeElements, encodeElements } from '../base/element.ts'
import { decodeHalf, encodeHalf, roundHalf } from '../base/half.ts'

export interface TypeRecord {
  readonly bytes: 1 | 2 | 4 | 8
  readonly kind: 'signed' | 'unsigned' | 'float'
}

export const TYPES = {
  i8: { bytes: 1, kind: 'signed' },
  i16: { bytes: 2, kind: 'signed' },
  i32: { bytes: 4, kind: 'signed' },
  i64: { bytes: 8, kind: 'signed' },
  u8: { bytes: 1, kind: 'unsigned' },
  u16: { bytes: 2, kind: 'unsigned' },
  u32: { bytes: 4, kind: 'unsigned' },
  u64: { bytes: 8, kind: 'unsigned' },
  f16: { bytes: 2, kind: 'float' },
  bf16: { bytes: 2, kind: 'float' },
  f32: { bytes: 4, kind: 'float' },
  f64: { bytes: 8, kind: 'float' },
} as const satisfies Record<string, TypeRecord>

/** The name of a type. */
export type AtlasType = keyof typeof TYPES
export type IntegerType = Extract<AtlasType, `i${string}` | `u${string}`>
export type FloatType = Exclude<AtlasType, IntegerType>
/** What a register holds: a bigint if its type is one of integers, else a number. */
export type AtlasValue = bigint | number

export const ALL_TYPES = Object.keys(TYPES) as readonly AtlasType[]
export const INTEGER_TYPES = ALL_TYPES.filter(isIntegerType)
export const FLOAT_TYPES = ALL_TYPES.filter((type): type is FloatType => !isIntegerType(type))

export function isAtlasType(name: string): name is AtlasType {
  return Object.hasOwn(TYPES, name)
}

export function isIntegerType(type: AtlasType): type is IntegerType {
  return TYPES[type].kind !== 'float'
}

export function bitsOf(type: AtlasType): number {
  return 8 * TYPES[type].bytes
}

/** The integer of the type with these low bits. */
export function wrap(type: IntegerType, value: bigint): bigint {
  return TYPES[type].kind === 'signed' ? BigInt.asIntN(bitsOf(type), value) : BigInt.asUintN(bitsOf(type), value)
}

/** The nearest number that the type holds, ties to even. */
export function round(type: FloatType, value: number): number {
  switch (type) {
    case 'f64':
      return value
    case 'f32':
      return Math.fround(value)
    case 'f16':
      return roundHalf(value)
    case 'bf16':
      return decodeElements('bf16', encodeElements('bf16', [value]), 1)[0] ?? NaN
  }
}

/** A value as the type holds it: integers wrap, floats round. The kind of value must be that of the type. */
export function fit(type: AtlasType, value: AtlasValue): AtlasValue {
  return isIntegerType(type) ? wrap(type, BigInt(value)) : round(type, Number(value))
}

const scratch = new DataView(new ArrayBuffer(8))

/** The bits of a value of the type, as a number from 0. */
export function toBits(type: AtlasType, value: AtlasValue): bigint {
  scratch.setBigUint64(0, 0n, true)
  if (isIntegerType(type)) return BigInt.asUintN(bitsOf(type), BigInt(value))
  if (type === 'f64') scratch.setFloat64(0, Number(value), true)
  else if (type === 'f16') scratch.setUint16(0, encodeHalf(Number(value)), true)
  else scratch.setFloat32(0, Number(value), true)
  const bits = scratch.getBigUint64(0, true)
  return type === 'bf16' ? bits >> 16n : bits
}

/** The value of these bits. */
export function fromBits(type: AtlasType, bits: bigint): AtlasValue {
  if (isIntegerType(type)) return wrap(type, bits)
  scratch.setBigUint64(0, type === 'bf16' ? bits << 16n : bits, true)
  if (type === 'f64') return scratch.getFloat64(0, true)
  return type === 'f16' ? decodeHalf(scratch.getUint16(0, true)) : scratch.getFloat32(0, true)
}

/** The value at a place of memory, which need not be aligned. */
export function readValue(type: AtlasType, memory: Uint8Array, at: number): AtlasValue {
  let bits = 0n
  for (let i = TYPES[type].bytes - 1; i >= 0; i--) bits = (bits << 8n) | BigInt(memory[at + i] ?? 0)
  return fromBits(type, bits)
}

export function writeValue(type: AtlasType, memory: Uint8Array, at: number, value: AtlasValue): void {
  let bits = toBits(type, value)
  for (let i = 0; i < TYPES[type].bytes; i++, bits >>= 8n) memory[at + i] = Number(bits & 255n)
}

/**
 * A value as another type's. Integers wrap; floats become integers towards zero, at most as large as the type holds, and NaN becomes 0;
 * integers become the nearest float.
 */
export function convertValue(from: AtlasType, to: AtlasType, value: AtlasValue): AtlasValue {
  if (!isIntegerType(to)) return typeof value === 'bigint' ? round(to, cut(value, 0)) : round(to, value)
  if (typeof value === 'bigint' || isIntegerType(from)) return wrap(to, BigInt(value))
  if (Number.isNaN(value)) return 0n
  const [low, high] = rangeOf(to)
  if (value <= Number(low)) return low
  return value >= Number(high) ? high : BigInt(Math.trunc(value))
}

/** The smallest and the largest integer of a type. */
export function rangeOf(type: IntegerType): readonly [low: bigint, high: bigint] {
  const bits = BigInt(bitsOf(type))
  return TYPES[type].kind === 'signed' ? [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n] : [0n, (1n << bits) - 1n]
}

/** a * b + c, rounded once. */
export function fuse(type: FloatType, a: number, b: number, c: number): number {
  const simple = a * b + c
  // nothing to lose: a sum with zero is exact, and the product of two short floats is, too
  if (!Number.isFinite(simple) || a * b === 0 || c === 0) return round(type, simple)
  const [x, y, z] = [parts(a), parts(b), parts(c)]
  const low = Math.min(x.exponent + y.exponent, z.exponent)
  const sum = ((x.whole * y.whole) << BigInt(x.exponent + y.exponent - low)) + (z.whole << BigInt(z.exponent - low))
  if (sum === 0n) return 0
  return round(type, type === 'f64' ? scaled(sum, low) : cut(sum, low))
}

/** A finite number as whole * 2^exponent. */
function parts(value: number): { whole: bigint; exponent: number } {
  scratch.setFloat64(0, value)
  const word = scratch.getBigUint64(0)
  const field = Number((word >> 52n) & 0x7ffn)
  const size = (word & 0xfffffffffffffn) | (field === 0 ? 0n : 1n << 52n)
  return { whole: word >> 63n === 0n ? size : -size, exponent: Math.max(field, 1) - 1075 }
}

/**
 * whole * 2^exponent in 53 bits, with the last one set if any was cut off: to round that to a shorter float gives what rounding the whole
 * would.
 */
function cut(whole: bigint, exponent: number): number {
  const size = whole < 0n ? -whole : whole
  const extra = Math.max(size.toString(2).length - 53, 0)
  const kept = size >> BigInt(extra)
  const odd = kept << BigInt(extra) === size ? kept : kept | 1n
  return scaled(whole < 0n ? -odd : odd, exponent + extra)
}

function scaled(whole: bigint, exponent: number): number {
  const half = Math.trunc(exponent / 2)
  return Number(whole) * 2 ** half * 2 ** (exponent - half)
}
