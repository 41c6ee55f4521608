// NumPy's file of one array (.npy): read in versions 1.0, 2.0 and 3.0, written in 1.0. What is read is in memory as tensors are: row by
// row, little endian, of a type that they have. Trusts nothing: memory is taken for what the file holds, never for what it claims.
/* oxlint-disable typescript/no-non-null-assertion -- counters stay within the arrays they count; who asks for the last axis has one */

import { ELEMENT_BYTES, type ElementType } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import { quoted } from '../base/printable.ts'
import { MOST_AXES, type NpyHeader, formatNpyHeader, parseNpyHeader } from './npy-header.ts'
import { type ByteSink, type TensorData, pieces, withSink } from './sink.ts'
import type { ByteSource } from './source.ts'

/** An array of a file, before its elements are read. */
export interface NpyArray {
  /** the type of tensors that holds every element as it is */
  readonly dtype: ElementType
  readonly shape: readonly number[]
  /** The elements, row by row; they belong to the caller. */
  read(): Promise<Uint8Array>
}

export interface NpyToWrite {
  readonly dtype: ElementType
  readonly shape: readonly number[]
  /** the elements, row by row */
  data(): TensorData | Promise<TensorData>
}

interface Stored {
  /** of one element in the file */
  readonly bytes: number
  readonly as: ElementType
  /** where the bytes in the file are others: what they become, or undefined where a value does not fit */
  readonly convert?: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | undefined
}

/** What a file can hold, by kind and bytes. */
const STORED: Readonly<Record<string, Stored>> = {
  b1: { bytes: 1, as: 'bool' },
  i1: { bytes: 1, as: 'i8' },
  u1: { bytes: 1, as: 'u8' },
  i2: { bytes: 2, as: 'i32', convert: (bytes) => bytesOf(Int32Array.from(new Int16Array(bytes.buffer))) },
  u2: { bytes: 2, as: 'u32', convert: (bytes) => bytesOf(Uint32Array.from(new Uint16Array(bytes.buffer))) },
  i4: { bytes: 4, as: 'i32' },
  u4: { bytes: 4, as: 'u32' },
  i8: { bytes: 8, as: 'i64' },
  u8: { bytes: 8, as: 'i64', convert: (bytes) => (new BigInt64Array(bytes.buffer).some((value) => value < 0n) ? undefined : bytes) },
  f2: { bytes: 2, as: 'f16' },
  f4: { bytes: 4, as: 'f32' },
  f8: { bytes: 8, as: 'f64' },
}
/** How NumPy names the types of tensors; it has none for bf16. */
const DESCRS: Readonly<Record<ElementType, string | undefined>> = {
  f32: '<f4',
  f16: '<f2',
  bf16: undefined,
  f64: '<f8',
  i32: '<i4',
  u32: '<u4',
  i8: '|i1',
  u8: '|u1',
  bool: '|b1',
  i64: '<i8',
}

const MAGIC = Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59) // \x93NUMPY
/** Headers of arrays of one type are far shorter; NumPy itself reads 10,000 bytes unless told otherwise. */
const MOST_HEADER = 0xffff
/** What NumPy aligns the elements to. */
const ALIGNMENT = 64

/** Reads the header. Rejects with `bad-file` where the file is malformed, `unsupported` for elements that no tensor has. */
export async function openNpy(file: ByteSource): Promise<NpyArray> {
  const { header, start } = await readHeader(file)
  const { descr, shape } = header
  const [, order, kind] = /^([<>|=])([a-zA-Z]\d*(?:\[\w+\])?)$/.exec(descr) ?? []
  if (kind === undefined) throw bad(file, 'the descr is wrong', quoted(descr), 'a type such as <f4')
  const stored = Object.hasOwn(STORED, kind) ? STORED[kind] : undefined
  if (stored === undefined)
    throw bad(file, 'no tensor has elements of this type', quoted(descr), Object.keys(STORED).join(' '), 'unsupported')
  const bytes = shape.reduce((product, size) => product * size, stored.bytes)
  const rest = file.size - start
  if (!(bytes <= rest)) throw bad(file, 'the file ends early', `${rest} bytes of elements`, `${bytes} for [${shape.join(',')}]`)
  if (bytes < rest) throw bad(file, 'something follows the array', `${rest} bytes of elements`, `${bytes} for [${shape.join(',')}]`)
  return {
    dtype: stored.as,
    shape,
    async read() {
      const raw = await file.read(start, bytes)
      // Of its own, so that it can be read as elements of any size.
      const own = raw.buffer instanceof ArrayBuffer && raw.byteLength === raw.buffer.byteLength ? new Uint8Array(raw.buffer) : raw.slice()
      if (order === '>') swapBytes(own, stored.bytes)
      const rows = header.fortranOrder ? inRows(own, shape, stored.bytes) : own
      if (stored.as === 'bool' && rows.some((byte) => byte > 1)) throw bad(file, 'a bool is neither 0 nor 1')
      if (stored.convert === undefined) return rows
      const converted = stored.convert(rows)
      if (converted === undefined) throw bad(file, `an element does not fit ${stored.as}`, quoted(descr), undefined, 'unsupported')
      return converted
    },
  }
}

/** Writes an array; gives the bytes written. Rejects with `unsupported` for what NumPy does not have. */
export async function writeNpy(sink: ByteSink, { dtype, shape, data }: NpyToWrite): Promise<number> {
  return withSink(sink, async (write) => {
    const size = shape.reduce((product, each) => product * each, ELEMENT_BYTES[dtype])
    const header = encodeHeader(dtype, shape)
    await write(header)
    let done = 0
    for await (const piece of pieces(await data())) {
      done += piece.length
      if (done <= size) await write(piece)
    }
    if (done !== size) throw new IngotError('bad-argument', 'the data has the wrong size', { op: 'writeNpy', got: done, wanted: size })
    return header.length + size
  })
}

async function readHeader(file: ByteSource): Promise<{ header: NpyHeader; start: number }> {
  const front = await file.read(0, Math.min(12, file.size))
  if (front.length < 10 || MAGIC.some((byte, at) => front[at] !== byte))
    throw bad(file, 'this is no .npy file', undefined, '\\x93NUMPY at its beginning')
  const [major = 0, minor = 0] = front.subarray(6)
  if (major < 1 || major > 3 || minor !== 0)
    throw bad(file, 'this version of .npy is not known', `${major}.${minor}`, '1.0, 2.0 or 3.0', 'unsupported')
  const prefix = major === 1 ? 10 : 12
  if (front.length < prefix) throw bad(file, 'the file ends early', `${file.size} bytes`)
  const view = new DataView(front.buffer, front.byteOffset, front.length)
  const length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true)
  const most = Math.min(MOST_HEADER, file.size - prefix)
  if (length > most) throw bad(file, 'the header is too long', `${length} bytes`, `at most ${most}`)
  const text = decode(await file.read(prefix, length), major === 3 ? 'utf-8' : 'latin1', file)
  return { header: parseNpyHeader(text, file.name), start: prefix + length }
}

function decode(bytes: Uint8Array, encoding: string, file: ByteSource): string {
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw bad(file, 'the header is no text')
  }
}

function encodeHeader(dtype: ElementType, shape: readonly number[]): Uint8Array {
  const descr = DESCRS[dtype]
  if (descr === undefined) throw new IngotError('unsupported', `NumPy has no ${dtype}`, { op: 'writeNpy', hint: `.to('f32') is exact` })
  if (shape.length > MOST_AXES) {
    throw new IngotError('unsupported', 'NumPy has no arrays of so many axes', { op: 'writeNpy', got: shape.length, wanted: MOST_AXES })
  }
  const text = formatNpyHeader({ descr, fortranOrder: false, shape })
  const total = Math.ceil((10 + text.length + 1) / ALIGNMENT) * ALIGNMENT
  const bytes = new Uint8Array(total).fill(0x20)
  bytes.set(MAGIC)
  bytes.set([1, 0], 6)
  new DataView(bytes.buffer).setUint16(8, total - 10, true)
  bytes.set(new TextEncoder().encode(text), 10)
  bytes[total - 1] = 0x0a
  return bytes
}

function swapBytes(bytes: Uint8Array, size: number): void {
  for (let at = 0; at < bytes.length; at += size) {
    for (let low = at, high = at + size - 1; low < high; low++, high--) {
      const byte = bytes[low]!
      bytes[low] = bytes[high]!
      bytes[high] = byte
    }
  }
}

/** Elements with the first axis contiguous, as elements with the last one. */
function inRows(bytes: Uint8Array<ArrayBuffer>, shape: readonly number[], size: number): Uint8Array<ArrayBuffer> {
  if (shape.length < 2) return bytes
  const { buffer } = bytes
  if (size === 1) return bytesOf(transposed(bytes, new Uint8Array(bytes.length), shape))
  if (size === 2) return bytesOf(transposed(new Uint16Array(buffer), new Uint16Array(bytes.length / 2), shape))
  if (size === 4) return bytesOf(transposed(new Uint32Array(buffer), new Uint32Array(bytes.length / 4), shape))
  return bytesOf(transposed(new BigUint64Array(buffer), new BigUint64Array(bytes.length / 8), shape))
}

function transposed<T extends { [index: number]: V; readonly length: number }, V>(from: T, to: T, shape: readonly number[]): T {
  const strides: number[] = []
  shape.reduce((stride, size) => {
    strides.push(stride)
    return stride * size
  }, 1)
  const [row, step] = [shape.at(-1)!, strides.at(-1)!]
  const index = shape.map(() => 0)
  for (let at = 0, first = 0; at < to.length; at += row) {
    for (let i = 0; i < row; i++) to[at + i] = from[first + i * step]!
    // The first element of the next row: the last axis but one moves first.
    for (let axis = shape.length - 2; axis >= 0; axis--) {
      first += strides[axis]!
      if (++index[axis]! < shape[axis]!) break
      first -= index[axis]! * strides[axis]!
      index[axis] = 0
    }
  }
  return to
}

function bytesOf({ buffer }: { readonly buffer: ArrayBuffer }): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer)
}

function bad(file: ByteSource, what: string, got?: unknown, wanted?: unknown, code: 'bad-file' | 'unsupported' = 'bad-file'): IngotError {
  return new IngotError(code, `${what} (in ${file.name})`, { op: 'npy', got, wanted })
}
