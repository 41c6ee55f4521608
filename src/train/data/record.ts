// A record of training data, as a line of a JSONL file or an object in memory has it, becomes samples: what is given, and what is to be
// learnt. Knows the forms of records; nothing of tokens, templates or files.

import { describeKind, isObject, isString } from '../../base/argument.ts'
import type { ChatMessage } from '../../llm/template.ts'

/** A text, or messages of a conversation. */
type Turns = string | readonly ChatMessage[]

/**
 * A record to learn from: a conversation, of which the assistant's messages are learnt; a prompt and what should follow it; a text; or,
 * for preference tuning, a prompt with a better and a worse answer.
 */
export type TrainingRecord =
  | { readonly messages: readonly ChatMessage[]; readonly tools?: readonly unknown[] }
  | { readonly prompt: Turns; readonly completion: Turns; readonly tools?: readonly unknown[] }
  | { readonly text: string }
  | { readonly prompt: Turns; readonly chosen: Turns; readonly rejected: Turns; readonly tools?: readonly unknown[] }

/** A text of which everything after the first `given` characters is learnt. */
export interface TextSample {
  readonly kind: 'text'
  readonly text: string
  readonly given: number
}
/** A conversation of which the assistant's messages from the one of index `given` on are learnt. */
export interface ChatSample {
  readonly kind: 'chat'
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
  readonly given: number
}
export type Sample = TextSample | ChatSample
/** Two answers to the same prompt. */
export interface Pair {
  readonly kind: 'pair'
  readonly chosen: Sample
  readonly rejected: Sample
}

/** Why a record cannot be used: `reason` is the same for all records of that fault, `detail` tells about this one. */
export class RecordFault extends Error {
  readonly reason: string
  readonly detail: string | undefined

  constructor(reason: string, detail?: string) {
    super(detail === undefined ? reason : `${reason}: ${detail}`)
    this.reason = reason
    this.detail = detail
  }
}

const FORMS = 'messages, prompt and completion, prompt and chosen and rejected, or text'

/** Which form a record has is told by its fields. Throws a `RecordFault`. */
export function readRecord(value: unknown): Sample | Pair {
  if (!isObject(value) || Array.isArray(value)) throw new RecordFault('no object', describeKind(value))
  const fields = new Map<string, unknown>(Object.entries(value))
  const tools = toolsOf(fields.get('tools'))
  if (fields.has('messages')) return chat(messagesOf('messages', fields.get('messages')), 0, tools)
  if (fields.has('chosen') || fields.has('rejected')) {
    const prompt = fields.get('prompt') ?? (Array.isArray(fields.get('chosen')) ? [] : '')
    const answer = (name: string): Sample => joined(prompt, name, fields.get(name), tools)
    return { kind: 'pair', chosen: answer('chosen'), rejected: answer('rejected') }
  }
  if (fields.has('prompt') || fields.has('completion')) return joined(fields.get('prompt'), 'completion', fields.get('completion'), tools)
  if (fields.has('text')) return { kind: 'text', text: textOf('text', fields.get('text')), given: 0 }
  throw new RecordFault(`no field that says what to learn (${FORMS})`, `it has ${[...fields.keys()].join(', ') || 'none'}`)
}

/** A prompt and what follows it: both texts, or messages and messages or the text of one. */
function joined(prompt: unknown, name: string, after: unknown, tools: readonly unknown[] | undefined): Sample {
  if (!Array.isArray(prompt)) {
    const given = textOf('prompt', prompt, { empty: true })
    return { kind: 'text', text: given + textOf(name, after), given: given.length }
  }
  const before = prompt.length === 0 ? [] : messagesOf('prompt', prompt)
  const rest = isString(after) ? [{ role: 'assistant', content: textOf(name, after) }] : messagesOf(name, after)
  return chat([...before, ...rest], before.length, tools)
}

function chat(messages: readonly ChatMessage[], given: number, tools: readonly unknown[] | undefined): ChatSample {
  if (!messages.some(({ role }, i) => i >= given && role === 'assistant'))
    throw new RecordFault('no message of the assistant to learn', `roles are ${messages.map(({ role }) => role).join(', ')}`)
  return { kind: 'chat', messages, given, ...(tools === undefined ? {} : { tools }) }
}

function messagesOf(name: string, value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw new RecordFault(`${name} is no list of messages`, describeKind(value))
  if (value.length === 0) throw new RecordFault(`${name} is empty`)
  return value.map((message: unknown, i): ChatMessage => {
    if (!isObject(message) || !('role' in message) || !isString(message.role))
      throw new RecordFault('a message has no role', `number ${i + 1} of ${name}`)
    const content: unknown = 'content' in message ? message.content : undefined
    const isContent = isString(content) || Array.isArray(content) || content === undefined || content === null
    if (!isContent) throw new RecordFault('the content of a message is no text', `number ${i + 1} of ${name} has ${describeKind(content)}`)
    return { ...message, role: message.role }
  })
}

function toolsOf(value: unknown): readonly unknown[] | undefined {
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) throw new RecordFault('tools is no list', describeKind(value))
  return value
}

function textOf(name: string, value: unknown, { empty = false } = {}): string {
  if (!isString(value)) throw new RecordFault(`${name} is no text`, describeKind(value))
  if (!empty && value === '') throw new RecordFault(`${name} is empty`)
  return value
}
