// The chat on a terminal: a prompt with history and completion, messages of several lines, replies as they are written. readline
// owns the keyboard all the time; while a reply is written, what is typed waits unseen and Ctrl-C stops the reply.

import { type Interface, createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { isIngotError } from '../../base/error.ts'
import { printable, printableLine } from '../../base/printable.ts'
import { type Conversation, QUIT, SLASH_COMMANDS } from './conversation.ts'
import { Failure } from '../failure.ts'
import { MOST_LINES, readHistory, writeHistory } from './history.ts'
import { MessageReader } from './message.ts'
import { type Stream, type Style, styleFor, textFor } from '../output/style.ts'

export interface TerminalOptions {
  /** the first line: the model and its device */
  readonly title: string
  /** show statistics after each reply */
  readonly stats: boolean
  /** default: those of the process */
  readonly input?: NodeJS.ReadableStream
  readonly output?: Terminal
}

export type Terminal = Stream & NodeJS.WritableStream

const [PROMPT, CONTINUATION] = ['> ', '. ']
/** Terminals that know bracketed paste mark pasted text; others ignore this. */
const [PASTE_ON, PASTE_OFF] = ['\x1b[?2004h', '\x1b[?2004l']

export async function chatOnTerminal(conversation: Conversation, options: TerminalOptions): Promise<void> {
  const { title, stats, input = process.stdin, output = process.stdout } = options
  const style = styleFor(output)
  const screen = new Screen(output)
  output.write(`${style.bold(printableLine(title))}\n${style.dim('/help lists the commands; Ctrl-D leaves')}\n`)
  const keyboard = new Keyboard(input, screen, style, await readHistory())
  keyboard.onStop = () => conversation.stop()
  try {
    for (;;) {
      const message = await keyboard.next()
      if (message === undefined) break
      if (message.trim() === '') continue
      screen.muted = true
      if (!(await handleMessage(conversation, message, { output, style, stats }))) break
    }
  } finally {
    await keyboard.close()
  }
}

interface Display {
  readonly output: Terminal
  readonly style: Style
  readonly stats: boolean
}

/** Shows the model's reply, or runs a command; false ends the chat. */
async function handleMessage(conversation: Conversation, message: string, { output, style, stats }: Display): Promise<boolean> {
  const write = (text: string): void => {
    output.write(text)
  }
  try {
    if (message.startsWith('/') && !message.includes('\n')) {
      const result = await conversation.command(message)
      if (result === QUIT) return false
      write(`${style.dim(printable(result))}\n`)
      return true
    }
    const { text, finishReason } = await conversation.ask(message, (piece) => write(textFor(output, piece)))
    if (!text.endsWith('\n')) write('\n')
    if (finishReason !== 'stop') write(`${style.dim(finishReason === 'length' ? '(cut off: token limit reached)' : '(stopped)')}\n`)
    if (stats) write(`${style.dim(conversation.describe())}\n`)
    write('\n')
  } catch (error) {
    if (!(error instanceof Failure) && !isIngotError(error)) throw error
    const hint = isIngotError(error, 'too-large') ? '; /reset starts over' : ''
    write(`${style.red(printable(error.message) + hint)}\n`)
  }
  return true
}

/** The terminal as readline sees it: can be muted, so that keys typed during a reply do not show in the middle of it. */
class Screen extends Writable {
  muted = false
  readonly terminal: Terminal

  constructor(terminal: Terminal) {
    super({ decodeStrings: false })
    this.terminal = terminal
    terminal.on('resize', this.#onResize)
  }

  get columns(): number {
    return this.terminal.columns ?? 80
  }

  override _write(chunk: string, _encoding: BufferEncoding, done: () => void): void {
    if (!this.muted) this.terminal.write(chunk)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.terminal.off('resize', this.#onResize)
    done(error)
  }

  readonly #onResize = (): void => {
    this.emit('resize')
  }
}

/** Messages from the keyboard, in order; those typed ahead wait. */
class Keyboard {
  /** Called on Ctrl-C while nobody waits for a message. */
  onStop: () => void = () => {}
  readonly #input: NodeJS.ReadableStream
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

  constructor(input: NodeJS.ReadableStream, screen: Screen, style: Style, history: string[]) {
    this.#input = input
    this.#screen = screen
    this.#style = style
    this.#history = history
    this.#lines = createInterface({
      input,
      output: screen,
      terminal: true,
      history: [...history],
      historySize: MOST_LINES,
      removeHistoryDuplicates: true,
      completer: completeCommand,
    })
    this.#lines.on('line', (line) => this.#onLine(line))
    this.#lines.on('history', (lines) => {
      this.#history = [...lines]
    })
    this.#lines.on('SIGINT', () => this.#onInterrupt())
    this.#lines.on('close', () => this.#end())
    input.on('keypress', this.#onKey)
    this.#screen.terminal.write(PASTE_ON)
  }

  /** The next message; undefined when the user leaves. */
  next(): Promise<string | undefined> {
    this.#screen.muted = false
    const ready = this.#ready.shift()
    if (ready !== undefined) {
      this.#screen.terminal.write(`${this.#prompt()}${ready.replaceAll('\n', `\n${CONTINUATION}`)}\n`)
      return Promise.resolve(ready)
    }
    if (this.#ended) return Promise.resolve(undefined)
    this.#show()
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  async close(): Promise<void> {
    this.#ended = true
    this.#input.off('keypress', this.#onKey)
    this.#screen.terminal.write(PASTE_OFF)
    this.#lines.close()
    this.#screen.destroy()
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
      this.#deliver(message)
    }
  }

  /** Stops the reply; else clears what was typed; else, the second time, leaves. */
  #onInterrupt(): void {
    if (this.#waiting === undefined) {
      this.#ready.length = 0
      this.onStop()
      return
    }
    const typed = this.#lines.line !== '' || this.#reader.isOpen
    if (!typed && this.#aboutToLeave) {
      this.#screen.terminal.write('\n')
      this.#lines.close()
      return
    }
    this.#aboutToLeave = !typed
    this.#reader.reset()
    this.#screen.terminal.write(typed ? '^C\n' : `\n${this.#style.dim('(press Ctrl-C again to leave)')}\n`)
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#show()
  }

  #end(): void {
    if (!this.#ended && this.#waiting !== undefined && !this.#aboutToLeave) this.#screen.terminal.write('\n')
    this.#ended = true
    this.onStop()
    this.#deliver(undefined)
  }

  #deliver(message: string | undefined): void {
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
    return this.#style.green(this.#reader.isOpen ? CONTINUATION : PROMPT)
  }
}

function completeCommand(line: string): [string[], string] {
  const names = Object.keys(SLASH_COMMANDS).map((name) => `/${name} `)
  return [line.startsWith('/') ? names.filter((name) => name.startsWith(line)) : [], line]
}
