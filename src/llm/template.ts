// Chat templates: messages to the text a model was trained on. Knows the variables that templates expect and the errors
// they raise; how Jinja is parsed and run is jinja.ts. A template is compiled once; `render` keeps no state.

import { IngotError, messageOf } from '../base/error.ts'
import { type HasMetadata, metaString } from '../weights/gguf/meta.ts'
import { compileJinja, runJinja } from './jinja.ts'
import type { EncodeOptions, Tokenizer } from './tokenizer/tokenizer.ts'

/** A message of a conversation, as the chat template of the model reads it. */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool`, or whatever else the template knows */
  readonly role: string
  /** usually a text; some templates take lists of parts */
  readonly content?: unknown
  /** `tool_calls`, `name`, `reasoning_content`...: whatever else the template reads */
  readonly [field: string]: unknown
}

export interface TemplateOptions {
  /** text of the token that begins a text; default: none */
  readonly bosToken?: string
  /** text of the token that ends a text; default: none */
  readonly eosToken?: string
  /** where guesses are reported; default: nowhere */
  readonly warn?: (message: string) => void
}

/** What a template may read besides the messages. */
export interface RenderOptions {
  /** end with the opening of an assistant message (default true) */
  readonly addGenerationPrompt?: boolean
  /** descriptions of functions that the model may call, in the form that its template expects; default: none */
  readonly tools?: readonly unknown[]
  /** the time that `strftime_now` gives (default: the present) */
  readonly now?: Date
  /** further variables of the model's own template, such as `enable_thinking` */
  readonly variables?: Readonly<Record<string, unknown>>
}

export interface Template {
  readonly source: string
  /** Throws `bad-argument` where the template raises an exception, with its words as the hint. */
  render(messages: readonly ChatMessage[], options?: RenderOptions): string
}

/** Characters of a template's own words in an error. */
const MOST_QUOTED = 500

/** What most models without a template understand. */
export const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}" +
  "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/** A missing or empty source means ChatML, and a warning. */
export function createTemplate(source: string | undefined, options: TemplateOptions = {}): Template {
  const { bosToken = '', eosToken = '', warn = () => {} } = options
  const missing = source === undefined || source.trim() === ''
  if (missing) warn('this model carries no chat template; using ChatML, which it may not have been trained on')
  const text = missing ? CHATML : source
  const program = compile(text)
  return {
    source: text,
    render(messages, { addGenerationPrompt = true, tools, now = new Date(), variables = {} } = {}) {
      const values = {
        ...variables,
        messages,
        tools: tools === undefined || tools.length === 0 ? undefined : tools,
        add_generation_prompt: addGenerationPrompt,
        bos_token: bosToken,
        eos_token: eosToken,
      }
      try {
        return runJinja(program, values, { now, raise })
      } catch (cause) {
        if (cause instanceof IngotError) throw cause
        throw new IngotError('unsupported', 'the template failed', { op: 'template', hint: excerpt(messageOf(cause)), cause })
      }
    },
  }
}

/** The template of a model file, with the texts of its tokenizer's tokens. */
export function readTemplate(file: HasMetadata, tokenizer: Tokenizer, warn?: (message: string) => void): Template {
  const tokenText = (id: number | undefined): string => (id === undefined ? '' : tokenizer.tokenText(id))
  return createTemplate(metaString(file, 'tokenizer.chat_template', ''), {
    bosToken: tokenText(tokenizer.bos),
    eosToken: tokenText(tokenizer.eos),
    ...(warn === undefined ? {} : { warn }),
  })
}

/** How a text that a template rendered becomes tokens: special tokens count, and BOS is added unless the template wrote it. */
export function chatEncoding(text: string, tokenizer: Tokenizer): EncodeOptions {
  const bos = tokenizer.bos === undefined ? '' : tokenizer.tokenText(tokenizer.bos)
  return { addSpecial: bos === '' || !text.startsWith(bos), parseSpecial: true }
}

function compile(source: string): ReturnType<typeof compileJinja> {
  try {
    return compileJinja(source)
  } catch (cause) {
    if (cause instanceof IngotError) throw cause
    throw new IngotError('bad-file', 'the chat template cannot be parsed', { op: 'template', hint: excerpt(messageOf(cause)), cause })
  }
}

function raise(message: string): never {
  throw new IngotError('bad-argument', 'the template refuses these messages', { op: 'template', hint: excerpt(message) })
}

/** What a template says may be as long as it likes; an error has one line for it. */
function excerpt(text: string): string {
  return text.length > MOST_QUOTED ? `${text.slice(0, MOST_QUOTED)}...` : text
}
