// Byte-level BPE ('gpt2'): text is cut into words by the pre-tokenizer, a word is its UTF-8 bytes, and neighbours join in
// the order of the merge list. Vocabulary texts spell bytes in the printable alphabet of GPT-2.
//
// A merge may pass through a spelling that is no token; it gets a number past the vocabulary and, if it survives, is
// written byte by byte. Which pairs join is found in the list by spelling, then remembered by number: a list has hundreds of
// thousands of lines, and a text needs few of them.

/* oxlint-disable typescript/no-non-null-assertion -- bytes index 256 entries; other indices run over what was just written */

import { IngotError } from '../../base/error.ts'
import { Merger, NEVER, PairTable, type Pairs } from './merge.ts'
import type { PreTokenizer } from './pretokenize.ts'
import { Symbols } from './symbol.ts'
import { TokenType, type Vocabulary } from './vocabulary.ts'

/** Words up to this length are remembered, in UTF-16 units. */
const LONGEST_REMEMBERED = 32
const MOST_REMEMBERED = 1 << 16
const MOST_PAIRS = 1 << 20
/** Heap keys hold ranks below 2^21. */
const MOST_MERGES = 1 << 21

/** Byte to character and back: printable Latin-1 stands for itself, the rest for U+0100 onwards. */
export const BYTE_CHARACTERS: readonly string[] = buildAlphabet()
const BYTES: ReadonlyMap<string, number> = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]))

export class BpeModel implements Pairs {
  readonly #vocabulary: Vocabulary
  readonly #split: PreTokenizer
  readonly #symbols: Symbols
  /** `left right` to its place in the list */
  readonly #ranks: ReadonlyMap<string, number>
  readonly #pairs = new PairTable()
  readonly #byteSymbols: Int32Array
  readonly #remembered = new Map<string, readonly number[]>()
  readonly merger = new Merger(this)
  #bytes = new Uint8Array(4096)
  #buffer = new Int32Array(4096)
  joined = 0

  constructor(vocabulary: Vocabulary, merges: readonly string[], split: PreTokenizer) {
    this.#vocabulary = vocabulary
    this.#symbols = new Symbols(vocabulary)
    this.#split = split
    this.#ranks = rankMerges(checkMerges(merges))
    this.#byteSymbols = Int32Array.from(BYTE_CHARACTERS, (character) => this.#symbols.of(character))
  }

  encode(text: string, ids: number[]): void {
    for (const word of this.#split.split(text)) {
      const known = this.#remembered.get(word)
      if (known === undefined) this.#encodeWord(word, ids)
      else for (const id of known) ids.push(id)
    }
  }

  #encodeWord(word: string, ids: number[]): void {
    const from = ids.length
    const count = this.#spell(word)
    const whole = this.#split.wholeWords ? this.#wholeWord(count) : undefined
    if (whole !== undefined) {
      ids.push(whole)
    } else {
      const left = this.merger.merge(this.#buffer, count)
      for (let i = 0; i < left; i++) this.#emit(this.#buffer[i]!, ids)
    }
    if (word.length > LONGEST_REMEMBERED) return
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(word, ids.slice(from))
  }

  /** One symbol per UTF-8 byte, in the buffer. */
  #spell(word: string): number {
    const room = 3 * word.length
    if (this.#bytes.length < room) {
      this.#bytes = new Uint8Array(2 * room)
      this.#buffer = new Int32Array(2 * room)
    }
    const { written } = new TextEncoder().encodeInto(word, this.#bytes)
    for (let i = 0; i < written; i++) this.#buffer[i] = this.#byteSymbols[this.#bytes[i]!]!
    return written
  }

  /** The token that spells the whole word; some vocabularies take it even where the merges would not lead there. */
  #wholeWord(count: number): number | undefined {
    if (count > 256) return undefined
    let text = ''
    for (let i = 0; i < count; i++) text += BYTE_CHARACTERS[this.#bytes[i]!]!
    return this.#vocabulary.ids.get(text)
  }

  #emit(symbol: number, ids: number[]): void {
    if (symbol < this.#vocabulary.texts.length) {
      ids.push(symbol)
      return
    }
    for (const character of this.#symbols.textOf(symbol)) {
      const id = this.#vocabulary.ids.get(character) ?? this.#vocabulary.unknown
      if (id !== undefined) ids.push(id)
    }
  }

  rank(left: number, right: number): number {
    const slot = this.#pairs.find(left, right)
    if (slot >= 0) {
      this.joined = this.#pairs.joinedAt(slot)
      return this.#pairs.rankAt(slot)
    }
    const [one, other] = [this.#symbols.textOf(left), this.#symbols.textOf(right)]
    // A line is cut at its first space, so a spelling with a space inside is never the left part of one.
    const rank = one.indexOf(' ', 1) < 0 ? (this.#ranks.get(`${one} ${other}`) ?? NEVER) : NEVER
    this.joined = rank === NEVER ? 0 : this.#symbols.of(one + other)
    if (this.#pairs.size >= MOST_PAIRS) this.#pairs.clear()
    this.#pairs.add(left, right, rank, this.joined)
    return rank
  }
}

/** The bytes a token stands for. Added tokens are written as they are, not in the byte alphabet. */
export function bpeBytes(text: string, type: number | undefined): Uint8Array {
  if (type === TokenType.control || type === TokenType.userDefined || type === TokenType.unknown) {
    return new TextEncoder().encode(text)
  }
  const bytes: number[] = []
  for (const character of text) {
    const byte = BYTES.get(character)
    if (byte !== undefined) bytes.push(byte)
    else bytes.push(...new TextEncoder().encode(character))
  }
  return Uint8Array.from(bytes)
}

/** Refuses a list with more lines than ranks can number. */
export function checkMerges(merges: readonly string[]): readonly string[] {
  if (merges.length < MOST_MERGES) return merges
  throw new IngotError('bad-file', 'too many merges', { op: 'tokenizer', got: merges.length, wanted: `below ${MOST_MERGES}` })
}

/** The place in the list is the rank; of equal lines the first counts. */
function rankMerges(merges: readonly string[]): Map<string, number> {
  const ranks = new Map<string, number>()
  for (let rank = merges.length - 1; rank >= 0; rank--) ranks.set(merges[rank]!, rank)
  return ranks
}

function buildAlphabet(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff)
  let spare = 0x100
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : spare++))
}
