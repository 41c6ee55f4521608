// The `ingot` command. Each file in command/ is a command; they are loaded when asked for, so that `ingot --help` is quick.
// Bad flags and unknown names: one line on stderr, exit code 2, nothing on stdout. Failures of the work itself: exit code 1.

import { readFile } from 'node:fs/promises'
import { Command, CommanderError } from 'commander'
import { isIngotError, messageOf } from '../base/error.ts'
import { packageFile } from '../base/place.ts'
import { printable } from '../base/printable.ts'
import { Failure } from './failure.ts'
import { settleStdout, watchStdio } from './output/stdio.ts'

export interface CommandFile {
  /** Declares arguments and options, and what to do. */
  define(command: Command): void
}

const COMMANDS: Readonly<Record<string, { about: string; load: () => Promise<CommandFile> }>> = {
  run: { about: 'continue a prompt', load: () => import('./command/run.ts') },
  chat: { about: 'chat with a model in the terminal', load: () => import('./command/chat.ts') },
  eval: { about: 'compute the logits or the perplexity of a text', load: () => import('./command/eval.ts') },
  compare: { about: 'run a model on two devices and name the first tensor that differs', load: () => import('./command/compare.ts') },
  inspect: { about: 'show what is in a model file, and whether it fits in memory', load: () => import('./command/inspect.ts') },
  quantize: { about: 'convert a model file to another weight format', load: () => import('./command/quantize.ts') },
  train: { about: 'fine-tune a model on data of your own', load: () => import('./command/train.ts') },
  merge: { about: 'put an adapter into the weights of its model', load: () => import('./command/merge.ts') },
  tokenizer: { about: 'train a tokenizer on texts', load: () => import('./command/tokenizer.ts') },
  synth: { about: 'write a model file with random weights, for benchmarks', load: () => import('./command/synth.ts') },
  bench: { about: 'measure how fast a model runs here, alone or against a peer', load: () => import('./command/bench.ts') },
  doctor: { about: 'check which devices work here, by running kernels on them', load: () => import('./command/doctor.ts') },
  kernel: { about: 'list the kernels, or show one as MSL, WGSL, C or WebAssembly', load: () => import('./command/kernel.ts') },
  atlas: { about: 'check, run, compile or print a program of the Atlas instruction set', load: () => import('./command/atlas.ts') },
  start: { about: 'run a guided demonstration', load: () => import('./command/start.ts') },
}

/** Runs the command line; returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  watchStdio()
  let thrown: unknown
  try {
    await run(args)
  } catch (error) {
    thrown = error
  }
  const unwritten = await settleStdout()
  if (unwritten !== undefined) return report(new Failure(`cannot write to stdout: ${messageOf(unwritten)}`, 1))
  return thrown === undefined ? 0 : report(thrown)
}

async function run(args: readonly string[]): Promise<void> {
  const program = new Command('ingot').description('Run language models from TypeScript, on the GPU you have').exitOverride()
  program.version(await version(), '-v, --version').configureOutput({ outputError: (text, write) => write(oneLine(text)) })
  // `ingot help run` and `ingot run --help` both need the flags of `run`.
  const [first, second] = args.filter((arg) => !arg.startsWith('-'))
  const chosen = first === 'help' ? second : first
  for (const [name, { about, load }] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(about)
    if (name === chosen) (await load()).define(command)
  }
  if (args.length === 0) program.outputHelp()
  else await program.parseAsync([...args], { from: 'user' })
}

/** Commander's complaints, in the form of ours: `ingot: unknown option '--foo' (Did you mean --for?)`. */
function oneLine(text: string): string {
  return `${printable(text)
    .replace(/^error: /, 'ingot: ')
    .trim()
    .replace(/\s*\n\s*/g, ' ')}\n`
}

async function version(): Promise<string> {
  const text = await readFile(packageFile('package.json'), 'utf8')
  return String((JSON.parse(text) as { version?: unknown }).version)
}

/** Says what went wrong; gives the exit code. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2 // it has said so itself
  if (error instanceof Failure) {
    if (error.message !== '') process.stderr.write(`ingot: ${printable(error.message)}\n`)
    return error.exitCode
  }
  if (isIngotError(error)) {
    process.stderr.write(`ingot: ${error.message}\n`)
    return error.code === 'bad-argument' || error.code === 'unknown-name' ? 2 : 1
  }
  process.stderr.write(`ingot: ${printable(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`)
  return 1
}
