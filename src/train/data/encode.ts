// Samples as tokens: ids, and which of them are to be predicted. Knows a tokenizer, a template and the length of the context; nothing of
// files. What is longer than the context is cut: a plain text into pieces that each have all of it, anything else at its end.

import { IngotError } from '../../base/error.ts'
import { type Template, chatEncoding } from '../../llm/template.ts'
import type { EncodeOptions, Located, Tokenizer } from '../../llm/tokenizer/tokenizer.ts'
import { type Span, renderAnswers } from './conversation.ts'
import { type ChatSample, RecordFault, type Sample, type TextSample } from './record.ts'

/** Tokens, of which those in spans are to be predicted. */
export interface Tokens {
  readonly ids: readonly number[]
  /** in tokens; the first token of all is never predicted */
  readonly spans: readonly Span[]
  /** tokens that were cut off at the end */
  readonly cut: number
}

/** Turns samples into tokens; throws a `RecordFault` where nothing can be learnt from one. */
export interface SampleEncoder {
  encode(sample: Sample): Tokens[]
  /** Plain text of which everything is learnt, as it stands: special tokens that are written out are text. */
  encodePlain(text: string, options: { readonly isEnd: boolean }): Tokens[]
}

export interface EncoderOptions {
  readonly tokenizer: Tokenizer
  readonly template: () => Template
  /** most rows of a sequence: one less than the tokens */
  readonly context: number
}

export function createSampleEncoder({ tokenizer, template, context }: EncoderOptions): SampleEncoder {
  let ends: readonly string[] | undefined
  const encodeText = ({ text, given }: TextSample): Tokens[] => {
    const located = locate(tokenizer, text, { addSpecial: true, parseSpecial: true })
    const [from] = tokensIn(located, [given, text.length])
    const ids = withEnd(tokenizer, located.ids)
    return given === 0 ? pieces(ids, context) : [cutOff(ids, [[from, ids.length]], context)]
  }
  const encodeChat = ({ messages, tools, given }: ChatSample): Tokens[] => {
    ends ??= endsOf(tokenizer)
    const { render } = template()
    const options = tools === undefined ? {} : { tools }
    const texts = rendering(() =>
      renderAnswers(messages, given, (some, open) => render(some, { ...options, addGenerationPrompt: open }), ends ?? []),
    )
    return texts.map(({ text, spans }) => {
      const located = locate(tokenizer, text, chatEncoding(text, tokenizer))
      return cutOff(located.ids, spans.map((span) => tokensIn(located, span)), context) // prettier-ignore
    })
  }
  return {
    encode: (sample) => (sample.kind === 'text' ? encodeText(sample) : encodeChat(sample)),
    encodePlain: (text, { isEnd }) => {
      const ids = tokenizer.encode(text, { addSpecial: true })
      return pieces(isEnd ? withEnd(tokenizer, ids) : ids, context)
    },
  }
}

/** A single word of many megabytes is refused by the tokenizer. */
function locate(tokenizer: Tokenizer, text: string, options: EncodeOptions): Located {
  return rendering(() => tokenizer.locate(text, options))
}

/** What a template or a tokenizer refuses is a fault of the record. */
function rendering<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof IngotError)) throw error
    throw new RecordFault(error.what, error.facts.hint)
  }
}

/** The texts of tokens with which a model ends what it says. */
function endsOf(tokenizer: Tokenizer): string[] {
  const ids = Array.from({ length: tokenizer.vocabSize }, (_, id) => id).filter((id) => tokenizer.isEndOfGeneration(id))
  return ids.map((id) => tokenizer.tokenText(id)).filter((text) => text !== '')
}

function withEnd({ eos }: Tokenizer, ids: number[]): number[] {
  if (eos !== undefined && ids.at(-1) !== eos) ids.push(eos)
  return ids
}

/** The tokens that have something of a part of the text; one at its border counts. */
function tokensIn({ starts, ends }: Located, [from, to]: Span): Span {
  const first = ends.findIndex((end) => end > from)
  const after = starts.findIndex((start) => start >= to)
  return [first < 0 ? starts.length : first, after < 0 ? starts.length : after]
}

function cutOff(ids: readonly number[], spans: readonly Span[], context: number): Tokens {
  const most = context + 1
  const kept = spans.map(([from, to]): Span => [Math.max(1, from), Math.min(to, most)]).filter(([from, to]) => from < to)
  if (kept.length === 0) {
    if (ids.length > most) throw new RecordFault('what is given fills the context', `${ids.length} tokens, ${most} fit`)
    throw new RecordFault('there is nothing to predict')
  }
  return { ids: ids.slice(0, most), spans: kept, cut: Math.max(0, ids.length - most) }
}

/** Each begins with the last token of the one before, so that every token but the first is predicted once. */
function pieces(ids: readonly number[], context: number): Tokens[] {
  if (ids.length < 2) throw new RecordFault('there is nothing to predict', `${ids.length} tokens`)
  const found: Tokens[] = []
  for (let at = 0; at + 1 < ids.length; at += context) {
    const piece = ids.slice(at, at + context + 1)
    found.push({ ids: piece, spans: [[1, piece.length]], cut: 0 })
  }
  return found
}
