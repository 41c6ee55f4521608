// Trains a byte-level BPE vocabulary on texts: the pair of symbols that stands together most often becomes a symbol, again and again. The
// texts are cut by a pre-tokenizer that other programs know by its name, so that all of them read the vocabulary alike.
//
// Deterministic: of pairs that are equally frequent, the one with the lower left id goes first, then the lower right one. Quick: words are
// counted once, and a merge touches only the words that have its pair. A heap holds pairs by how often they were seen when they came in;
// one that became rarer since is put back with its new count.

/* oxlint-disable typescript/no-non-null-assertion -- ids index the tokens that got them; places stay below the lengths they run over */

import { IngotError } from '../../base/error.ts'
import type { MetaValue } from '../../weights/gguf/meta.ts'
import { BYTE_CHARACTERS } from './bpe.ts'
import { createPreTokenizer } from './pretokenize.ts'
import { TokenType } from './vocabulary.ts'

/** The tokens that say something to the model, by their texts. Their ids come first, in the order of this list. */
export interface SpecialTokens {
  /** begins every text */
  readonly bos: string
  /** ends a text, or a turn */
  readonly eos: string
  /** marks of a chat */
  readonly others?: readonly string[]
}

export interface TrainTokenizerOptions {
  /** how many tokens there are in all: special ones, 256 bytes, and merges */
  readonly vocabulary: number
  readonly special?: SpecialTokens
  /** a name of `tokenizer.ggml.pre` (default `gpt-2`) */
  readonly pre?: string
  /** pairs that are rarer than this are not merged (default 2) */
  readonly least?: number
}

/** A vocabulary as files have it. */
export interface TrainedTokenizer {
  readonly tokens: readonly string[]
  readonly types: Int32Array
  /** `left right`, best first */
  readonly merges: readonly string[]
  readonly special: SpecialTokens
  readonly pre: string
}

export const DEFAULT_SPECIAL: SpecialTokens = { bos: '<|begin|>', eos: '<|end|>', others: ['<|user|>', '<|assistant|>'] }

/** Learns a vocabulary. It is smaller than asked for where the texts have no more pairs that are frequent enough. */
export function trainTokenizer(texts: Iterable<string>, options: TrainTokenizerOptions): TrainedTokenizer {
  const { vocabulary, special = DEFAULT_SPECIAL, pre = 'gpt-2', least = 2 } = options
  const names = [...new Set([special.bos, special.eos, ...(special.others ?? [])])]
  const fewest = names.length + BYTE_CHARACTERS.length
  if (!Number.isInteger(vocabulary) || vocabulary < fewest)
    throw new IngotError('bad-argument', 'the vocabulary is too small', {
      op: 'trainTokenizer',
      got: vocabulary,
      wanted: `at least ${fewest}: the bytes and ${names.length} more`,
    })
  const cutter = createPreTokenizer(pre, (message) => {
    throw new IngotError('unknown-name', message, { op: 'trainTokenizer', got: pre })
  })
  const tokens = [...names, ...BYTE_CHARACTERS]
  const merges: string[] = []
  const learner = new Learner(
    countWords(texts, (text) => cutter.split(text)),
    names.length,
  )
  const known = new Map(tokens.map((text, id) => [text, id]))
  while (tokens.length < vocabulary) {
    const best = learner.best(least)
    if (best === undefined) break
    const text = `${tokens[best.left]!}${tokens[best.right]!}`
    merges.push(`${tokens[best.left]!} ${tokens[best.right]!}`)
    // Two ways to spell a token are one token.
    const id = known.get(text) ?? tokens.push(text) - 1
    known.set(text, id)
    learner.merge(best.left, best.right, id)
  }
  const types = Int32Array.from(tokens, (_, id) => (id < names.length ? TokenType.control : TokenType.normal))
  return { tokens, types, merges, special, pre }
}

/** The keys of a model file that hold a vocabulary. */
export function tokenizerMetadata({ tokens, types, merges, special, pre }: TrainedTokenizer): [string, MetaValue][] {
  const id = (text: string): MetaValue => ({ type: 'u32', value: tokens.indexOf(text) })
  return [
    ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
    ['tokenizer.ggml.pre', { type: 'string', value: pre }],
    ['tokenizer.ggml.tokens', { type: 'array', of: 'string', value: tokens }],
    ['tokenizer.ggml.token_type', { type: 'array', of: 'i32', value: types }],
    ['tokenizer.ggml.merges', { type: 'array', of: 'string', value: merges }],
    ['tokenizer.ggml.bos_token_id', id(special.bos)],
    ['tokenizer.ggml.eos_token_id', id(special.eos)],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
    ['tokenizer.ggml.add_eos_token', { type: 'bool', value: false }],
  ]
}

function countWords(texts: Iterable<string>, split: (text: string) => readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const text of texts) for (const word of split(text)) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}

/** Ids stay below 2^26, so that a pair is an exact number. */
const RIGHT = 2 ** 26

/** The words as symbols, and how often every pair stands in them. */
class Learner {
  readonly #words: number[][] = []
  readonly #weights: number[] = []
  readonly #counts = new Map<number, number>()
  /** the words that have, or had, a pair */
  readonly #places = new Map<number, Set<number>>()
  readonly #heap = new PairHeap()

  constructor(words: ReadonlyMap<string, number>, firstByte: number) {
    const encoder = new TextEncoder()
    for (const [word, weight] of words) {
      const symbols = Array.from(encoder.encode(word), (byte) => firstByte + byte)
      const at = this.#words.push(symbols) - 1
      this.#weights.push(weight)
      for (let i = 0; i + 1 < symbols.length; i++) this.#change(symbols[i]! * RIGHT + symbols[i + 1]!, weight, at)
    }
    for (const [pair, count] of this.#counts) this.#heap.push(pair, count)
  }

  /** The most frequent pair, if it is frequent enough. */
  best(least: number): { readonly left: number; readonly right: number } | undefined {
    for (let top = this.#heap.pop(); top !== undefined; top = this.#heap.pop()) {
      const count = this.#counts.get(top.pair) ?? 0
      if (count === top.count && count >= least) return { left: Math.floor(top.pair / RIGHT), right: top.pair % RIGHT }
      if (count < top.count && count >= least) this.#heap.push(top.pair, count)
    }
    return undefined
  }

  /** Joins a pair wherever it stands, leftmost first. */
  merge(left: number, right: number, joined: number): void {
    const pair = left * RIGHT + right
    const changed = new Set<number>()
    for (const at of this.#places.get(pair) ?? []) {
      const [word, weight] = [this.#words[at]!, this.#weights[at]!]
      const next: number[] = []
      for (let i = 0; i < word.length; i++) {
        const joins = word[i] === left && word[i + 1] === right
        next.push(joins ? joined : word[i]!)
        if (joins) i++
      }
      if (next.length === word.length) continue
      for (let i = 0; i + 1 < word.length; i++) this.#change(word[i]! * RIGHT + word[i + 1]!, -weight, at)
      for (let i = 0; i + 1 < next.length; i++) {
        const other = next[i]! * RIGHT + next[i + 1]!
        this.#change(other, weight, at)
        if (next[i] === joined || next[i + 1] === joined) changed.add(other)
      }
      this.#words[at] = next
    }
    this.#counts.delete(pair)
    this.#places.delete(pair)
    // Only pairs with the new symbol became more frequent.
    for (const other of changed) if ((this.#counts.get(other) ?? 0) > 0) this.#heap.push(other, this.#counts.get(other)!)
  }

  #change(pair: number, by: number, at: number): void {
    const count = (this.#counts.get(pair) ?? 0) + by
    if (count === 0) this.#counts.delete(pair)
    else this.#counts.set(pair, count)
    if (by < 0) return
    const places = this.#places.get(pair)
    if (places === undefined) this.#places.set(pair, new Set([at]))
    else places.add(at)
  }
}

/** Pairs by their counts, the most frequent first; of equals the lower pair. A pair may be in it several times. */
class PairHeap {
  readonly #pairs: number[] = []
  readonly #counts: number[] = []

  push(pair: number, count: number): void {
    let hole = this.#pairs.push(pair) - 1
    this.#counts.push(count)
    while (hole > 0) {
      const parent = (hole - 1) >> 1
      if (!this.#before(pair, count, parent)) break
      this.#move(parent, hole)
      hole = parent
    }
    this.#put(hole, pair, count)
  }

  pop(): { readonly pair: number; readonly count: number } | undefined {
    if (this.#pairs.length === 0) return undefined
    const top = { pair: this.#pairs[0]!, count: this.#counts[0]! }
    const [pair, count] = [this.#pairs.pop()!, this.#counts.pop()!]
    const length = this.#pairs.length
    if (length === 0) return top
    let hole = 0
    for (let child = 1; child < length; child = 2 * hole + 1) {
      if (child + 1 < length && this.#before(this.#pairs[child + 1]!, this.#counts[child + 1]!, child)) child++
      if (this.#before(pair, count, child)) break
      this.#move(child, hole)
      hole = child
    }
    this.#put(hole, pair, count)
    return top
  }

  #before(pair: number, count: number, place: number): boolean {
    const other = this.#counts[place]!
    return count > other || (count === other && pair < this.#pairs[place]!)
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#pairs[from]!, this.#counts[from]!)
  }

  #put(place: number, pair: number, count: number): void {
    this.#pairs[place] = pair
    this.#counts[place] = count
  }
}
