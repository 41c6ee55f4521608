// The element types that tensors hold, in one table: how many bytes an element takes, and what numbers those bytes are. All that moves
// numbers in and out of the memory of a device asks here. Knows nothing of kernels, whose registers hold fewer types (dtype.ts), nor of
// weights in blocks (quant/).
//
// Memory is little endian, as typed arrays are on every machine that Ingot runs on.
/* oxlint-disable typescript/no-non-null-assertion -- `float` and `bits` have one element; counters stay within the arrays they count */

import { IngotError } from './error.ts'
import { decodeHalf, encodeHalf } from './half.ts'

/** Bytes of one element. */
export const ELEMENT_BYTES = {
  f32: 4,
  f16: 2,
  bf16: 2,
  f64: 8,
  i32: 4,
  u32: 4,
  i8: 1,
  u8: 1,
  /** 0 or 1 */
  bool: 1,
  /** low word first */
  i64: 8,
} as const satisfies Record<string, number>

/** What the elements of a tensor are. */
export type ElementType = keyof typeof ELEMENT_BYTES
export const ELEMENT_TYPES = Object.keys(ELEMENT_BYTES) as readonly ElementType[]

/**
 * The array in which JavaScript holds the elements of each type. That of i64 holds numbers, not bigints: whoever computes or compares does
 * it with every type alike, and what no number holds exactly is refused instead of rounded.
 */
export interface ElementArrays {
  readonly f32: Float32Array<ArrayBuffer>
  readonly f16: Float32Array<ArrayBuffer>
  readonly bf16: Float32Array<ArrayBuffer>
  readonly f64: Float64Array<ArrayBuffer>
  readonly i32: Int32Array<ArrayBuffer>
  readonly u32: Uint32Array<ArrayBuffer>
  readonly i8: Int8Array<ArrayBuffer>
  readonly u8: Uint8Array<ArrayBuffer>
  readonly bool: Uint8Array<ArrayBuffer>
  readonly i64: Float64Array<ArrayBuffer>
}
/** Any array of them, wherever its memory is. */
export type NumberArray = Float32Array | Float64Array | Int32Array | Uint32Array | Int8Array | Uint8Array

interface Codec<A> {
  encode(values: ArrayLike<number>): ArrayBufferView<ArrayBuffer>
  /** `memory` holds the elements and nothing else */
  decode(memory: ArrayBuffer): A
}

const CODECS: { readonly [T in ElementType]: Codec<ElementArrays[T]> } = {
  f32: { encode: (values) => new Float32Array(values), decode: (memory) => new Float32Array(memory) },
  f16: { encode: (values) => words(values, encodeHalf), decode: (memory) => floats(memory, decodeHalf) },
  bf16: { encode: (values) => words(values, encodeBfloat), decode: (memory) => floats(memory, decodeBfloat) },
  f64: { encode: (values) => new Float64Array(values), decode: (memory) => new Float64Array(memory) },
  i32: { encode: (values) => new Int32Array(values), decode: (memory) => new Int32Array(memory) },
  u32: { encode: (values) => new Uint32Array(values), decode: (memory) => new Uint32Array(memory) },
  i8: { encode: (values) => new Int8Array(values), decode: (memory) => new Int8Array(memory) },
  u8: { encode: (values) => new Uint8Array(values), decode: (memory) => new Uint8Array(memory) },
  bool: { encode: (values) => Uint8Array.from(values, (value) => (value !== 0 ? 1 : 0)), decode: (memory) => new Uint8Array(memory) },
  i64: { encode: encodeLong, decode: decodeLong },
}

/** True for a name of the table. */
export function isElementType(name: string): name is ElementType {
  return Object.hasOwn(ELEMENT_BYTES, name)
}

/**
 * The bytes of these numbers. Halves round to nearest even; integers are cut towards zero and wrap to their width, and what is not finite
 * is 0, as in a typed array; every number but 0 is true, NaN too.
 */
export function encodeElements(type: ElementType, values: ArrayLike<number>): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = CODECS[type].encode(values)
  return new Uint8Array(buffer, byteOffset, byteLength)
}

/** The first `count` elements of `bytes`, which may begin anywhere in memory, as an array of their own. */
export function decodeElements<T extends ElementType>(type: T, bytes: Uint8Array, count: number): ElementArrays[T] {
  const size = count * ELEMENT_BYTES[type]
  if (!(size <= bytes.length))
    throw new IngotError('bad-argument', `too few bytes for ${count} elements of ${type}`, {
      op: 'decodeElements',
      got: bytes.length,
      wanted: size,
    })
  return CODECS[type].decode(new Uint8Array(bytes.subarray(0, size)).buffer)
}

/** The same of bytes that nobody else has: the array may lie in their memory. */
export function takeElements<T extends ElementType>(type: T, bytes: Uint8Array, count: number): ElementArrays[T] {
  const { buffer, length } = bytes
  const isAlone = length === buffer.byteLength && length === count * ELEMENT_BYTES[type] && buffer instanceof ArrayBuffer
  return isAlone ? CODECS[type].decode(buffer) : decodeElements(type, bytes, count)
}

/** The numbers as memory of this type holds them: what is decoded after being encoded. */
export function roundElements<T extends ElementType>(type: T, values: ArrayLike<number>): ElementArrays[T] {
  return decodeElements(type, encodeElements(type, values), values.length)
}

function words(values: ArrayLike<number>, encode: (value: number) => number): Uint16Array<ArrayBuffer> {
  const out = new Uint16Array(values.length)
  for (let i = 0; i < out.length; i++) out[i] = encode(values[i]!)
  return out
}

function floats(memory: ArrayBuffer, decode: (word: number) => number): Float32Array<ArrayBuffer> {
  const from = new Uint16Array(memory)
  const out = new Float32Array(from.length)
  for (let i = 0; i < out.length; i++) out[i] = decode(from[i]!)
  return out
}

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** The upper half of the nearest f32 that ends in zeros, ties to even. */
function encodeBfloat(x: number): number {
  if (Number.isNaN(x)) return 0x7fc0
  float[0] = x
  let word = bits[0]!
  // A double between two floats counts as the one nearer to zero with its last bit set: then it is no tie, and rounds as it should.
  if (float[0] !== x) word = (Math.abs(float[0]) > Math.abs(x) ? word - 1 : word) | 1
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
}

function decodeBfloat(word: number): number {
  bits[0] = word << 16
  return float[0]!
}

function encodeLong(values: ArrayLike<number>): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from({ length: values.length }, (_, i) => (Number.isFinite(values[i]) ? BigInt(Math.trunc(values[i]!)) : 0n))
}

function decodeLong(memory: ArrayBuffer): Float64Array<ArrayBuffer> {
  const [low, high] = [new Uint32Array(memory), new Int32Array(memory)]
  const out = new Float64Array(memory.byteLength / 8)
  for (let i = 0; i < out.length; i++) {
    const upper = high[2 * i + 1]! * 2 ** 32
    const sum = upper + low[2 * i]!
    if (sum - upper !== low[2 * i]!)
      throw new IngotError('unsupported', 'a 64-bit integer that no JavaScript number holds exactly', {
        op: 'decodeElements',
        got: new BigInt64Array(memory)[i],
        wanted: 'one of at most 53 bits',
        hint: 'take the bytes as a BigInt64Array',
      })
    out[i] = sum
  }
  return out
}
