// `ingot start`, which `npm start` runs: shows what the machine has; the default model writes a story and learns another style; then one
// kernel in TypeScript, as every target's source, and run on every device that works. Needs no network.

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { messageOf } from '../../base/error.ts'
import { packageFile } from '../../base/place.ts'
import { diagnose } from '../../device/open/diagnose.ts'
import { mandelbrot } from '../demo/kernel.ts'
import { drawEverywhere } from '../demo/picture.ts'
import { showStory } from '../demo/story.ts'
import { describeDiagnosis } from './doctor.ts'
import { Failure } from '../failure.ts'
import { type TargetName, emitSource } from '../source.ts'
import { styleFor } from '../output/style.ts'

/** Commands to try, without the program's name, and what each shows. */
export const HINTS = [
  ['chat', 'the same small model: ask it for a story about a fox'],
  ['run model.gguf -p "Once upon a time"', 'any GGUF model: Llama, Qwen, Gemma, Phi'],
  ['kernel linear --format q4_k --emit msl', 'the kernels that do the work, in any language'],
  ['doctor', 'which devices work here, and what to do about the others'],
  ['--help', 'all commands'],
] as const

/** Where each target's source goes, and the lines of it that show how it reads. */
const TARGETS: readonly (readonly [TargetName, string, RegExp])[] = [
  ['msl', 'Metal', /kernel void|^\s*[xy] = /],
  ['wgsl', 'WebGPU', /@compute|^\s*[xy] = /],
  ['c', 'C, for the CPU', /^void.*\{$|^\s*[xy] = /],
  ['wat', 'WebAssembly', /func \$run|local\.(get|set) \$[xy]$/],
]
const MOST_LINES = 5
const WIDEST = 100 // columns

export function define(command: Command): void {
  command.action(start)
}

async function start(): Promise<void> {
  const style = styleFor(process.stdout)
  const say = (text: string): void => void process.stdout.write(`${text}\n`)
  let number = 0
  const title = (text: string): void => say(`\n${style.bold(style.cyan(`${++number}. ${text}`))}\n`)

  say(style.bold('Ingot: language models from TypeScript, on whatever this machine has.'))
  title('What this machine has')
  const diagnosis = await diagnose()
  say(describeDiagnosis(diagnosis, style, { short: true }).trimEnd())

  const failures: string[] = []
  await showStory({ stream: process.stdout, style, title }).catch((error: unknown) => {
    failures.push(`the default model did not run: ${messageOf(error)}`)
    say(`\n  ${style.red('✗')} ${failures[0] ?? ''}`)
  })

  title('How: kernels, written once, in TypeScript')
  say(indent((await readDemo()).trimEnd()))
  title('and in four languages')
  for (const [target, where, telling] of TARGETS) say(`  ${where}\n${style.dim(indent(indent(shorten(target, telling))))}`)
  title('and run')
  const { ran, lines } = await drawEverywhere(diagnosis, style)
  say(indent(lines.join('\n')))
  if (!ran) failures.push('no device ran the kernel')

  say(`\n${style.bold('What next')}\n`)
  const me = /node_modules|[\\/]ingot$/.test(process.argv[1] ?? '') ? 'npx ingot' : 'node bin/ingot.js'
  say(indent(HINTS.map(([args, about]) => `${me} ${args.padEnd(40)} ${style.dim(about)}`).join('\n')))
  if (failures.length > 0) throw new Failure(failures.join('; '), 1)
}

/** A few lines of a target's source. */
function shorten(target: TargetName, telling: RegExp): string {
  const lines = emitSource(target, [mandelbrot]).trimEnd().split('\n')
  const found = lines.filter((line) => telling.test(line)).slice(0, MOST_LINES)
  const cut = found.map((line) => (line.length > WIDEST ? `${line.slice(0, WIDEST - 4)} ...` : line).trim())
  return [...cut, `... (${lines.length} lines)`].join('\n')
}

/** The source as it was written; it lies beside the compiled code. */
async function readDemo(): Promise<string> {
  const text = await readFile(packageFile('src/cli/demo/kernel.ts'), 'utf8').catch(() => '')
  const cut = text.indexOf('// show from here\n')
  return cut < 0 ? '(its source is not installed here)' : text.slice(cut).split('\n').slice(1).join('\n')
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => (line === '' ? '' : `  ${line}`))
    .join('\n')
}
