// Tokenised sequences in few large arrays: two bytes for a token where the vocabulary allows, and a few numbers for a sequence, so that a
// data set of a hundred million tokens takes 200 MB and no work for the collector. Grows by doubling; sequences are read as views.

import type { Span } from './conversation.ts'
import type { Tokens } from './encode.ts'

/** Where a sequence came from. */
export interface Origin {
  readonly file: string
  /** of the file, from 1 on */
  readonly line: number
}

/** A sequence of a store. */
export interface StoredSequence {
  readonly ids: Uint16Array | Uint32Array
  /** [from, to) of tokens to predict: pairs of numbers */
  readonly spans: Uint32Array
}

export class TokenStore {
  readonly files: string[] = []
  readonly #ids: Growing<Uint16Array | Uint32Array>
  readonly #starts = new Growing(new Uint32Array(256)) // of sequences, in tokens; one more than there are
  readonly #spans = new Growing(new Uint32Array(256))
  readonly #spanStarts = new Growing(new Uint32Array(256))
  readonly #lines = new Growing(new Uint32Array(256))
  readonly #places = new Growing(new Uint32Array(256)) // of `files`
  readonly #units = new Growing(new Uint32Array(256))
  /** tokens to predict */
  learnt = 0

  constructor(vocabulary: number) {
    this.#ids = new Growing<Uint16Array | Uint32Array>(vocabulary <= 1 << 16 ? new Uint16Array(4096) : new Uint32Array(4096))
    this.#starts.push(0)
    this.#spanStarts.push(0)
  }

  /** sequences */
  get size(): number {
    return this.#lines.length
  }
  /** tokens of all sequences */
  get tokens(): number {
    return this.#ids.length
  }
  /** bytes of memory */
  get bytes(): number {
    const arrays = [this.#ids, this.#starts, this.#spans, this.#spanStarts, this.#lines, this.#places, this.#units]
    return arrays.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Adds a sequence of unit `unit`: units are counted from 0, and those of one are never parted. */
  add({ ids, spans }: Pick<Tokens, 'ids' | 'spans'>, { file, line }: Origin, unit: number): void {
    for (const id of ids) this.#ids.push(id)
    this.#starts.push(this.#ids.length)
    for (const [from, to] of spans) {
      this.#spans.push(from)
      this.#spans.push(to)
      this.learnt += to - from
    }
    this.#spanStarts.push(this.#spans.length)
    if (this.files.at(-1) !== file) this.files.push(file)
    this.#places.push(this.files.length - 1)
    this.#lines.push(line)
    this.#units.push(unit)
  }

  /** How many tokens a sequence has. */
  lengthOf(at: number): number {
    return this.#starts.get(at + 1) - this.#starts.get(at)
  }
  unitOf(at: number): number {
    return this.#units.get(at)
  }
  originOf(at: number): Origin {
    return { file: this.files[this.#places.get(at)] ?? '', line: this.#lines.get(at) }
  }
  /** Views, which are right until the next `add`. */
  sequence(at: number): StoredSequence {
    return {
      ids: this.#ids.view(this.#starts.get(at), this.#starts.get(at + 1)),
      spans: this.#spans.view(this.#spanStarts.get(at), this.#spanStarts.get(at + 1)),
    }
  }
  /** A number that tells one set of sequences from another (FNV-1a over ids). */
  fingerprint(): string {
    let hash = 0x811c9dc5
    for (const id of this.#ids.view(0, this.#ids.length)) hash = Math.imul(hash ^ id, 0x01000193)
    for (const start of this.#starts.view(0, this.#starts.length)) hash = Math.imul(hash ^ start, 0x01000193)
    return (hash >>> 0).toString(16).padStart(8, '0')
  }
}

/** An array of numbers that grows. */
class Growing<A extends Uint16Array | Uint32Array> {
  #values: A
  #length = 0

  constructor(values: A) {
    this.#values = values
  }
  get length(): number {
    return this.#length
  }
  get bytes(): number {
    return this.#values.byteLength
  }
  push(value: number): void {
    if (this.#length === this.#values.length) {
      const larger = new (this.#values.constructor as new (length: number) => A)(2 * this.#length)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#length++] = value
  }
  get(at: number): number {
    return this.#values[at] ?? 0
  }
  view(from: number, to: number): A {
    return this.#values.subarray(from, to) as A
  }
}

/** The tokens of a sequence that are predicted, for those who show them. */
export function spansOf({ spans }: StoredSequence): Span[] {
  return Array.from({ length: spans.length / 2 }, (_, i): Span => [spans[2 * i] ?? 0, spans[2 * i + 1] ?? 0])
}
