// A vocabulary as read from model metadata: texts, kinds, scores and the special ids, checked once. Shared by every kind
// of tokenizer; knows nothing of how text is split or merged.

import { IngotError } from '../../base/error.ts'

/** Anything that can be asked for a metadata key: a GGUF reader's map of tagged values, or a Map of plain ones. */
export interface Metadata {
  get(key: string): unknown
}

/** The plain value of a key, whether the reader tags values with their type or not. */
export function readValue(metadata: Metadata, key: string): unknown {
  const value = metadata.get(key)
  const tagged = typeof value === 'object' && value !== null && 'type' in value && 'value' in value
  return tagged ? value.value : value
}

/** The values of `tokenizer.ggml.token_type`. */
export const TokenType = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const

export interface Vocabulary {
  readonly texts: readonly string[]
  /** by text; of two tokens that are written alike, the later one. Made when first asked for */
  readonly ids: ReadonlyMap<string, number>
  readonly types: Int32Array
  readonly scores: Float32Array
  readonly bos: number | undefined
  readonly eos: number | undefined
  readonly eot: number | undefined
  readonly unknown: number | undefined
  /** the ids after which a model has nothing more to say */
  readonly ends: ReadonlySet<number>
}

export interface SpecialDefaults {
  readonly bos?: number
  readonly eos?: number
  readonly unknown?: number
}

/** Texts that end a turn, most telling first; files often name only the end of the document. */
const TURN_ENDS = [
  '<|eot_id|>',
  '<|im_end|>',
  '<|end|>',
  '<end_of_turn>',
  '<|endoftext|>',
  '<|end_of_text|>',
  '<EOT>',
  '_<EOT>',
  '[EOT]',
  '<｜end▁of▁sentence｜>',
  '<end_of_utterance>',
] as const

/** Texts that end generation besides the ends of a turn. */
const OTHER_ENDS = ['<|return|>', '<|call|>', '<|eom_id|>', '</s>', '[EOS]', '<eos>', '<turn|>'] as const
const KNOWN_ENDS: ReadonlySet<string> = new Set([...TURN_ENDS, ...OTHER_ENDS])

export function readVocabulary(metadata: Metadata, defaults: SpecialDefaults): Vocabulary {
  const texts = readStrings(metadata, 'tokenizer.ggml.tokens')
  const types = new Int32Array(readNumbers(metadata, 'tokenizer.ggml.token_type', texts.length, TokenType.normal))
  const scores = new Float32Array(readNumbers(metadata, 'tokenizer.ggml.scores', texts.length, 0))
  const special = (name: string, otherwise?: number): number | undefined =>
    readId(metadata, `tokenizer.ggml.${name}_token_id`, texts.length) ?? (inRange(otherwise, texts.length) ? otherwise : undefined)

  const eos = special('eos', defaults.eos)
  const known = findTexts(texts, KNOWN_ENDS)
  const eot = special('eot') ?? findTurnEnd(known, types)
  const ends = findEnds(known, types, [eos, eot, special('eom')])
  const bos = special('bos', defaults.bos)
  let ids: ReadonlyMap<string, number> | undefined
  return {
    texts,
    types,
    scores,
    bos,
    eos,
    eot,
    unknown: special('unknown', defaults.unknown),
    ends,
    get ids() {
      return (ids ??= numberTexts(texts))
    },
  }
}

function numberTexts(texts: readonly string[]): Map<string, number> {
  const ids = new Map<string, number>()
  texts.forEach((text, id) => ids.set(text, id))
  return ids
}

/** The ids of a few texts, without a table of them all. */
function findTexts(texts: readonly string[], wanted: ReadonlySet<string>): Map<string, number> {
  const found = new Map<string, number>()
  const beginnings = new Set([...wanted].map((text) => text.charCodeAt(0)))
  texts.forEach((text, id) => {
    if (beginnings.has(text.charCodeAt(0)) && wanted.has(text)) found.set(text, id)
  })
  return found
}

/** Control and unknown tokens say something to the model, not to the reader. */
export function isSpecialType(type: number | undefined): boolean {
  return type === TokenType.control || type === TokenType.unknown
}

/** In the harmony format <|end|> only closes a message; <|return|> and <|call|> end the turn. */
function turnEnds(ids: ReadonlyMap<string, number>): readonly string[] {
  return ids.has('<|return|>') && ids.has('<|call|>') ? TURN_ENDS.filter((text) => text !== '<|end|>') : TURN_ENDS
}

function findTurnEnd(ids: ReadonlyMap<string, number>, types: Int32Array): number | undefined {
  for (const text of turnEnds(ids)) {
    const id = ids.get(text)
    if (id !== undefined && types[id] !== TokenType.unused) return id
  }
  return undefined
}

function findEnds(ids: ReadonlyMap<string, number>, types: Int32Array, named: readonly (number | undefined)[]): Set<number> {
  const ends = new Set<number>()
  for (const text of [...turnEnds(ids), ...OTHER_ENDS]) {
    const id = ids.get(text)
    if (id === undefined) continue
    ends.add(id)
    // some files mark these as ordinary text; left so, they would be printed
    if (types[id] === TokenType.normal) types[id] = TokenType.control
  }
  for (const id of named) if (id !== undefined) ends.add(id)
  return ends
}

// ---- reading with checks: metadata comes from files that anyone may have written ----

export function readStrings(metadata: Metadata, key: string): readonly string[] {
  const value = readValue(metadata, key)
  if (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')) return value
  const got = Array.isArray(value) ? `${value.length} values` : typeof value
  throw new IngotError('bad-file', `${key} is missing or malformed`, { op: 'tokenizer', got, wanted: 'a list of strings' })
}

function readNumbers(metadata: Metadata, key: string, length: number, otherwise: number): ArrayLike<number> {
  const value = readValue(metadata, key)
  if (value === undefined) return Array.from({ length }, () => otherwise)
  if (isList(value) && value.length === length) return value
  const got = isList(value) ? `${value.length} values` : typeof value
  throw new IngotError('bad-file', `${key} does not fit the tokens`, { op: 'tokenizer', got, wanted: `${length} numbers` })
}

/** A list of anything: what is no number in it becomes one in the typed array that it is copied into. */
function isList(value: unknown): value is ArrayLike<number> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))
}

/** A special id, or undefined when it is absent or outside the vocabulary (some files write 2^32 - 1 for "none"). */
export function readId(metadata: Metadata, key: string, length: number): number | undefined {
  const value = readValue(metadata, key)
  const id = typeof value === 'bigint' ? Number(value) : value
  return inRange(id, length) ? id : undefined
}

export function readFlag(metadata: Metadata, key: string, otherwise: boolean): boolean {
  const value = readValue(metadata, key)
  return typeof value === 'boolean' ? value : typeof value === 'number' ? value !== 0 : otherwise
}

function inRange(id: unknown, length: number): id is number {
  return typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < length
}
