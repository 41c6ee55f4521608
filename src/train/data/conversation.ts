// Which part of a rendered conversation the assistant wrote. A template is a program, so it is asked twice for each of the assistant's
// messages: what a model is given before it answers, and the same with the answer. The answer is what came on top, up to the mark that
// ends it. So training sees what generating will: the very prompt, then the answer.
//
// Most templates write a message in the same way whatever follows; then all answers of a conversation lie in one text. Some do not (they
// drop thoughts from answers that are past, or put tools before the last question): such an answer has a text of its own.

import type { ChatMessage } from '../../llm/template.ts'

/** [start, end) of a text, in UTF-16 units. */
export type Span = readonly [start: number, end: number]

/** A rendered conversation, and what of it is to be learnt. */
export interface Rendered {
  readonly text: string
  readonly spans: readonly Span[]
}

/** Renders messages; `open`: with the opening of an answer at the end. */
export type Render = (messages: readonly ChatMessage[], open: boolean) => string

/** The texts to learn from, each ending with an answer. `ends` are the texts of tokens that end an answer. */
export function renderAnswers(messages: readonly ChatMessage[], given: number, render: Render, ends: readonly string[]): Rendered[] {
  const found: { text: string; spans: Span[] }[] = []
  for (let i = messages.length - 1; i >= given; i--) {
    const message = messages[i]
    if (message?.role !== 'assistant') continue
    const before = render(messages.slice(0, i), true)
    const answer = answerIn(before, render(messages.slice(0, i + 1), false), contentOf(message), ends)
    if (answer === '') continue
    const text = before + answer
    const span: Span = [before.length, text.length]
    const home = found.find((later) => later.text.startsWith(text))
    if (home === undefined) found.push({ text, spans: [span] })
    else home.spans.unshift(span)
  }
  return found.toReversed()
}

/** What `whole` has after `before`, up to the mark that ends it. */
function answerIn(before: string, whole: string, content: string, ends: readonly string[]): string {
  const place = content === '' ? -1 : whole.lastIndexOf(content)
  const start = whole.startsWith(before) ? before.length : findSeam(before, whole, place < 0 ? whole.length : place)
  const written = place < start ? start : place + content.length // the content is not cut, whatever it holds
  const marks = ends.flatMap((end) => (whole.includes(end, written) ? [[whole.indexOf(end, written), end.length] as const] : []))
  const first = marks.toSorted(([a], [b]) => a - b)[0]
  // Without a mark that the tokenizer knows, what stands there is one, but for the white space that follows.
  const end = first === undefined ? Math.max(written, whole.trimEnd().length) : first[0] + first[1]
  return whole.slice(start, end)
}

/** Templates may trim it. */
function contentOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content.trim()
  const parts: readonly unknown[] = Array.isArray(content) ? content : []
  const last = parts.findLast((part) => typeof part === 'object' && part !== null && 'text' in part)
  return typeof last === 'object' && last !== null && 'text' in last && typeof last.text === 'string' ? last.text.trim() : ''
}

/** The place in `whole`, at most `limit`, before which it has most of the end of `before`: where a template wrote the two differently. */
function findSeam(before: string, whole: string, limit: number): number {
  const matched = matchesOfPrefix(reverse(before), reverse(whole)) // by how many units of `whole` follow
  let [best, seam] = [0, limit]
  for (let at = limit; at > 0; at--) {
    const length = matched[whole.length - at] ?? 0
    if (length > best) [best, seam] = [length, at]
  }
  return seam
}

/** How much of the beginning of `pattern` stands at each place of `text`: the Z function, in linear time. */
function matchesOfPrefix(pattern: string, text: string): Uint32Array {
  const joined = `${pattern}\0${text}`
  const lengths = new Uint32Array(joined.length)
  let [from, to] = [0, 0]
  for (let at = 1; at < joined.length; at++) {
    let length = at < to ? Math.min(to - at, lengths[at - from] ?? 0) : 0
    while (at + length < joined.length && joined.charCodeAt(length) === joined.charCodeAt(at + length)) length++
    lengths[at] = Math.min(length, pattern.length)
    if (at + length > to) [from, to] = [at, at + length]
  }
  return lengths.subarray(pattern.length + 1)
}

function reverse(text: string): string {
  let reversed = ''
  for (let at = text.length - 1; at >= 0; at--) reversed += text.charAt(at)
  return reversed
}
