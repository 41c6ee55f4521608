// How kernels read and write the elements of tensors, whatever their type: what lies in memory, what registers hold of it, and the way
// between the two. Half-precision floats are computed in f32, small integers in 32 bits, and a bool is a byte. Of an i64 the low word is
// read and its sign written: it is a type for ids, not for arithmetic.

import type { Storage, Width } from '../base/dtype.ts'
import type { ElementType } from '../base/element.ts'
import { type BufferSpec, type LaneScope, type Readable, type Writable, buffer } from '../ir/author.ts'
import type { Role } from '../ir/kernel.ts'
import type { Elements, Uniformity, Value, VectorOf } from '../ir/value.ts'

/** What registers compute with. */
export type Register = 'f32' | 'f64' | 'i32' | 'u32' | 'bool'

interface ElementAccess {
  readonly register: Register
  readonly storage: ElementStorage
  /** elements of `storage` that one element takes */
  readonly words?: 2
}
type ElementStorage = Extract<Storage, 'f32' | 'f16' | 'f64' | 'i32' | 'u32' | 'i8' | 'u8' | 'u16'>

const ACCESS: Readonly<Record<ElementType, ElementAccess>> = {
  f32: { register: 'f32', storage: 'f32' },
  f16: { register: 'f32', storage: 'f16' },
  bf16: { register: 'f32', storage: 'u16' },
  f64: { register: 'f64', storage: 'f64' },
  i32: { register: 'i32', storage: 'i32' },
  u32: { register: 'u32', storage: 'u32' },
  i8: { register: 'i32', storage: 'i8' },
  u8: { register: 'u32', storage: 'u8' },
  bool: { register: 'bool', storage: 'u8' },
  i64: { register: 'i32', storage: 'i32', words: 2 },
}

/** Memory that elements are read from, or written to. */
export type ElementSource = Readable<ElementStorage, Uniformity>
export type ElementTarget = Writable<ElementStorage>

/** What registers hold of an element of this type. */
export function registerOf(type: ElementType): Register {
  return ACCESS[type].register
}

/** A buffer of elements. */
export function elements<R extends Role>(type: ElementType, role: R): BufferSpec<ElementStorage, R> {
  return buffer(ACCESS[type].storage, role)
}

/** The element at a place. */
export function readOne(type: ElementType, memory: ElementSource, at: Value<'u32'>): Value<Register> {
  const { words = 1 } = ACCESS[type]
  return toRegister(type, memory.at(words === 1 ? at : at.mul(words))) as Value<Register>
}

/** What else a load may be told (ir/scope.ts). */
export interface Hint {
  readonly ahead: number
}

/** Elements side by side. */
export function readVector(
  k: LaneScope,
  type: ElementType,
  memory: ElementSource,
  at: Value<'u32'>,
  width: Width,
  hint?: Hint,
): VectorOf<Register> {
  if (ACCESS[type].words === undefined) return toRegister(type, memory.load(at, width, hint)) as VectorOf<Register>
  return k.vec(...Array.from({ length: width }, (_, i) => readOne(type, memory, at.add(i))))
}

export function writeOne(type: ElementType, memory: ElementTarget, at: Value<'u32'>, value: Value<Register>): void {
  if (ACCESS[type].words === undefined) return memory.set(at, toMemory(type, value) as Value<'f32'>)
  const low = value as Value<'i32'>
  memory.set(at.mul(2), low)
  return memory.set(at.mul(2).add(1), low.shr(31))
}

export function writeVector(type: ElementType, memory: ElementTarget, at: Value<'u32'>, values: VectorOf<Register>, width: Width): void {
  if (ACCESS[type].words === undefined) return memory.store(at, toMemory(type, values) as VectorOf<'f32'>)
  for (let i = 0; i < width; i++) writeOne(type, memory, at.add(i), values.lane(i))
}

function toRegister(type: ElementType, loaded: Elements<'f32' | 'f16' | 'f64' | 'i32' | 'u32'>): Elements<Register> {
  switch (type) {
    case 'f16':
      return loaded.to('f32')
    case 'bf16':
      return (loaded as Elements<'u32'>).shl(16).as('f32')
    case 'bool':
      return (loaded as Elements<'u32'>).ne(0)
    default:
      return loaded as Elements<'f32' | 'f64' | 'i32' | 'u32'>
  }
}

function toMemory(type: ElementType, value: Elements<Register>): Elements<'f32' | 'f16' | 'f64' | 'i32' | 'u32'> {
  switch (type) {
    case 'f16':
      return (value as Elements<'f32'>).to('f16')
    case 'bf16':
      return upperHalf(value as Elements<'f32'>)
    case 'bool':
      return value.to('u32')
    default:
      return value as Elements<'f32' | 'f64' | 'i32' | 'u32'>
  }
}

/** The upper half of the nearest f32 that ends in zeros, ties to even. */
function upperHalf(value: Elements<'f32'>): Elements<'u32'> {
  const bits = value.as('u32')
  const rounded = bits.add(0x7fff).add(bits.shr(16).and(1)).shr(16)
  return bits.and(0x7fffffff).le(0x7f800000).select(rounded, 0x7fc0) // NaN is told by its bits: compilers for GPUs know of none
}

/** The value as an element of that type would hold it: rounded, cut or wrapped. */
export function convert(value: Elements<Register>, from: Register, to: ElementType): Elements<Register> {
  switch (to) {
    case 'f16':
      return value.to('f16').to('f32')
    case 'bf16':
      return upperHalf(toFloat(value)).shl(16).as('f32')
    case 'bool':
      return from === 'bool' ? value : (value as Elements<'f32'>).ne(0)
    case 'i8':
      return isFloat(from) ? toWhole(value, 'i32').clamp(-128, 127) : toWhole(value, 'i32').shl(24).shr(24)
    case 'u8':
      return isFloat(from) ? toWhole(value, 'u32').min(255) : toWhole(value, 'u32').and(255)
    default: {
      const register = registerOf(to)
      return register === from ? value : value.to(register)
    }
  }
}

/** Whether registers hold floats. */
export function isFloat(register: Register): boolean {
  return register === 'f32' || register === 'f64'
}

function toFloat(value: Elements<Register>): Elements<'f32'> {
  return value.to('f32')
}

function toWhole<S extends 'i32' | 'u32'>(value: Elements<Register>, register: S): Elements<S> {
  return value.to(register)
}
