// What has been said in a chat, and the commands that change it. Streams replies through a callback; knows the model, and nothing of
// terminals, so that piped input and the keyboard share it.

import { readFile } from 'node:fs/promises'
import type { ChatOptions, Model } from '../../llm/model.ts'
import type { Generation, GenerationResult } from '../../llm/generation.ts'
import type { ChatMessage } from '../../llm/template.ts'
import { Failure } from '../failure.ts'
import { endedByCtrlC } from '../interruption.ts'
import { checkOutput, writeOutput } from '../output/file.ts'
import { describeStats } from '../output/stats.ts'

interface SlashCommand {
  readonly usage: string
  readonly about: string
  /** Returns the text to show. */
  run(conversation: Conversation, argument: string): Promise<string> | string
}

export const QUIT = Symbol('quit')

export const SLASH_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  help: { usage: '/help', about: 'show this list', run: () => HELP },
  reset: { usage: '/reset', about: 'forget the conversation, keep the system message', run: (chat) => chat.reset() },
  system: {
    usage: '/system TEXT',
    about: 'set the system message and start over; without TEXT, show it',
    run: (chat, text) => chat.setSystem(text),
  },
  save: {
    usage: '/save FILE',
    about: 'write the conversation as JSON; --force before FILE replaces one',
    run: (chat, file) => chat.save(file),
  },
  load: { usage: '/load FILE', about: 'continue a saved conversation', run: (chat, file) => chat.load(file) },
  stats: { usage: '/stats', about: 'show statistics of the last reply', run: (chat) => chat.describe() },
  quit: { usage: '/quit', about: 'leave (also Ctrl-D)', run: () => '' },
}

const HELP = [
  ...Object.values(SLASH_COMMANDS).map(({ usage, about }) => `${usage.padEnd(14)} ${about}`),
  '',
  'A line that ends with \\ continues on the next one; """ opens and closes a block of lines.',
  'Ctrl-C stops the reply; pressed twice at an empty prompt, it leaves the chat.',
].join('\n')

export class Conversation {
  readonly #model: Model
  readonly #options: ChatOptions
  #messages: ChatMessage[] = []
  #last: GenerationResult | undefined
  #running: Generation | undefined
  /** files that this chat wrote itself */
  readonly #saved = new Set<string>()

  constructor(model: Model, options: ChatOptions, system?: string) {
    this.#model = model
    this.#options = options
    if (system !== undefined) this.setSystem(system)
  }

  get messages(): readonly ChatMessage[] {
    return this.#messages
  }

  /** Replies to a message. What was written before the reply was stopped counts as said; a message that failed does not. */
  async ask(text: string, write: (piece: string) => void): Promise<GenerationResult> {
    const messages = [...this.#messages, { role: 'user', content: text }]
    this.#running = endedByCtrlC(() => this.#model.chat(messages, this.#options))
    try {
      for await (const piece of this.#running) write(piece)
      const result = await this.#running
      this.#messages = [...messages, { role: 'assistant', content: result.text }]
      this.#last = result
      return result
    } finally {
      this.#running = undefined
    }
  }

  /** Stops the reply under way, if there is one. */
  stop(): void {
    this.#running?.cancel()
  }

  /** Runs `/name argument`; returns what to show, or QUIT. Mistakes are Failures, and change nothing. */
  async command(line: string): Promise<string | typeof QUIT> {
    const [, name = '', argument = ''] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? []
    const command = Object.hasOwn(SLASH_COMMANDS, name) ? SLASH_COMMANDS[name] : undefined
    if (command === undefined) throw new Failure(`no such command: /${name}; /help lists them`)
    return name === 'quit' ? QUIT : command.run(this, argument.trim())
  }

  reset(): string {
    this.#messages = this.#messages.filter(({ role }, i) => i === 0 && role === 'system')
    return 'conversation forgotten'
  }

  setSystem(text: string): string {
    const [first] = this.#messages
    if (text === '') return first?.role === 'system' ? String(first.content) : 'no system message'
    this.#messages = [{ role: 'system', content: text }]
    return 'started over with this system message'
  }

  async save(argument: string): Promise<string> {
    const file = argument.replace(/^--force(\s+|$)/, '')
    if (file === '') throw new Failure('no file given; use: /save FILE')
    // A chat may be saved again where it was saved before.
    const force = file !== argument || this.#saved.has(file)
    const output = await checkOutput(file, { force, hint: `/save --force ${file} replaces it` })
    await writeOutput(output, `${JSON.stringify({ messages: this.#messages }, null, 1)}\n`)
    this.#saved.add(file)
    return `saved ${count(this.#messages.length)} to ${file}`
  }

  async load(file: string): Promise<string> {
    if (file === '') throw new Failure('no file given; use: /load FILE')
    const text = await readFile(file, 'utf8').catch((error: Error) => {
      throw new Failure(`cannot read ${file}: ${error.message}`)
    })
    this.#messages = readMessages(text, file)
    return `loaded ${count(this.#messages.length)} from ${file}`
  }

  describe(): string {
    return this.#last === undefined ? 'no reply yet' : describeStats(this.#model, this.#last.stats)
  }
}

/** Messages of a saved conversation: `{ messages: [...] }`, or the list itself. */
function readMessages(text: string, file: string): ChatMessage[] {
  let saved: unknown
  try {
    saved = JSON.parse(text)
  } catch {
    throw new Failure(`${file} is not JSON`)
  }
  const list: unknown = Array.isArray(saved) ? saved : (saved as { messages?: unknown } | null)?.messages
  if (!Array.isArray(list) || !list.every(isMessage))
    throw new Failure(`${file} is not a saved conversation: { "messages": [{ "role", "content" }] }`)
  return list
}

function isMessage(value: unknown): value is ChatMessage {
  if (typeof value !== 'object' || value === null) return false
  const { role, content } = value as { role?: unknown; content?: unknown }
  return typeof role === 'string' && typeof content === 'string'
}

function count(messages: number): string {
  return `${messages} message${messages === 1 ? '' : 's'}`
}
