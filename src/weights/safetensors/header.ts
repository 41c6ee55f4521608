// Parses the header of a safetensors file: 8 bytes that say how long it is, JSON that names the tensors, then their data. Trusts nothing:
// lengths are held against the file's size before memory is taken, and the tensors must cover the data exactly, each byte once, as the
// reference implementation wants it. Every fault names its tensor. https://github.com/huggingface/safetensors#format

import { IngotError } from '../../base/error.ts'
import { quoted } from '../../base/printable.ts'
import { type ByteSource, type SourceRange, rangeOf } from '../source.ts'
import { SAFE_BYTES, SAFE_DTYPES, type SafeDtype, countElements, isSafeDtype } from './dtype.ts'
import { JsonCursor } from './json.ts'

/** A tensor in a file: what it is, and its bytes, which a device can load or map. */
export interface Safetensor extends SourceRange {
  readonly name: string
  readonly dtype: SafeDtype
  /** sizes; the last axis is the contiguous one */
  readonly shape: readonly number[]
  /** the product of `shape` */
  readonly elements: number
}

export interface SafetensorsHeader {
  readonly metadata: ReadonlyMap<string, string>
  /** by name, in the order of their bytes */
  readonly tensors: ReadonlyMap<string, Safetensor>
}

/** A tensor as the header lists it: its bytes are [begin, end) of the data. */
interface Entry {
  readonly name: string
  readonly dtype: SafeDtype
  readonly shape: readonly number[]
  readonly elements: number
  readonly begin: number
  readonly end: number
}

export const SAFE_LIMITS = {
  /** bytes of the header */
  header: 100_000_000,
  /** tensors, and keys of the metadata */
  entries: 1 << 20,
  /** axes of a tensor: NumPy has no more */
  axes: 64,
} as const
/** The key that is no tensor. */
export const METADATA = '__metadata__'
/** Bytes that say how long the header is. */
const PREFIX = 8
const FIELDS: ReadonlySet<string> = new Set(['dtype', 'shape', 'data_offsets'])

export async function readHeader(file: ByteSource): Promise<SafetensorsHeader> {
  if (file.size < PREFIX) throw badFile(file, 'this is no safetensors file', `${file.size} bytes`, `at least ${PREFIX}`)
  const prefix = await file.read(0, PREFIX)
  const length = new DataView(prefix.buffer, prefix.byteOffset, PREFIX).getBigUint64(0, true)
  const most = Math.min(SAFE_LIMITS.header, file.size - PREFIX)
  if (length > most) {
    const hint = 'this is no safetensors file, or it was cut'
    throw badFile(file, 'the header is too long', `${length} bytes`, `at most ${most}`, hint)
  }
  const start = PREFIX + Number(length)
  const { metadata, entries } = parseHeader(decode(await file.read(PREFIX, Number(length)), file), file)
  return { metadata, tensors: place(entries, start, file) }
}

function decode(bytes: Uint8Array, file: ByteSource): string {
  try {
    // ignoreBOM: what is no JSON is not passed over.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw badFile(file, 'the header is no text', undefined, 'JSON in UTF-8')
  }
}

function parseHeader(text: string, file: ByteSource): { metadata: ReadonlyMap<string, string>; entries: readonly Entry[] } {
  if (!text.startsWith('{')) throw badFile(file, 'the header is no JSON object', quoted(text.slice(0, 20)), 'a { at its beginning')
  const cursor = new JsonCursor(text, (what, got, wanted) => badFile(file, what, got, wanted))
  let metadata: ReadonlyMap<string, string> | undefined
  const entries = new Map<string, Entry>()
  const seen = { has: (key: string): boolean => (key === METADATA ? metadata !== undefined : entries.has(key)) }
  cursor.object('the header', seen, (name) => {
    if (name === METADATA) metadata = readMetadata(cursor, file)
    else entries.set(name, readEntry(cursor, name, file))
    checkCount(entries.size, 'tensors', file)
  })
  cursor.end('the header')
  return { metadata: metadata ?? new Map(), entries: [...entries.values()] }
}

function readMetadata(cursor: JsonCursor, file: ByteSource): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>()
  if (cursor.takesNull()) return metadata
  cursor.object('the metadata', metadata, (key) => {
    metadata.set(key, cursor.text(`the metadata ${quoted(key)}`))
    checkCount(metadata.size, 'keys of metadata', file)
  })
  return metadata
}

function readEntry(cursor: JsonCursor, name: string, file: ByteSource): Entry {
  const label = `the tensor ${quoted(name)}`
  const seen = new Set<string>()
  const shape: number[] = []
  const offsets: number[] = []
  let dtype = ''
  cursor.object(label, seen, (field) => {
    if (!FIELDS.has(field)) return cursor.skip(`${quoted(field)} of ${label}`)
    seen.add(field)
    if (field === 'dtype') dtype = cursor.text(`the dtype of ${label}`)
    else if (field === 'shape') readWholes(shape, SAFE_LIMITS.axes)
    else readWholes(offsets, 2)
  })
  const missing = [...FIELDS].find((field) => !seen.has(field))
  if (missing !== undefined) throw badFile(file, `${label} has no ${missing}`)
  if (!isSafeDtype(dtype)) throw badFile(file, `${label} has an unknown dtype`, quoted(dtype), SAFE_DTYPES.join(' '))
  const [begin, end] = offsets
  if (begin === undefined || end === undefined || end < begin) {
    throw badFile(file, `${label} has wrong data_offsets`, offsets, 'a begin, and an end that is not before it')
  }
  const elements = countElements(shape)
  const bytes = elements * SAFE_BYTES[dtype]
  if (!Number.isSafeInteger(bytes)) throw badFile(file, `${label} is too large`, `${dtype} [${shape.join(',')}]`, 'below 2^53 bytes')
  if (end - begin !== bytes) {
    throw badFile(file, `the data_offsets of ${label} do not fit ${dtype} [${shape.join(',')}]`, `${end - begin} bytes`, bytes)
  }
  return { name, dtype, shape, elements, begin, end }

  function readWholes(into: number[], limit: number): void {
    const what = into === shape ? `the shape of ${label}` : `the data_offsets of ${label}`
    cursor.list(what, () => {
      if (into.length === limit) throw badFile(file, `${what} has too many numbers`, undefined, `at most ${limit}`)
      into.push(cursor.whole(what))
    })
  }
}

/** Finds the tensors in the file, and checks that they have all of its data, each byte once. */
function place(entries: readonly Entry[], start: number, file: ByteSource): ReadonlyMap<string, Safetensor> {
  const size = file.size - start
  const tensors = new Map<string, Safetensor>()
  let [done, last] = [0, '']
  for (const { name, dtype, shape, elements, begin, end } of entries.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    const label = `the tensor ${quoted(name)}`
    if (end > size) throw badFile(file, `${label} runs past the end of the file`, `[${begin},${end}]`, `at most ${size} bytes of data`)
    if (begin < done) throw badFile(file, `the tensors ${quoted(last)} and ${quoted(name)} overlap`, begin, `${done} or more`)
    if (begin > done) throw badFile(file, `there is a hole before ${label}`, begin, `${done}, where the last one ends`)
    tensors.set(name, { name, dtype, shape, elements, ...rangeOf(file, start + begin, end - begin) })
    if (end > done) last = name
    done = end
  }
  if (done !== size) throw badFile(file, 'the end of the file belongs to no tensor', `${size} bytes of data`, done)
  return tensors
}

function checkCount(count: number, what: string, file: ByteSource): void {
  if (count > SAFE_LIMITS.entries) throw badFile(file, `too many ${what}`, undefined, `at most ${SAFE_LIMITS.entries}`)
}

function badFile(file: ByteSource, what: string, got?: unknown, wanted?: unknown, hint?: string): IngotError {
  const facts = { op: 'safetensors', got, wanted, ...(hint === undefined ? {} : { hint }) }
  return new IngotError('bad-file', `${what} (in ${file.name})`, facts)
}
