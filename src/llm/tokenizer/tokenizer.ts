// Text to token ids and back, for the vocabulary that a model file carries. This file chooses the kind by
// `tokenizer.ggml.model`, handles special tokens and the beginning and end of a text; how plain text is split is in spm.ts,
// bpe.ts and wordpiece.ts. Knows nothing of files.

import { IngotError } from '../../base/error.ts'
import { BpeModel, bpeBytes, checkMerges } from './bpe.ts'
import { createPreTokenizer } from './pretokenize.ts'
import { SPACE, SpmModel, spmBytes } from './spm.ts'
import { createStreamDecoder, type StreamDecoder } from './stream.ts'
import { Trie } from './trie.ts'
import {
  isSpecialType,
  readFlag,
  readId,
  readStrings,
  readValue,
  readVocabulary,
  TokenType,
  type Metadata,
  type Vocabulary,
} from './vocabulary.ts'
import { unifyWordPieces, WordPieceModel } from './wordpiece.ts'

/** How text becomes tokens. */
export interface EncodeOptions {
  /** add BOS and EOS where the file says (default false) */
  readonly addSpecial?: boolean
  /** recognise special tokens written out in the text (default false: text from outside cannot forge them) */
  readonly parseSpecial?: boolean
}

/** How tokens become text. */
export interface DecodeOptions {
  /** show special tokens by their text (default false: they are left out) */
  readonly special?: boolean
  /** the text follows other text, so that its leading space is kept (default false) */
  readonly continuation?: boolean
}

/** Tokens and their places in a text, in UTF-16 units. A token that is part of a character has the place of all of it. */
export interface Located {
  readonly ids: number[]
  readonly starts: number[]
  /** the place after each */
  readonly ends: number[]
}

/** Text to token ids and back. Methods that take ids throw `out-of-range` for those that do not exist, but for `is...`. */
export interface Tokenizer {
  /** SentencePiece, byte-level BPE, or WordPiece */
  readonly kind: 'spm' | 'bpe' | 'wordpiece'
  /** how many tokens there are: ids run from 0 to one less */
  readonly vocabSize: number
  /** the token that begins a text, if there is one */
  readonly bos: number | undefined
  /** the token that ends a text, if there is one */
  readonly eos: number | undefined
  /** the token that ends a turn of a conversation, if there is one */
  readonly eot: number | undefined
  /** whether `addSpecial` begins a text with BOS: templates that write it themselves must then not */
  readonly addsBos: boolean
  /** The ids of a text. Throws `too-large` for a single word of many megabytes. */
  encode(text: string, options?: EncodeOptions): number[]
  /** The same ids, and where in the text each lies. What was added has no length. */
  locate(text: string, options?: EncodeOptions): Located
  /** The text of ids; bytes that are no UTF-8 become U+FFFD. */
  decode(ids: Iterable<number>, options?: DecodeOptions): string
  /** A decoder that takes ids one by one and never gives half a character. */
  stream(options?: DecodeOptions): StreamDecoder
  /** The token as the vocabulary writes it: `<s>`, `▁the`. */
  tokenText(id: number): string
  /** What the token adds to the text; for special tokens, their text. */
  tokenBytes(id: number): Uint8Array
  /** True for tokens with which a model ends its text or its turn. */
  isEndOfGeneration(id: number): boolean
  /** True for tokens that say something to the model, not to the reader. */
  isSpecial(id: number): boolean
}

export interface TokenizerOptions {
  /** where guesses are reported; default: nowhere */
  readonly warn?: (message: string) => void
}

interface PlainEncoder {
  encode(text: string, ids: number[]): void
}

/** What a kind brings; the rest of this file is the same for all. */
interface Kind {
  readonly kind: Tokenizer['kind']
  readonly vocabulary: Vocabulary
  /** builds what encoding needs, which takes time: not called for those who only decode */
  readonly model: () => PlainEncoder
  readonly bytes: (text: string, type: number | undefined) => Uint8Array
  /** plain text is encoded with a space before it */
  readonly spacePrefix: boolean
  /** the first word of a decoded text loses its space */
  readonly dropFirstSpace: boolean
  /** the tokens that `addSpecial` puts before and after a text */
  readonly before: number | undefined
  readonly after: number | undefined
}

type Warn = (message: string) => void
type OpenKind = (metadata: Metadata, warn: Warn) => Kind

const KINDS = { llama: openSpm, gpt2: openBpe, bert: openWordPiece } as const satisfies Record<string, OpenKind>

/** Throws `unsupported` for a kind it does not know, and for files without a tokenizer. */
export function createTokenizer(metadata: Metadata, { warn = () => {} }: TokenizerOptions = {}): Tokenizer {
  const name = readValue(metadata, 'tokenizer.ggml.model')
  if (typeof name !== 'string' || !Object.hasOwn(KINDS, name)) {
    throw new IngotError('unsupported', 'this kind of tokenizer is not known', {
      op: 'tokenizer',
      got: name ?? 'none',
      wanted: Object.keys(KINDS).join(', '),
      hint: 'give token ids instead of text',
    })
  }
  return buildTokenizer(KINDS[name as keyof typeof KINDS](metadata, warn), findStrippers(metadata))
}

function buildTokenizer(kind: Kind, stripsAfter: (id: number) => boolean): Tokenizer {
  const { vocabulary } = kind
  const { texts, types, ends } = vocabulary
  const cache: (Uint8Array | undefined)[] = []
  const nothing = new Uint8Array(0)

  const tokenText = (id: number): string => {
    const text = texts[id]
    if (text !== undefined) return text
    throw new IngotError('out-of-range', 'no such token', { op: 'tokenizer', got: id, wanted: `0 to ${texts.length - 1}` })
  }
  const tokenBytes = (id: number): Uint8Array => (cache[id] ??= kind.bytes(tokenText(id), types[id]))
  const isSpecial = (id: number): boolean => isSpecialType(types[id])
  const encode = createEncode(kind, stripsAfter, (id) => (id === vocabulary.unknown ? 1 : tokenBytes(id).length))

  const stream = ({ special = false, continuation = false }: DecodeOptions = {}): StreamDecoder =>
    createStreamDecoder({
      bytes: special ? tokenBytes : (id) => (isSpecial(id) ? nothing : tokenBytes(id)),
      dropFirstSpace: kind.dropFirstSpace && !continuation,
    })

  return {
    kind: kind.kind,
    vocabSize: texts.length,
    bos: vocabulary.bos,
    eos: vocabulary.eos,
    eot: vocabulary.eot,
    addsBos: kind.before !== undefined,
    encode,
    locate: (text, options) => {
      const places: Places = { starts: [], ends: [] }
      return { ids: encode(text, options, places), ...places }
    },
    decode(ids, options) {
      const decoder = stream(options)
      let text = ''
      for (const id of ids) text += decoder.push(id)
      return text + decoder.flush()
    },
    stream,
    tokenText,
    tokenBytes,
    isEndOfGeneration: (id) => ends.has(id),
    isSpecial,
  }
}

type Places = Omit<Located, 'ids'>

/** The `encode` of a tokenizer. What it needs is built when it is first called. `lengthOf` a token is in bytes of plain text. */
function createEncode(kind: Kind, stripsAfter: (id: number) => boolean, lengthOf: (id: number) => number) {
  let encoder: { readonly model: PlainEncoder; readonly specials: Specials } | undefined
  return (text: string, { addSpecial = false, parseSpecial = false }: EncodeOptions = {}, places?: Places): number[] => {
    encoder ??= { model: kind.model(), specials: collectSpecials(kind.vocabulary) }
    const { model, specials: tries } = encoder
    const specials = parseSpecial ? tries.onRequest : tries.always
    // half a surrogate pair has no UTF-8 form
    const whole = text.replace(/\p{Surrogate}/gu, '\ufffd')
    const ids: number[] = []
    const push = (id: number, from: number, to: number): void => {
      ids.push(id)
      places?.starts.push(from)
      places?.ends.push(to)
    }
    if (addSpecial && kind.before !== undefined) push(kind.before, 0, 0)
    let start = 0
    /** Every stretch of plain text begins at the start of the text or after a special token, so each gets the space. */
    const encodePlain = (end: number): void => {
      if (end <= start) return
      const [plain, from] = [whole.slice(start, end), ids.length]
      model.encode((kind.spacePrefix ? ' ' : '') + plain, ids)
      if (places === undefined) return
      const read = kind.kind === 'spm' ? plain.replaceAll(SPACE, ' ') : plain // the same token
      findPlaces(read, ids.slice(from).map(lengthOf), kind.spacePrefix ? 1 : 0, start, places)
    }
    for (let at = 0; at < whole.length;) {
      const id = specials.longest(whole, at)
      if (id < 0) {
        at++
        continue
      }
      encodePlain(at)
      push(id, at, at + specials.matched)
      at += specials.matched
      if (stripsAfter(id)) while (at < whole.length && ' \t\n\v\f\r'.includes(whole.charAt(at))) at++
      start = at
    }
    encodePlain(whole.length)
    if (addSpecial && kind.after !== undefined) push(kind.after, whole.length, whole.length)
    return ids
  }
}

/** Appends where tokens of so many bytes lie in a plain text that begins at `from`, the first `prefix` bytes before it. */
function findPlaces(text: string, lengths: readonly number[], prefix: number, from: number, { starts, ends }: Places): void {
  let [bytes, at, passed] = [-prefix, 0, 0] // of tokens; units and bytes of characters that lie before
  /** Moves on past the characters that end at or before `end`; gives the length of the next. */
  const skip = (end: number): number => {
    for (;;) {
      const point = text.codePointAt(at)
      if (point === undefined) return 0
      const units = point > 0xffff ? 2 : 1
      if (passed + utf8Length(point) > end) return units
      passed += utf8Length(point)
      at += units
    }
  }
  for (const length of lengths) {
    skip(bytes)
    starts.push(from + at)
    bytes += length
    const units = skip(bytes)
    ends.push(from + at + (passed < bytes ? units : 0))
  }
}

function utf8Length(point: number): number {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
}

/** The tokens that are found in text before anything else: those the file added always, special ones on request. */
interface Specials {
  readonly always: Trie
  readonly onRequest: Trie
}

function collectSpecials({ texts, types }: Vocabulary): Specials {
  const [always, onRequest] = [new Trie(), new Trie()]
  texts.forEach((text, id) => {
    if (types[id] === TokenType.userDefined) always.add(text, id)
    if (types[id] === TokenType.userDefined || isSpecialType(types[id])) onRequest.add(text, id)
  })
  return { always, onRequest }
}

/**
 * Phi-3 takes the white space after its special tokens as part of them. No field of the file says so, so it goes by the
 * name of the model, as in llama.cpp.
 */
function findStrippers(metadata: Metadata): (id: number) => boolean {
  const name = readValue(metadata, 'general.name')
  if (typeof name !== 'string' || !/phi-?3/i.test(name)) return () => false
  const texts = readStrings(metadata, 'tokenizer.ggml.tokens')
  return (id) => !['<unk>', '<s>', '<|endoftext|>'].includes(texts[id] ?? '')
}

// ---- the kinds ----

function openSpm(metadata: Metadata): Kind {
  const vocabulary = readVocabulary(metadata, { bos: 1, eos: 2, unknown: 0 })
  const spacePrefix = readFlag(metadata, 'tokenizer.ggml.add_space_prefix', true)
  return {
    kind: 'spm',
    vocabulary,
    model: () => new SpmModel(vocabulary),
    bytes: spmBytes,
    spacePrefix,
    dropFirstSpace: spacePrefix,
    ...readEnds(metadata, vocabulary, true),
  }
}

function openBpe(metadata: Metadata, warn: Warn): Kind {
  const vocabulary = readVocabulary(metadata, {})
  const pre = readValue(metadata, 'tokenizer.ggml.pre')
  const split = createPreTokenizer(typeof pre === 'string' ? pre : undefined, warn)
  const merges = checkMerges(readStrings(metadata, 'tokenizer.ggml.merges'))
  const spacePrefix = readFlag(metadata, 'tokenizer.ggml.add_space_prefix', false)
  return {
    kind: 'bpe',
    vocabulary,
    model: () => new BpeModel(vocabulary, merges, split),
    bytes: bpeBytes,
    spacePrefix,
    dropFirstSpace: spacePrefix,
    ...readEnds(metadata, vocabulary, split.addBos),
  }
}

function openWordPiece(metadata: Metadata): Kind {
  const read = readVocabulary(metadata, { bos: 101, unknown: 100 })
  const texts = unifyWordPieces(read.texts, (id) => isSpecialType(read.types[id]))
  const separator = (key: string): number | undefined => readId(metadata, `tokenizer.ggml.${key}_token_id`, texts.length)
  const vocabulary: Vocabulary = { ...read, texts, bos: separator('cls') ?? read.bos }
  // the misspelt key is the one in the format
  const after = separator('seperator') ?? separator('separator') ?? vocabulary.eos
  const lowercase = readFlag(metadata, 'tokenizer.ggml.normalizer.lowercase', true)
  return {
    kind: 'wordpiece',
    vocabulary,
    bytes: spmBytes,
    spacePrefix: false,
    dropFirstSpace: true,
    model: () => new WordPieceModel(vocabulary, { lowercase }),
    before: vocabulary.bos,
    after,
  }
}

function readEnds(metadata: Metadata, { bos, eos }: Vocabulary, addBos: boolean): Pick<Kind, 'before' | 'after'> {
  return {
    before: readFlag(metadata, 'tokenizer.ggml.add_bos_token', addBos) ? bos : undefined,
    after: readFlag(metadata, 'tokenizer.ggml.add_eos_token', false) ? eos : undefined,
  }
}
