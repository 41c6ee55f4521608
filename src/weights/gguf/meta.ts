// The metadata of a GGUF file as typed values, and the getters that read it. A value keeps the type it has in the file,
// so that a copied file says the same. Does not know bytes (see header.ts, encode.ts) nor what a key means.

import { IngotError } from '../../base/error.ts'

/** Value types: the id in files and the least bytes a value takes there. */
export const META_TYPES = {
  u8: { id: 0, bytes: 1 },
  i8: { id: 1, bytes: 1 },
  u16: { id: 2, bytes: 2 },
  i16: { id: 3, bytes: 2 },
  u32: { id: 4, bytes: 4 },
  i32: { id: 5, bytes: 4 },
  f32: { id: 6, bytes: 4 },
  bool: { id: 7, bytes: 1 },
  string: { id: 8, bytes: 8 },
  array: { id: 9, bytes: 12 },
  u64: { id: 10, bytes: 8 },
  i64: { id: 11, bytes: 8 },
  f64: { id: 12, bytes: 8 },
} as const satisfies Record<string, { readonly id: number; readonly bytes: number }>

export type MetaType = keyof typeof META_TYPES

/** The typed array that holds an array of each number type. */
export interface NumberArrays {
  readonly u8: Uint8Array
  readonly i8: Int8Array
  readonly u16: Uint16Array
  readonly i16: Int16Array
  readonly u32: Uint32Array
  readonly i32: Int32Array
  readonly f32: Float32Array
  readonly u64: BigUint64Array
  readonly i64: BigInt64Array
  readonly f64: Float64Array
}
export type NumberType = keyof NumberArrays

/** Makes a zeroed typed array of each number type. */
export const NUMBER_ARRAYS = {
  u8: (count) => new Uint8Array(count),
  i8: (count) => new Int8Array(count),
  u16: (count) => new Uint16Array(count),
  i16: (count) => new Int16Array(count),
  u32: (count) => new Uint32Array(count),
  i32: (count) => new Int32Array(count),
  f32: (count) => new Float32Array(count),
  u64: (count) => new BigUint64Array(count),
  i64: (count) => new BigInt64Array(count),
  f64: (count) => new Float64Array(count),
} as const satisfies { readonly [T in NumberType]: (count: number) => NumberArrays[T] }

type NumberArray = {
  [T in NumberType]: { readonly type: 'array'; readonly of: T; readonly value: NumberArrays[T] }
}[NumberType]

export type MetaArray =
  | NumberArray
  | { readonly type: 'array'; readonly of: 'bool'; readonly value: readonly boolean[] }
  | { readonly type: 'array'; readonly of: 'string'; readonly value: readonly string[] }
  | { readonly type: 'array'; readonly of: 'array'; readonly value: readonly MetaArray[] }

export type MetaValue =
  | { readonly type: Exclude<NumberType, 'u64' | 'i64'>; readonly value: number }
  /** a number where it is exact, else a bigint */
  | { readonly type: 'u64' | 'i64'; readonly value: number | bigint }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | MetaArray

export type Metadata = ReadonlyMap<string, MetaValue>

/** Anything that carries metadata: an open file, or the header of one. */
export interface HasMetadata {
  readonly metadata: Metadata
}

/** Limits on what a header may ask for: far above real files, low enough that a hostile one cannot eat the memory. */
export const LIMITS = {
  keys: 1 << 16,
  tensors: 1 << 20,
  /** bytes of a key or of a tensor's name */
  name: 0xffff,
  /** bytes of a string value */
  text: 1 << 24,
  /** elements of an array */
  array: 1 << 24,
  /** elements of an array of arrays */
  arrays: 1 << 16,
  /** arrays within arrays */
  depth: 4,
  dims: 4,
  /** bytes of everything before the tensor data */
  header: 1 << 28,
} as const

const TYPE_BY_ID: ReadonlyMap<number, MetaType> = new Map(
  (Object.keys(META_TYPES) as MetaType[]).map((name) => [META_TYPES[name].id, name]),
)

export function metaTypeById(id: number): MetaType | undefined {
  return TYPE_BY_ID.get(id)
}

export function isNumberType(type: MetaType): type is NumberType {
  return Object.hasOwn(NUMBER_ARRAYS, type)
}

/** `u32`, `string[]`, `f32[][]`: a value's type as people write it. */
export function describeMeta(value: MetaValue): string {
  if (value.type !== 'array') return value.type
  if (value.of !== 'array') return `${value.of}[]`
  const first = value.value[0]
  return `${first === undefined ? 'array' : describeMeta(first)}[]`
}

export function metaString(from: HasMetadata, key: string, fallback?: string): string {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'string')
  if (meta.type !== 'string') throw wrongType(key, meta, 'string')
  return meta.value
}

export function metaBool(from: HasMetadata, key: string, fallback?: boolean): boolean {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'bool')
  if (meta.type !== 'bool') throw wrongType(key, meta, 'bool')
  return meta.value
}

/** A number of any width; a 64-bit integer that a number cannot hold exactly is refused. */
export function metaNumber(from: HasMetadata, key: string, fallback?: number): number {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'a number')
  if (typeof meta.value === 'bigint') throw wrongType(key, meta, 'an integer below 2^53')
  if (typeof meta.value !== 'number') throw wrongType(key, meta, 'a number')
  return meta.value
}

/** An array of numbers of any width. 64-bit integers become doubles; those that do not fit exactly are refused. */
export function metaNumbers(from: HasMetadata, key: string, fallback?: ArrayLike<number>): ArrayLike<number> {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'an array of numbers')
  if (meta.type !== 'array' || meta.of === 'bool' || meta.of === 'string' || meta.of === 'array') {
    throw wrongType(key, meta, 'an array of numbers')
  }
  if (meta.of !== 'u64' && meta.of !== 'i64') return meta.value
  const out = new Float64Array(meta.value.length)
  meta.value.forEach((big: bigint, index: number) => {
    const number = Number(big)
    if (!Number.isSafeInteger(number)) throw wrongType(key, meta, 'integers below 2^53')
    out[index] = number
  })
  return out
}

export function metaStrings(from: HasMetadata, key: string, fallback?: readonly string[]): readonly string[] {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'string[]')
  if (meta.type !== 'array' || meta.of !== 'string') throw wrongType(key, meta, 'string[]')
  return meta.value
}

/** An array of whatever type, as the file has it. */
export function metaArray(from: HasMetadata, key: string, fallback?: MetaArray): MetaArray {
  const meta = from.metadata.get(key)
  if (meta === undefined) return fallback ?? missing(key, 'an array')
  if (meta.type !== 'array') throw wrongType(key, meta, 'an array')
  return meta
}

/** For keys that are absent and have no fallback. */
function missing(key: string, wanted: string): never {
  throw new IngotError('bad-file', `the metadata has no ${key}`, { op: 'gguf', got: 'nothing', wanted })
}

function wrongType(key: string, meta: MetaValue, wanted: string): IngotError {
  return new IngotError('bad-file', `${key} has the wrong type`, { op: 'gguf', got: describeMeta(meta), wanted })
}
