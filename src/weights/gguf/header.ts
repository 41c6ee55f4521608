// Parses the header of one GGUF file: its metadata and its list of tensors. Trusts nothing: every count and length is
// held against the file's size and a limit before memory is taken, and every fault names its byte. Does not know that a
// model may be split over several files (see gguf.ts), nor what the keys mean, `general.alignment` excepted.

import { IngotError } from '../../base/error.ts'
import { quoted } from '../../base/printable.ts'
import { GGML_TYPES, ggmlTypeById, tensorBytes, tensorElements, type GgmlType } from '../../quant/type.ts'
import { badFile, Cursor } from './cursor.ts'
import {
  isNumberType,
  LIMITS,
  META_TYPES,
  metaTypeById,
  NUMBER_ARRAYS,
  type MetaArray,
  type Metadata,
  type MetaType,
  type MetaValue,
  type NumberType,
} from './meta.ts'
import type { ByteSource } from '../source.ts'

/** A tensor in a file: what it is and where its bytes are. */
export interface GgufTensor {
  readonly name: string
  /** the format of its elements or blocks */
  readonly type: GgmlType
  /** sizes; dims[0] is the contiguous one */
  readonly dims: readonly number[]
  /** the product of `dims` */
  readonly elements: number
  readonly bytes: number
  readonly file: ByteSource
  /** bytes from the beginning of `file` */
  readonly offset: number
}

export interface GgufHeader {
  readonly version: 2 | 3
  readonly metadata: Metadata
  readonly tensors: ReadonlyMap<string, GgufTensor>
  readonly alignment: number
}

export const MAGIC = 0x46554747 // 'GGUF', read as a little-endian u32
export const DEFAULT_ALIGNMENT = 32
/** The least bytes of a key with its value, and of a tensor's entry. */
const LEAST_KEY = 13
const LEAST_TENSOR = 32

export async function readHeader(file: ByteSource): Promise<GgufHeader> {
  const cursor = new Cursor(file)
  await cursor.load(4)
  const magic = cursor.takeU32()
  if (magic !== MAGIC) throw cursor.bad('this is not a GGUF file', 0, hex(magic), `${hex(MAGIC)}, 'GGUF'`)
  await cursor.load(20)
  const version = readVersion(cursor.takeU32(), file)
  const tensorCount = cursor.takeCount('count of tensors', LIMITS.tensors, LEAST_TENSOR)
  const keyCount = cursor.takeCount('count of keys', LIMITS.keys, LEAST_KEY)

  const metadata = new Map<string, MetaValue>()
  for (let index = 0; index < keyCount; index++) {
    const start = cursor.position
    const key = await cursor.takeString(`key ${index}`, LIMITS.name)
    if (metadata.has(key)) throw cursor.bad(`the key ${quoted(key)} appears twice`, start)
    metadata.set(key, await readValue(cursor, key))
  }
  const alignment = readAlignment(metadata, file)

  const entries = new Map<string, Entry>()
  for (let index = 0; index < tensorCount; index++) {
    const entry = await readEntry(cursor, index)
    if (entries.has(entry.name)) throw cursor.bad(`the tensor ${quoted(entry.name)} appears twice`, entry.position)
    entries.set(entry.name, entry)
  }
  const tensors = place(entries, Math.ceil(cursor.position / alignment) * alignment, alignment, file)
  return { version, metadata, tensors, alignment }
}

function readVersion(version: number, file: ByteSource): 2 | 3 {
  if (version === 2 || version === 3) return version
  // A small version number written by a big-endian machine has its low half empty.
  const bigEndian = version !== 0 && (version & 0xffff) === 0
  const what = bigEndian ? 'this GGUF file is big-endian' : 'this version of GGUF is not supported'
  throw new IngotError('unsupported', `${what} (byte 4 of ${file.name})`, {
    op: 'gguf',
    got: bigEndian ? 'big-endian' : `version ${version}`,
    wanted: 'version 2 or 3, little-endian',
    hint: 'convert the model again',
  })
}

async function readType(cursor: Cursor, key: string): Promise<MetaType> {
  if (cursor.left < 4) await cursor.load(4)
  const id = cursor.takeU32()
  const type = metaTypeById(id)
  if (type === undefined) throw cursor.bad(`${quoted(key)} has an unknown value type`, cursor.position - 4, id, '0 to 12')
  return type
}

async function readValue(cursor: Cursor, key: string): Promise<MetaValue> {
  const type = await readType(cursor, key)
  if (type === 'array') return readArray(cursor, key, 1)
  if (type === 'string') return { type, value: await cursor.takeString(`the text of ${quoted(key)}`, LIMITS.text) }
  const { bytes } = META_TYPES[type]
  if (cursor.left < bytes) await cursor.load(bytes)
  switch (type) {
    case 'u8':
      return { type, value: cursor.takeU8() }
    case 'i8':
      return { type, value: cursor.takeI8() }
    case 'u16':
      return { type, value: cursor.takeU16() }
    case 'i16':
      return { type, value: cursor.takeI16() }
    case 'u32':
      return { type, value: cursor.takeU32() }
    case 'i32':
      return { type, value: cursor.takeI32() }
    case 'f32':
      return { type, value: cursor.takeF32() }
    case 'f64':
      return { type, value: cursor.takeF64() }
    case 'u64':
      return { type, value: cursor.takeU64() }
    case 'i64':
      return { type, value: cursor.takeI64() }
    case 'bool':
      return { type, value: readBool(cursor.takeU8(), cursor, key) }
  }
}

function readBool(byte: number, cursor: Cursor, key: string): boolean {
  if (byte > 1) throw cursor.bad(`${quoted(key)} holds a bad bool`, cursor.position, byte, '0 or 1')
  return byte === 1
}

async function readArray(cursor: Cursor, key: string, depth: number): Promise<MetaArray> {
  if (depth > LIMITS.depth) {
    throw cursor.bad(`${quoted(key)} nests arrays too deep`, cursor.position, depth, `at most ${LIMITS.depth}`)
  }
  const of = await readType(cursor, key)
  if (cursor.left < 8) await cursor.load(8)
  const limit = of === 'array' ? LIMITS.arrays : LIMITS.array
  const count = cursor.takeCount(`count of ${quoted(key)}`, limit, META_TYPES[of].bytes)
  if (isNumberType(of)) return readNumbers(cursor, of, count)
  if (of === 'string') return { type: 'array', of, value: await readStrings(cursor, key, count) }
  if (of === 'bool') {
    const bytes = new Uint8Array(count)
    await cursor.takeBytes(bytes)
    return { type: 'array', of, value: Array.from(bytes, (byte) => readBool(byte, cursor, key)) }
  }
  const value: MetaArray[] = []
  for (let index = 0; index < count; index++) value.push(await readArray(cursor, key, depth + 1))
  return { type: 'array', of, value }
}

/** Files and every machine that runs JavaScript are little-endian, so the bytes can be taken as they are. */
async function readNumbers(cursor: Cursor, of: NumberType, count: number): Promise<MetaArray> {
  const value = NUMBER_ARRAYS[of](count)
  await cursor.takeBytes(new Uint8Array(value.buffer))
  // The array is the one for `of`, which the types of a union cannot say.
  return { type: 'array', of, value } as MetaArray
}

/** The hot loop of a vocabulary: waits only at the end of a window. */
async function readStrings(cursor: Cursor, key: string, count: number): Promise<string[]> {
  const texts: string[] = []
  const what = `length of a text of ${quoted(key)}`
  for (let index = 0; index < count; index++) {
    if (cursor.left < 8) await cursor.load(8)
    const length = cursor.takeCount(what, LIMITS.text, 1)
    if (cursor.left < length) await cursor.load(length)
    texts.push(cursor.takeText(length))
  }
  return texts
}

function readAlignment(metadata: Metadata, file: ByteSource): number {
  const meta = metadata.get('general.alignment')
  if (meta === undefined) return DEFAULT_ALIGNMENT
  const { value } = meta
  if (meta.type === 'u32' && typeof value === 'number' && value > 0 && Number.isInteger(Math.log2(value))) return value
  throw new IngotError('bad-file', `general.alignment is wrong (in the metadata of ${file.name})`, {
    op: 'gguf',
    got: meta.type === 'array' ? 'an array' : `${meta.type} ${String(value)}`,
    wanted: 'a u32 that is a power of two',
  })
}

/** A tensor's entry before it is placed: `offset` is relative to the data, `position` is where the entry stands. */
type Entry = Omit<GgufTensor, 'file'> & { readonly position: number }

async function readEntry(cursor: Cursor, index: number): Promise<Entry> {
  const position = cursor.position
  const name = await cursor.takeString(`the name of tensor ${index}`, LIMITS.name)
  if (cursor.left < 4) await cursor.load(4)
  const rank = cursor.takeU32()
  const label = `the tensor ${quoted(name)}`
  if (rank < 1 || rank > LIMITS.dims) {
    throw cursor.bad(`${label} has a bad number of dimensions`, cursor.position - 4, rank, `1 to ${LIMITS.dims}`)
  }
  if (cursor.left < rank * 8 + 12) await cursor.load(rank * 8 + 12)
  const dims: number[] = []
  while (dims.length < rank) {
    const dim = cursor.takeI64()
    if (typeof dim === 'bigint' || dim <= 0) {
      throw cursor.bad(`${label} has a bad dimension`, cursor.position - 8, dim, '1 to 2^53 - 1')
    }
    dims.push(dim)
  }
  const id = cursor.takeU32()
  const type = ggmlTypeById(id)
  if (type === undefined) throw cursor.bad(`${label} has an unknown type`, cursor.position - 4, `id ${id}`)
  const { elements, bytes } = measure(type, dims, label, cursor)
  const offset = cursor.takeU64()
  if (typeof offset === 'bigint') throw cursor.bad(`${label} lies outside the file`, cursor.position - 8, offset)
  return { name, type, dims, elements, bytes, offset, position }
}

function measure(
  type: GgmlType,
  dims: readonly number[],
  label: string,
  cursor: Cursor,
): { readonly elements: number; readonly bytes: number } {
  try {
    return { elements: tensorElements(dims), bytes: tensorBytes(type, dims) }
  } catch (cause) {
    if (!(cause instanceof IngotError)) throw cause
    const wanted = cause.facts.wanted ?? `blocks of ${GGML_TYPES[type].block}`
    throw cursor.bad(`${label} (${type}) has impossible dimensions`, cursor.position, dims, wanted)
  }
}

/** Turns relative offsets into absolute ones, and checks that every tensor is inside the file and has it to itself. */
function place(entries: ReadonlyMap<string, Entry>, start: number, alignment: number, file: ByteSource): ReadonlyMap<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>()
  for (const { name, type, dims, elements, bytes, offset, position } of entries.values()) {
    const label = `the tensor ${quoted(name)}`
    if (offset % alignment !== 0) {
      throw badFile(file, `the offset of ${label} is not aligned`, position, offset, `a multiple of ${alignment}`)
    }
    if (bytes > file.size - start - offset) {
      const got = `${bytes} bytes at ${start + offset}`
      throw badFile(file, `${label} runs past the end of the file`, position, got, `at most ${file.size} bytes in all`)
    }
    tensors.set(name, { name, type, dims, elements, bytes, file, offset: start + offset })
  }
  const byOffset = [...tensors.values()].toSorted((a, b) => a.offset - b.offset)
  byOffset.forEach((tensor, index) => {
    const next = byOffset[index + 1]
    if (next === undefined || tensor.offset + tensor.bytes <= next.offset) return
    throw badFile(file, `the tensors ${quoted(tensor.name)} and ${quoted(next.name)} overlap`, next.offset)
  })
  return tensors
}

function hex(number: number): string {
  return `0x${number.toString(16)}`
}
