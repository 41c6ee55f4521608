// The chat on a terminal: a prompt with history and completion, messages of several lines, answers as they are written. readline
// owns the keyboard all the time; while an answer is written, what is typed waits unseen and Ctrl-C stops the answer.

import { type Interface, createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { isIngotError } from '../base/error.ts'
import { type Conversation, QUIT, SLASH_COMMANDS } from './conversation.ts'
import { Failure } from './failure.ts'
import { MOST_LINES, readHistory, writeHistory } from './history.ts'
import { MessageReader } from './message.ts'
import { type Style, styleFor } from './terminal.ts'

export interface TerminalOptions {
  /** what is talked with */
  readonly title: string
  readonly stats: boolean
}

const [PROMPT, GO_ON] = ['> ', '. ']
/** Terminals that know bracketed paste mark pasted text; others ignore this. */
const [PASTE_ON, PASTE_OFF] = ['\x1b[?2004h', '\x1b[?2004l']

export async function chatOnTerminal(conversation: Conversation, { title, stats }: TerminalOptions): Promise<void> {
  const style = styleFor(process.stdout)
  const screen = new Screen()
  process.stdout.write(`${style.bold(title)}\n${style.dim('/help lists commands; Ctrl-D leaves')}\n`)
  const keyboard = new Keyboard(screen, style, await readHistory())
  keyboard.onStop = () => conversation.stop()
  try {
    for (;;) {
      const message = await keyboard.next()
      if (message === undefined) break
      if (message.trim() === '') continue
      screen.muted = true
      if (!await answer(conversation, message, style, stats)) break
    }
  } finally {
    await keyboard.close()
  }
}

/** Answers, or does what a command says; false ends the chat. */
async function answer(conversation: Conversation, message: string, style: Style, stats: boolean): Promise<boolean> {
  const write = (text: string): void => { process.stdout.write(text) }
  try {
    if (message.startsWith('/') && !message.includes('\n')) {
      const told = await conversation.command(message)
      if (told === QUIT) return false
      write(`${style.dim(told)}\n`)
      return true
    }
    const { text, finishReason } = await conversation.ask(message, write)
    if (!text.endsWith('\n')) write('\n')
    if (finishReason !== 'stop') write(`${style.dim(finishReason === 'length' ? '(cut: no more tokens allowed)' : '(stopped)')}\n`)
    if (stats) write(`${style.dim(conversation.describe())}\n`)
    write('\n')
  } catch (error) {
    if (!(error instanceof Failure) && !isIngotError(error)) throw error
    const hint = isIngotError(error, 'too-large') ? '; /reset begins anew' : ''
    write(`${style.red(error.message + hint)}\n`)
  }
  return true
}

/** Standard output as readline sees it: can be muted, so that keys typed during an answer do not show in the middle of it. */
class Screen extends Writable {
  muted = false

  constructor() {
    super({ decodeStrings: false })
    process.stdout.on('resize', () => this.emit('resize'))
  }

  get columns(): number { return process.stdout.columns }
  get rows(): number { return process.stdout.rows }

  override _write(chunk: string | Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    if (!this.muted) process.stdout.write(chunk)
    done()
  }
}

/** Messages from the keyboard, in order; those typed ahead wait. */
class Keyboard {
  /** Called on Ctrl-C while nobody waits for a message. */
  onStop: () => void = () => {}
  readonly #screen: Screen
  readonly #style: Style
  readonly #lines: Interface
  readonly #reader = new MessageReader()
  readonly #ready: string[] = []
  #history: string[]
  #waiting: ((message: string | undefined) => void) | undefined
  #pasting = false
  #aboutToLeave = false
  #ended = false

  constructor(screen: Screen, style: Style, history: string[]) {
    this.#screen = screen
    this.#style = style
    this.#history = history
    this.#lines = createInterface({
      input: process.stdin, output: screen, terminal: true, history: [...history], historySize: MOST_LINES, removeHistoryDuplicates: true,
      completer: completeCommand,
    })
    this.#lines.on('line', (line) => this.#onLine(line))
    this.#lines.on('history', (lines) => { this.#history = [...lines] })
    this.#lines.on('SIGINT', () => this.#onInterrupt())
    this.#lines.on('close', () => this.#end())
    process.stdin.on('keypress', this.#onKey)
    process.stdout.write(PASTE_ON)
  }

  /** The next message; undefined when the user leaves. */
  next(): Promise<string | undefined> {
    this.#screen.muted = false
    const ready = this.#ready.shift()
    if (ready !== undefined) {
      process.stdout.write(`${this.#prompt()}${ready.replaceAll('\n', `\n${GO_ON}`)}\n`)
      return Promise.resolve(ready)
    }
    if (this.#ended) return Promise.resolve(undefined)
    this.#show()
    return new Promise((resolve) => { this.#waiting = resolve })
  }

  async close(): Promise<void> {
    this.#ended = true
    process.stdin.off('keypress', this.#onKey)
    process.stdout.write(PASTE_OFF)
    this.#lines.close()
    await writeHistory(this.#history)
  }

  readonly #onKey = (_text: string | undefined, key: { readonly name?: string } | undefined): void => {
    if (key?.name === 'paste-start') this.#pasting = true
    if (key?.name === 'paste-end') this.#pasting = false
  }

  #onLine(line: string): void {
    this.#aboutToLeave = false
    const message = this.#reader.push(line, { more: this.#pasting })
    if (message === undefined) {
      if (this.#waiting !== undefined) this.#show()
    } else if (this.#waiting === undefined) {
      this.#ready.push(message)
    } else {
      this.#give(message)
    }
  }

  /** Stops the answer; else clears what was typed; else, the second time, leaves. */
  #onInterrupt(): void {
    if (this.#waiting === undefined) {
      this.#ready.length = 0
      this.onStop()
      return
    }
    const typed = this.#lines.line !== '' || this.#reader.isOpen
    if (!typed && this.#aboutToLeave) {
      process.stdout.write('\n')
      this.#lines.close()
      return
    }
    this.#aboutToLeave = !typed
    this.#reader.reset()
    process.stdout.write(typed ? '^C\n' : `\n${this.#style.dim('(Ctrl-C again leaves)')}\n`)
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#show()
  }

  #end(): void {
    if (!this.#ended && this.#waiting !== undefined && !this.#aboutToLeave) process.stdout.write('\n')
    this.#ended = true
    this.onStop()
    this.#give(undefined)
  }

  #give(message: string | undefined): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.(message)
  }

  /** Draws the prompt, with what was typed ahead behind it. */
  #show(): void {
    this.#lines.setPrompt(this.#prompt())
    this.#lines.prompt(true)
  }

  #prompt(): string {
    return this.#style.green(this.#reader.isOpen ? GO_ON : PROMPT)
  }
}

function completeCommand(line: string): [string[], string] {
  const names = Object.keys(SLASH_COMMANDS).map((name) => `/${name} `)
  return [line.startsWith('/') ? names.filter((name) => name.startsWith(line)) : [], line]
}
