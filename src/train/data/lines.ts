// Text files as a stream: their lines, or blocks of plain text, in order and without ever having the whole file in memory.

import { IngotError } from '../../base/error.ts'
import type { ByteSource } from '../../weights/source.ts'

/** Bytes read at a time. */
const CHUNK = 1 << 20
/** A line that is longer is no record; it is skipped without being held. */
const LONGEST = 1 << 26
const [NEWLINE, SPACE] = [0x0a, 0x20]

/** A line of a file. */
export interface Line {
  /** from 1 on */
  readonly number: number
  /** its bytes, without what ends it; undefined where it is too long */
  readonly bytes: Uint8Array | undefined
}

/** All lines. What is given is read before the next is asked for. */
export async function* readLines(file: ByteSource, { longest = LONGEST, chunk = CHUNK } = {}): AsyncGenerator<Line, void, void> {
  let number = 1
  let held: Uint8Array[] = [] // the line's parts so far
  let size = 0
  const line = (last: Uint8Array): Line => {
    const whole = size + last.length > longest ? undefined : held.length === 0 ? last : join([...held, last], size + last.length)
    held = []
    size = 0
    return { number: number++, bytes: whole }
  }
  for (let at = 0; at < file.size; at += chunk) {
    const bytes = await file.read(at, Math.min(chunk, file.size - at))
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      yield line(bytes.subarray(start, end))
      start = end + 1
    }
    const rest = bytes.subarray(start)
    size += rest.length
    if (size <= longest && rest.length > 0) held.push(rest)
    else if (size > longest) held = []
  }
  if (size > 0) yield line(new Uint8Array(0))
}

/** A file as blocks of plain text of about `chunk` bytes, which end with a line, or else with a word. `bad-file` where it is no UTF-8. */
export async function* readBlocks(file: ByteSource, { chunk = CHUNK } = {}): AsyncGenerator<string, void, void> {
  let held = new Uint8Array(0)
  for (let at = 0; at < file.size; at += chunk) {
    const bytes = join([held, await file.read(at, Math.min(chunk, file.size - at))])
    const isLast = at + chunk >= file.size
    const end = isLast ? bytes.length : cutAt(bytes)
    held = bytes.slice(end)
    if (end > 0) yield decode(bytes.subarray(0, end), file.name)
  }
}

/** After the last line, or before the last word, or else before what may be part of a character. */
function cutAt(bytes: Uint8Array): number {
  const line = bytes.lastIndexOf(NEWLINE)
  if (line >= 0) return line + 1
  const word = bytes.lastIndexOf(SPACE)
  if (word > 0) return word
  let end = bytes.length
  while (end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end-- // bytes that go on
  return Math.max(0, end - 1)
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array, name: string): string {
  try {
    return decoder.decode(bytes)
  } catch (cause) {
    throw new IngotError('bad-file', `${name} is no text`, { op: 'train', wanted: 'UTF-8', cause })
  }
}

function join(parts: readonly Uint8Array[], size = parts.reduce((sum, { length }) => sum + length, 0)): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
