// Writes safetensors files as a stream: the header, then the data of one tensor after another, pulled when it is its turn, so that more
// can be written than memory holds. Invariants: what this writes, header.ts accepts, and gives back the same; the order of the tensors
// is that of the reference implementation; a tensor that gives more or fewer bytes than its shape says fails the write.

import { IngotError } from '../../base/error.ts'
import { quoted } from '../../base/printable.ts'
import { type ByteSink, type TensorData, pieces, withSink } from '../sink.ts'
import { SAFE_BYTES, SAFE_DTYPES, type SafeDtype, countElements } from './dtype.ts'
import { METADATA, SAFE_LIMITS } from './header.ts'

export interface SafetensorToWrite {
  /** any text */
  readonly name: string
  readonly dtype: SafeDtype
  readonly shape: readonly number[]
  /** Called once, when it is this tensor's turn. */
  data(): TensorData | Promise<TensorData>
}

/** The header and the data begin at multiples of it. */
const ALIGNMENT = 8
const OP = 'writeSafetensors'

/** Writes a file; gives the bytes written. */
export async function writeSafetensors(
  sink: ByteSink,
  tensors: readonly SafetensorToWrite[],
  metadata?: Iterable<readonly [string, string]>,
): Promise<number> {
  const ordered = tensors.toSorted(inFileOrder)
  return withSink(sink, async (write) => {
    const header = encodeHeader(ordered, metadata === undefined ? undefined : [...metadata])
    await write(header)
    let written = header.length
    for (const tensor of ordered) {
      const size = bytesOf(tensor)
      let done = 0
      for await (const piece of pieces(await tensor.data())) {
        done += piece.length
        if (done > size) throw wrongSize(tensor, `${done} bytes or more`, size)
        await write(piece)
      }
      if (done !== size) throw wrongSize(tensor, `${done} bytes`, size)
      written += size
    }
    return written
  })
}

/** Falling alignment, then by name: every tensor is aligned to its elements. */
function inFileOrder(a: SafetensorToWrite, b: SafetensorToWrite): number {
  return SAFE_DTYPES.indexOf(b.dtype) - SAFE_DTYPES.indexOf(a.dtype) || compareText(a.name, b.name)
}

/** By code points, which is the order of bytes in UTF-8. Code units are in another where there are surrogates. */
function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  let at = 0
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++
  return at < length ? rank(a.charCodeAt(at)) - rank(b.charCodeAt(at)) : a.length - b.length
}

/** Surrogates come after all other units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit
}

/** All before the data; `tensors` in the order of the file. */
function encodeHeader(tensors: readonly SafetensorToWrite[], metadata: readonly (readonly [string, string])[] | undefined): Uint8Array {
  const parts: string[] = []
  if (metadata !== undefined) {
    checkUnique(metadata.map(([key]) => key))
    parts.push(`${encodeText(METADATA)}:{${metadata.map(([key, value]) => `${encodeText(key)}:${encodeText(value)}`).join(',')}}`)
  }
  checkUnique(tensors.map(({ name }) => name))
  let end = 0
  for (const tensor of tensors) {
    const begin = end
    end += bytesOf(tensor)
    const { name, dtype, shape } = tensor
    if (name === METADATA) throw bad('no tensor can have this name', name)
    parts.push(`${encodeText(name)}:{"dtype":"${dtype}","shape":[${shape.join(',')}],"data_offsets":[${begin},${end}]}`)
  }
  if (!Number.isSafeInteger(end)) throw bad('the tensors are too large together', `${end} bytes`, 'below 2^53')
  const json = new TextEncoder().encode(`{${parts.join(',')}}`)
  const length = Math.ceil(json.length / ALIGNMENT) * ALIGNMENT
  if (length > SAFE_LIMITS.header) throw bad('the header is too long', `${length} bytes`, `at most ${SAFE_LIMITS.header}`)
  const bytes = new Uint8Array(8 + length).fill(0x20)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true)
  bytes.set(json, 8)
  return bytes
}

function encodeText(text: string): string {
  if (typeof text !== 'string') throw bad('names and metadata are texts', String(text), 'a text')
  if (/\p{Surrogate}/u.test(text)) throw bad('a name or metadata is no Unicode', quoted(text), 'no lone surrogates')
  return JSON.stringify(text)
}

function bytesOf({ name, dtype, shape }: SafetensorToWrite): number {
  const bytes = countElements(shape) * SAFE_BYTES[dtype]
  const isGood = shape.every((size) => Number.isSafeInteger(size) && size >= 0) && Number.isSafeInteger(bytes)
  if (!isGood || shape.length > SAFE_LIMITS.axes) {
    throw bad(`the tensor ${quoted(name)} has a bad shape`, shape, `at most ${SAFE_LIMITS.axes} whole numbers`)
  }
  return bytes
}

function checkUnique(names: readonly string[]): void {
  if (names.length > SAFE_LIMITS.entries) throw bad('too many names', names.length, `at most ${SAFE_LIMITS.entries}`)
  const seen = new Set<string>()
  for (const name of names) {
    if (seen.has(name)) throw bad('a name is there twice', quoted(name))
    seen.add(name)
  }
}

function wrongSize({ name, dtype, shape }: SafetensorToWrite, got: string, wanted: number): IngotError {
  return bad(`the data of ${quoted(name)} (${dtype} [${shape.join(',')}]) has the wrong size`, got, wanted)
}

function bad(what: string, got: unknown, wanted?: unknown): IngotError {
  return new IngotError('bad-argument', what, { op: OP, got, wanted })
}
