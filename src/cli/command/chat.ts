// `ingot chat`: chat with a model. On a terminal with a prompt, colours and history; piped, one message per line in and only the
// model's replies out.

import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import { isIngotError } from '../../base/error.ts'
import { printable } from '../../base/printable.ts'
import { chatOnTerminal } from '../chat/terminal.ts'
import { Conversation, QUIT } from '../chat/conversation.ts'
import { Failure } from '../failure.ts'
import { type Interruption, endedByCtrlC, interruptible } from '../interruption.ts'
import { MessageReader } from '../chat/message.ts'
import {
  type ModelFlags,
  type SampleFlags,
  addModelOptions,
  addSampleOptions,
  checkFile,
  generateOptions,
  loadWithBar,
} from '../option/shared.ts'
import { textFor } from '../output/style.ts'

interface ChatFlags extends ModelFlags, SampleFlags {
  readonly system?: string
  readonly stats?: true
}

export function define(command: Command): void {
  command
    .argument('[model]', 'a GGUF file (default: the small model that comes with Ingot)')
    .option('--system <text>', 'the system message')
  addSampleOptions(addModelOptions(command)).option('--stats', 'print statistics after each reply, to stderr').action(chat)
}

async function chat(path: string | undefined, flags: ChatFlags): Promise<void> {
  if (path !== undefined) await checkFile(path)
  await interruptible(async (interruption) => {
    await using model = await loadWithBar(path, flags, interruption.signal)
    const conversation = new Conversation(model, generateOptions(flags), flags.system)
    // Refuses a model that cannot chat before the first message is typed.
    endedByCtrlC(() => model.renderChat([...conversation.messages, { role: 'user', content: 'hello' }]))
    if (process.stdin.isTTY && process.stdout.isTTY) {
      interruption[Symbol.dispose]() // from here Ctrl-C is a key
      await chatOnTerminal(conversation, { title: `${model.name} on ${model.device.name}`, stats: flags.stats === true })
    } else {
      await chatOverPipe(conversation, flags, interruption)
    }
  })
}

async function chatOverPipe(conversation: Conversation, { stats }: ChatFlags, { signal }: Interruption): Promise<void> {
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity, terminal: false })
  const reader = new MessageReader()
  const stop = (): void => {
    conversation.stop()
    lines.close()
  }
  signal.addEventListener('abort', stop)
  const handle = async (message: string | undefined): Promise<boolean> => {
    if (message === undefined || message.trim() === '') return true
    if (message.startsWith('/')) return runCommand(conversation, message)
    await conversation.ask(message, (piece) => process.stdout.write(textFor(process.stdout, piece)))
    process.stdout.write('\n')
    if (stats === true) process.stderr.write(`${conversation.describe()}\n`)
    return !signal.aborted
  }
  try {
    for await (const line of lines) if (!(await handle(reader.push(line)))) return
    await handle(reader.flush())
  } finally {
    signal.removeEventListener('abort', stop)
    lines.close()
  }
}

/** Commands print to stderr: stdout is for the model's replies. */
async function runCommand(conversation: Conversation, line: string): Promise<boolean> {
  try {
    const output = await conversation.command(line)
    if (output === QUIT) return false
    process.stderr.write(`${printable(output)}\n`)
  } catch (error) {
    if (!(error instanceof Failure) && !isIngotError(error)) throw error
    throw new Failure(error.message, 1)
  }
  return true
}
