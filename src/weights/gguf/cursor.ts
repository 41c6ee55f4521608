// Reads the header of a file front to back through a window, so that a file of any size costs one window of memory.
// Knows numbers, strings and where it is; not what a header looks like. Invariants: `take*` are synchronous and need the
// bytes to be loaded (`if (cursor.left < n) await cursor.load(n)` before them); nothing is read or allocated for a
// length that the file cannot hold.

import { IngotError } from '../../base/error.ts'
import { LIMITS } from './meta.ts'
import type { ByteSource } from '../source.ts'

const WINDOW = 1 << 20
const TWO_32 = 2 ** 32
// ignoreBOM: a token may consist of U+FEFF, which is text here, not a mark.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class Cursor {
  readonly #source: ByteSource
  #buffer = new Uint8Array(0)
  #bytes: Uint8Array = this.#buffer
  #view = new DataView(this.#bytes.buffer)
  /** where in the file the window starts */
  #base = 0
  /** the next byte, relative to the window */
  #at = 0

  constructor(source: ByteSource) {
    this.#source = source
  }

  /** The offset of the next byte in the file. */
  get position(): number {
    return this.#base + this.#at
  }

  /** Loaded bytes that are not taken yet. */
  get left(): number {
    return this.#bytes.length - this.#at
  }

  /** Bytes from here to the end of the file. */
  get remaining(): number {
    return this.#source.size - this.position
  }

  /** Moves the window here and makes it hold at least `count` bytes. */
  async load(count: number): Promise<void> {
    const { position, remaining } = this
    if (count > remaining) throw this.bad('the file ends early', position, `${remaining} bytes`, `${count} more`)
    if (position + count > LIMITS.header) {
      throw this.bad('the header is too long', position, undefined, `at most ${LIMITS.header} bytes`)
    }
    const length = Math.min(Math.max(count, WINDOW), remaining)
    if (this.#buffer.length < length) this.#buffer = new Uint8Array(length)
    this.#bytes = await this.#source.read(position, length, this.#buffer)
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, length)
    this.#base = position
    this.#at = 0
  }

  takeU8(): number {
    return this.#view.getUint8(this.#advance(1))
  }

  takeI8(): number {
    return this.#view.getInt8(this.#advance(1))
  }

  takeU16(): number {
    return this.#view.getUint16(this.#advance(2), true)
  }

  takeI16(): number {
    return this.#view.getInt16(this.#advance(2), true)
  }

  takeU32(): number {
    return this.#view.getUint32(this.#advance(4), true)
  }

  takeI32(): number {
    return this.#view.getInt32(this.#advance(4), true)
  }

  takeF32(): number {
    return this.#view.getFloat32(this.#advance(4), true)
  }

  takeF64(): number {
    return this.#view.getFloat64(this.#advance(8), true)
  }

  /** A number where it is exact, else a bigint. */
  takeU64(): number | bigint {
    const at = this.#advance(8)
    const number = this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * TWO_32
    return Number.isSafeInteger(number) ? number : this.#view.getBigUint64(at, true)
  }

  takeI64(): number | bigint {
    const at = this.#advance(8)
    const number = this.#view.getUint32(at, true) + this.#view.getInt32(at + 4, true) * TWO_32
    return Number.isSafeInteger(number) ? number : this.#view.getBigInt64(at, true)
  }

  /** A u64 that counts something, at most `limit`; `each` is the least bytes that one of them takes in the file. */
  takeCount(what: string, limit: number, each: number): number {
    const at = this.#advance(8)
    const count = this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * TWO_32
    if (count > limit) throw this.bad(`absurd ${what}`, this.position - 8, count, `at most ${limit}`)
    if (count * each > this.remaining) {
      const most = Math.floor(this.remaining / each)
      throw this.bad(`the ${what} runs past the end of the file`, this.position - 8, count, `at most ${most}`)
    }
    return count
  }

  /** Text of `length` loaded bytes. Invalid UTF-8 gives U+FFFD, as some vocabularies hold raw bytes. */
  takeText(length: number): string {
    const start = this.#advance(length)
    return decoder.decode(this.#bytes.subarray(start, start + length))
  }

  /** A length and so many bytes of text. */
  async takeString(what: string, limit: number): Promise<string> {
    if (this.left < 8) await this.load(8)
    const length = this.takeCount(`length of ${what}`, limit, 1)
    if (this.left < length) await this.load(length)
    return this.takeText(length)
  }

  /** Fills `into` with the next bytes, however many windows that takes. */
  async takeBytes(into: Uint8Array): Promise<void> {
    for (let done = 0; done < into.length;) {
      if (this.left === 0) await this.load(1)
      const count = Math.min(this.left, into.length - done)
      const start = this.#advance(count)
      into.set(this.#bytes.subarray(start, start + count), done)
      done += count
    }
  }

  /** An error that names the file and the byte. */
  bad(what: string, position: number, got?: unknown, wanted?: unknown): IngotError {
    return badFile(this.#source, what, position, got, wanted)
  }

  #advance(count: number): number {
    const at = this.#at
    this.#at = at + count
    return at
  }
}

/** The error of every malformed file: names the file and the byte. */
export function badFile(file: ByteSource, what: string, position: number, got?: unknown, wanted?: unknown): IngotError {
  return new IngotError('bad-file', `${what} (byte ${position} of ${file.name})`, { op: 'gguf', got, wanted })
}
