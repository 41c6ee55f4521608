// Turns metadata and a list of tensors into the bytes of a GGUF header. Pure: the data itself is written by write.ts.
// Invariant: what this encodes, header.ts accepts, and gives back the same.

import { IngotError } from '../../base/error.ts'
import { GGML_TYPES, tensorBytes, type GgmlType } from '../../quant/type.ts'
import { DEFAULT_ALIGNMENT, MAGIC } from './header.ts'
import { LIMITS, META_TYPES, type MetaArray, type MetaValue } from './meta.ts'

/** A tensor as the header lists it. */
export interface TensorEntry {
  readonly name: string
  readonly type: GgmlType
  /** dims[0] is the contiguous one */
  readonly dims: readonly number[]
}

export interface EncodedHeader {
  /** everything before the tensor data, padding included */
  readonly bytes: Uint8Array
  readonly alignment: number
  /** bytes of the whole file */
  readonly total: number
}

/** The ranges of the integer types. */
const RANGES = {
  u8: [0n, 0xffn],
  i8: [-0x80n, 0x7fn],
  u16: [0n, 0xffffn],
  i16: [-0x8000n, 0x7fffn],
  u32: [0n, 0xffffffffn],
  i32: [-0x80000000n, 0x7fffffffn],
  u64: [0n, (1n << 64n) - 1n],
  i64: [-(1n << 63n), (1n << 63n) - 1n],
} as const

const MAX_ALIGNMENT = 1 << 20
const encoder = new TextEncoder()

export function encodeHeader(
  version: 2 | 3,
  metadata: Iterable<readonly [string, MetaValue]>,
  tensors: readonly TensorEntry[],
): EncodedHeader {
  const entries = unique([...metadata], ([key]) => key, 'key')
  unique(tensors, ({ name }) => name, 'tensor')
  if (entries.length > LIMITS.keys) throw bad('too many keys', entries.length, LIMITS.keys)
  if (tensors.length > LIMITS.tensors) throw bad('too many tensors', tensors.length, LIMITS.tensors)
  const alignment = alignmentOf(entries)
  const out = new ByteWriter()
  out.u32(MAGIC)
  out.u32(version)
  out.u64(tensors.length)
  out.u64(entries.length)
  for (const [key, value] of entries) {
    out.text(key, LIMITS.name, 'key')
    writeValue(out, key, value)
  }
  let offset = 0
  for (const { name, type, dims } of tensors) {
    if (dims.length > LIMITS.dims) throw bad(`the tensor ${name} has too many dimensions`, dims.length, LIMITS.dims)
    out.text(name, LIMITS.name, 'tensor name')
    out.u32(dims.length)
    for (const dim of dims) out.u64(dim)
    out.u32(GGML_TYPES[type].id)
    out.u64(offset)
    offset = alignUp(offset + tensorBytes(type, dims), alignment)
  }
  out.zeros(alignUp(out.length, alignment) - out.length)
  if (out.length > LIMITS.header) throw bad('the header is too long', out.length, LIMITS.header)
  return { bytes: out.finish(), alignment, total: out.length + offset }
}

export function alignUp(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment
}

function alignmentOf(entries: readonly (readonly [string, MetaValue])[]): number {
  const meta = entries.find(([key]) => key === 'general.alignment')?.[1]
  if (meta === undefined) return DEFAULT_ALIGNMENT
  const { value } = meta
  const fits = meta.type === 'u32' && typeof value === 'number' && value > 0 && value <= MAX_ALIGNMENT
  if (fits && Number.isInteger(Math.log2(value))) return value
  throw bad('general.alignment is wrong', meta.type, `a u32 power of two up to ${MAX_ALIGNMENT}`)
}

function writeValue(out: ByteWriter, key: string, meta: MetaValue): void {
  out.u32(META_TYPES[meta.type].id)
  switch (meta.type) {
    case 'array':
      return writeArray(out, key, meta, 1)
    case 'string':
      return out.text(meta.value, LIMITS.text, key)
    case 'bool':
      return out.integer(meta.value ? 1n : 0n, 1)
    case 'f32':
      return out.float(meta.value, 4)
    case 'f64':
      return out.float(meta.value, 8)
    default: {
      const { type, value } = meta
      const [least, most] = RANGES[type]
      const whole = typeof value === 'bigint' || Number.isInteger(value)
      if (!whole || value < least || value > most) throw bad(`${key} does not fit its type`, value, `a ${type}`)
      return out.integer(BigInt(value), META_TYPES[type].bytes)
    }
  }
}

function writeArray(out: ByteWriter, key: string, { of, value }: MetaArray, depth: number): void {
  if (depth > LIMITS.depth) throw bad(`${key} nests arrays too deep`, depth, LIMITS.depth)
  const limit = of === 'array' ? LIMITS.arrays : LIMITS.array
  if (value.length > limit) throw bad(`${key} has too many elements`, value.length, limit)
  out.u32(META_TYPES[of].id)
  out.u64(value.length)
  switch (of) {
    case 'string':
      for (const text of value) out.text(text, LIMITS.text, key)
      break
    case 'bool':
      for (const flag of value) out.integer(flag ? 1n : 0n, 1)
      break
    case 'array':
      for (const inner of value) writeArray(out, key, inner, depth + 1)
      break
    default:
      out.raw(new Uint8Array(value.buffer, value.byteOffset, value.byteLength))
  }
}

function unique<T>(items: readonly T[], nameOf: (item: T) => string, what: string): readonly T[] {
  const seen = new Set<string>()
  for (const item of items) {
    const name = nameOf(item)
    if (seen.has(name)) throw bad(`the ${what} ${name} appears twice`)
    seen.add(name)
  }
  return items
}

function bad(what: string, got?: unknown, wanted?: unknown): IngotError {
  return new IngotError('bad-argument', what, { op: 'writeGguf', got, wanted })
}

/** A byte array that grows as it is written, little-endian. */
class ByteWriter {
  #bytes = new Uint8Array(1 << 16)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  get length(): number {
    return this.#length
  }

  u32(value: number): void {
    const at = this.#reserve(4)
    this.#view.setUint32(at, value, true)
  }

  u64(value: number): void {
    const at = this.#reserve(8)
    this.#view.setUint32(at, value % 2 ** 32, true)
    this.#view.setUint32(at + 4, Math.floor(value / 2 ** 32), true)
  }

  integer(value: bigint, bytes: number): void {
    const at = this.#reserve(bytes)
    for (let index = 0; index < bytes; index++) this.#bytes[at + index] = Number((value >> BigInt(8 * index)) & 0xffn)
  }

  float(value: number, bytes: 4 | 8): void {
    const at = this.#reserve(bytes)
    if (bytes === 4) this.#view.setFloat32(at, value, true)
    else this.#view.setFloat64(at, value, true)
  }

  raw(bytes: Uint8Array): void {
    const at = this.#reserve(bytes.length)
    this.#bytes.set(bytes, at)
  }

  /** A length and the text as UTF-8. */
  text(text: string, limit: number, what: string): void {
    const bytes = encoder.encode(text)
    const { length } = bytes
    if (length > limit) throw bad(`the text of ${what.slice(0, 80)} is too long`, length, `at most ${limit} bytes`)
    this.u64(length)
    this.raw(bytes)
  }

  zeros(count: number): void {
    this.#reserve(count)
  }

  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  #reserve(count: number): number {
    const at = this.#length
    this.#length += count
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2))
      larger.set(this.#bytes)
      this.#bytes = larger
      this.#view = new DataView(larger.buffer)
    }
    return at
  }
}
