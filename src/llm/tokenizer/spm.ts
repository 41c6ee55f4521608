// SentencePiece-style tokenization ('llama'): characters are joined by the score of what they spell; what is no token
// falls back to its UTF-8 bytes (<0xXX>). Spaces are U+2581 inside.
//
// The rule has no notion of words, so a text is one long list of symbols. To stay fast, it is cut first wherever no token
// of the vocabulary has these two characters side by side: nothing can ever be joined across such a place, so cutting
// there changes no result. Short cuts are remembered. What only some texts need is made when one comes: a prompt of a few words
// should not wait for tables that serve books.

/* oxlint-disable typescript/no-non-null-assertion -- ids are of the vocabulary, bytes below 256; other indices run over what was written */

import { Merger, NEVER, PairTable, type Pairs } from './merge.ts'
import { Symbols } from './symbol.ts'
import { TokenType, type Vocabulary } from './vocabulary.ts'

export const SPACE = '\u2581'
const BYTE_TEXT = /^<0x([0-9A-Fa-f]{2})>$/
/** Cuts up to this length are remembered, in UTF-16 units. */
const LONGEST_REMEMBERED = 32
const MOST_REMEMBERED = 1 << 16
const MOST_PAIRS = 1 << 20
/** Texts up to this length are merged in one piece, in UTF-16 units. */
const SHORT = 2048

export class SpmModel implements Pairs {
  readonly #vocabulary: Vocabulary
  readonly #symbols: Symbols
  /** all scores, each once, lowest first: a token's rank is its place from the end */
  readonly #scores: Float32Array
  readonly #short: number
  #bytes: Int32Array | undefined
  #neighbours: Neighbours | undefined
  readonly #pairs = new PairTable()
  readonly #remembered = new Map<string, readonly number[]>()
  readonly merger = new Merger(this)
  #buffer = new Int32Array(1024)
  joined = 0

  constructor(vocabulary: Vocabulary, { short = SHORT } = {}) {
    this.#vocabulary = vocabulary
    this.#symbols = new Symbols(vocabulary)
    this.#short = short
    const rising = Float32Array.from(vocabulary.scores).sort()
    this.#scores = rising.filter((score, i) => score !== rising[i - 1])
  }

  /** Appends the ids of a text. The caller has put the space prefix where it belongs. */
  encode(text: string, ids: number[]): void {
    const escaped = text.replaceAll(' ', SPACE)
    if (escaped.length <= this.#short) return this.#encodeCut(escaped, ids)
    const neighbours = (this.#neighbours ??= new Neighbours(this.#vocabulary.texts))
    let start = 0
    for (let end = 1; end <= escaped.length; end++) {
      if (end < escaped.length && neighbours.has(escaped.charCodeAt(end - 1), escaped.charCodeAt(end))) continue
      this.#encodeCut(escaped.slice(start, end), ids)
      start = end
    }
  }

  #encodeCut(text: string, ids: number[]): void {
    const known = this.#remembered.get(text)
    if (known !== undefined) {
      for (const id of known) ids.push(id)
      return
    }
    const from = ids.length
    const spelled = this.#spell(text)
    const count = this.merger.merge(this.#buffer, spelled)
    for (let i = 0; i < count; i++) this.#emit(this.#buffer[i]!, ids)
    if (text.length > LONGEST_REMEMBERED) return
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(text, ids.slice(from))
  }

  /** One symbol per character, in the buffer. */
  #spell(text: string): number {
    if (this.#buffer.length < text.length) this.#buffer = new Int32Array(2 * text.length)
    let count = 0
    for (const character of text) {
      this.#buffer[count++] = this.#symbols.of(character)
    }
    return count
  }

  #emit(symbol: number, ids: number[]): void {
    if (symbol < this.#vocabulary.texts.length) {
      ids.push(symbol)
      return
    }
    this.#bytes ??= findByteTokens(this.#vocabulary)
    for (const byte of new TextEncoder().encode(this.#symbols.textOf(symbol))) {
      const id = this.#bytes[byte]!
      if (id >= 0) ids.push(id)
      else if (this.#vocabulary.unknown !== undefined) ids.push(this.#vocabulary.unknown)
    }
  }

  /** Which pairs join is found by spelling, then remembered by number. */
  rank(left: number, right: number): number {
    const slot = this.#pairs.find(left, right)
    if (slot >= 0) {
      this.joined = this.#pairs.joinedAt(slot)
      return this.#pairs.rankAt(slot)
    }
    const id = this.#vocabulary.ids.get(this.#symbols.textOf(left) + this.#symbols.textOf(right))
    const rank = id === undefined ? NEVER : this.#rankOf(id)
    this.joined = id ?? 0
    if (this.#pairs.size >= MOST_PAIRS) this.#pairs.clear()
    this.#pairs.add(left, right, rank, this.joined)
    return rank
  }

  /** The highest score is 0, equal scores share one. */
  #rankOf(id: number): number {
    const score = this.#vocabulary.scores[id]!
    let [low, high] = [0, this.#scores.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#scores[middle]! < score) low = middle + 1
      else high = middle
    }
    return this.#scores.length - 1 - low
  }
}

/** The bytes a token stands for: itself with spaces for U+2581, or the one byte of a byte token. */
export function spmBytes(text: string, type: number | undefined): Uint8Array {
  const byte = type === TokenType.byte ? BYTE_TEXT.exec(text) : null
  if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16))
  return new TextEncoder().encode(text.replaceAll(SPACE, ' '))
}

function findByteTokens({ texts, types }: Vocabulary): Int32Array {
  const ids = new Int32Array(256).fill(-1)
  texts.forEach((text, id) => {
    const byte = types[id] === TokenType.byte || text.startsWith('<0x') ? BYTE_TEXT.exec(text) : null
    if (byte !== null) ids[Number.parseInt(byte[1]!, 16)] = id
  })
  return ids
}

/** Which two UTF-16 units stand side by side in some token. May say yes wrongly (it is a hashed bitmap), never no. */
class Neighbours {
  readonly #seen = new Uint8Array(1 << 21)

  constructor(texts: readonly string[]) {
    for (const text of texts) {
      for (let i = 1; i < text.length; i++) this.#seen[slot(text.charCodeAt(i - 1), text.charCodeAt(i))] = 1
    }
  }

  has(left: number, right: number): boolean {
    // the halves of one character are never parted
    return this.#seen[slot(left, right)] === 1 || (left >> 10 === 0x36 && right >> 10 === 0x37)
  }
}

function slot(left: number, right: number): number {
  return Math.imul((left << 16) | right, 0x9e3779b1) >>> 11
}
