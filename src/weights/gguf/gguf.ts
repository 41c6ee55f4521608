// Opens a GGUF model: one file, or all the parts of a split one, as one set of metadata and tensors. Reads headers only;
// tensor data stays in the files until it is asked for. Invariants: whatever this module opened is closed again when
// opening fails; after success `close` closes every file, those handed in included.

import { checkArgument, checkOptions, hasMethods, isObject, isString } from '../../base/argument.ts'
import { IngotError } from '../../base/error.ts'
import { readHeader, type GgufHeader, type GgufTensor } from './header.ts'
import { metaNumber, type Metadata } from './meta.ts'
import { openFile, type ByteSource } from '../source.ts'

/** An open model file, or all parts of a split one: its metadata, and where its tensors lie. */
export interface Gguf extends AsyncDisposable {
  /** of the GGUF format */
  readonly version: 2 | 3
  /** by key, with the type that each value has in the file; of the first part, where the model is split */
  readonly metadata: Metadata
  /** by name */
  readonly tensors: ReadonlyMap<string, GgufTensor>
  /** bytes; every tensor begins at a multiple of it */
  readonly alignment: number
  /** the parts in order, or the one file */
  readonly files: readonly ByteSource[]
  /** Closes all files, those handed in included. */
  close(): Promise<void>
}

/** How to open a model file. */
export interface OpenGgufOptions {
  /** true: read only this file, even if it is one part of many (default false) */
  readonly single?: boolean
}

interface SplitFile extends GgufHeader {
  readonly file: ByteSource
}

/**
 * Opens a model by path (any part of a split one opens them all), from one source, or from the sources of all parts. Reads headers
 * only. Rejects with `bad-file` where a file cannot be read, is malformed or a part is missing, `unsupported` for versions of GGUF
 * other than 2 and 3.
 */
export async function openGguf(from: string | ByteSource | readonly (string | ByteSource)[], options: OpenGgufOptions = {}): Promise<Gguf> {
  checkOptions('openGguf', options)
  for (const item of Array.isArray(from) ? (from as readonly unknown[]) : [from]) {
    checkArgument(
      'openGguf',
      'the file',
      item,
      'a path or a ByteSource',
      (value) => isString(value) || hasMethods(value, ['read', 'close']),
    )
  }
  const opened: ByteSource[] = []
  const open = async (item: string | ByteSource): Promise<SplitFile> => {
    const file = typeof item === 'string' ? await openFile(item) : item
    if (typeof item === 'string') opened.push(file)
    return { ...(await readHeader(file)), file }
  }
  try {
    const items = typeof from === 'string' || !isList(from) ? [from] : from
    const parts: SplitFile[] = []
    for (const item of items) parts.push(await open(item))
    const first = parts[0]
    if (first === undefined) throw new IngotError('bad-argument', 'no file to open', { op: 'openGguf' })
    const count = options.single ? 1 : splitCount(first)
    if (parts.length === 1 && count > 1) {
      for (const path of siblings(first, count)) parts.push(await open(path))
    }
    const ordered = count > 1 || parts.length > 1 ? inOrder(parts, count) : parts
    return assemble(ordered[0] ?? first, ordered)
  } catch (error) {
    await Promise.allSettled(opened.map((file) => file.close()))
    throw error
  }
}

/** The bytes of a tensor as the file has them, in a new array or the front of `into`. Rejects like `ByteSource.read`. */
export async function readTensor(tensor: GgufTensor, into?: Uint8Array): Promise<Uint8Array> {
  checkArgument('readTensor', 'the tensor', tensor, 'one of the tensors of a Gguf', (value) => isObject(value) && 'file' in value)
  return tensor.file.read(tensor.offset, tensor.bytes, into)
}

function assemble(first: SplitFile, parts: readonly SplitFile[]): Gguf {
  const files = parts.map((part) => part.file)
  const tensors = parts.length === 1 ? first.tensors : merge(parts)
  const close = async (): Promise<void> => {
    await Promise.all(files.map((file) => file.close()))
  }
  const { version, metadata, alignment } = first
  return { version, metadata, tensors, alignment, files, close, [Symbol.asyncDispose]: close }
}

function merge(parts: readonly SplitFile[]): ReadonlyMap<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>()
  for (const { file, tensors: own } of parts) {
    for (const [name, tensor] of own) {
      const before = tensors.get(name)
      if (before !== undefined) throw badSplit(file, `the tensor ${name} is also in ${before.file.name}`)
      tensors.set(name, tensor)
    }
  }
  return tensors
}

function splitCount(part: SplitFile): number {
  const count = metaNumber(part, 'split.count', 1)
  if (!Number.isInteger(count) || count < 0 || count > 0xffff) {
    throw badSplit(part.file, 'split.count is wrong', count, '1 to 65535')
  }
  // 0 is written by tools that joined the parts again.
  return Math.max(count, 1)
}

/** The paths of the other parts, by the name `model-00001-of-00003.gguf`. */
function siblings(part: SplitFile, count: number): string[] {
  const match = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s.exec(part.file.path ?? '')
  if (match === null) {
    const what = `${part.file.name} is one part of ${count}, and the others cannot be found by its name`
    throw new IngotError('bad-file', what, {
      op: 'gguf',
      wanted: `name-00001-of-${pad(count)}.gguf`,
      hint: 'name the file so, or open all parts together',
    })
  }
  const [, stem, own, of] = match
  if (Number(of) !== count) throw badSplit(part.file, 'the name and split.count disagree', `of-${of}`, `of-${pad(count)}`)
  const paths: string[] = []
  for (let number = 1; number <= count; number++) {
    if (number !== Number(own)) paths.push(`${stem}-${pad(number)}-of-${pad(count)}.gguf`)
  }
  return paths
}

/** Sorts parts by split.no, and checks that each is there once and that no tensor is missing. */
function inOrder(parts: readonly SplitFile[], count: number): readonly SplitFile[] {
  const ordered: SplitFile[] = []
  for (const part of parts) {
    const { file } = part
    const own = splitCount(part)
    if (own !== count || own !== parts.length) throw badSplit(file, 'split.count is wrong', own, `${parts.length} parts`)
    const number = metaNumber(part, 'split.no')
    if (!Number.isInteger(number) || number < 0 || number >= count) {
      throw badSplit(file, 'split.no is wrong', number, `0 to ${count - 1}`)
    }
    const before = ordered[number]
    if (before !== undefined) throw badSplit(file, `split.no ${number} is also that of ${before.file.name}`)
    ordered[number] = part
  }
  const total = ordered.reduce((sum, part) => sum + part.tensors.size, 0)
  for (const part of ordered) {
    const wanted = metaNumber(part, 'split.tensors.count')
    if (wanted !== total) throw badSplit(part.file, 'the parts do not hold all tensors', total, wanted)
  }
  return ordered
}

function badSplit(file: ByteSource, what: string, got?: unknown, wanted?: unknown): IngotError {
  return new IngotError('bad-file', `${what} (in ${file.name})`, { op: 'gguf', got, wanted })
}

function pad(number: number): string {
  return String(number).padStart(5, '0')
}

function isList<T>(value: ByteSource | readonly T[]): value is readonly T[] {
  return Array.isArray(value)
}
