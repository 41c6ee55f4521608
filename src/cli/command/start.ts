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
import { STEPS } from '../demo/tune.ts'
import { describeDiagnosis } from './doctor.ts'
import { Failure } from '../failure.ts'
import { whole } from '../option/number.ts'
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

/** Of each target's source the first line of the kernel, and so many lines up to one that computes y. */
const TARGETS: readonly { target: TargetName; where: string; entry: RegExp; y: RegExp; lines: number }[] = [
  { target: 'msl', where: 'Metal', entry: /kernel void/, y: /^\s*y = /, lines: 2 },
  { target: 'wgsl', where: 'WebGPU', entry: /@compute/, y: /^\s*y = /, lines: 2 },
  { target: 'c', where: 'C, for the CPU', entry: /^void.*\{$/, y: /^\s*y = /, lines: 2 },
  { target: 'wat', where: 'WebAssembly', entry: /\(func \$run /, y: /local\.set \$y$/, lines: 4 },
]
const WIDEST = 100 // columns

export function define(command: Command): void {
  command
    .option('--steps <n>', 'how long the model learns, in steps; a slow machine takes fewer', whole({ least: 1, most: 1000 }), STEPS)
    .action(start)
}

async function start({ steps }: { readonly steps: number }): Promise<void> {
  const style = styleFor(process.stdout)
  const say = (text: string): void => void process.stdout.write(`${text}\n`)
  let number = 0
  const title = (text: string): void => say(`\n${style.bold(style.cyan(`${++number}. ${text}`))}\n`)

  say(style.bold('Ingot: language models from TypeScript, on whatever this machine has.'))
  title('What this machine has')
  const diagnosis = await diagnose()
  say(describeDiagnosis(diagnosis, style, { short: true }).trimEnd())

  const failures: string[] = []
  await showStory({ stream: process.stdout, style, title, steps }).catch((error: unknown) => {
    failures.push(`the default model did not run: ${messageOf(error)}`)
    say(`\n  ${style.red('✗')} ${failures[0] ?? ''}`)
  })

  title('A kernel, written once, in TypeScript')
  say(indent((await readDemo()).trimEnd()))
  title('The same kernel in four languages')
  for (const each of TARGETS) say(`  ${each.where}\n${style.dim(indent(indent(shorten(each))))}`)
  title('And run')
  const { ran, lines } = await drawEverywhere(diagnosis, style)
  say(indent(lines.join('\n')))
  if (!ran) failures.push('no device ran the kernel')

  say(`\n${style.bold('What next')}\n`)
  const me = /node_modules|[\\/]ingot$/.test(process.argv[1] ?? '') ? 'npx ingot' : 'node bin/ingot.js'
  say(indent(HINTS.map(([args, about]) => `${me} ${args.padEnd(40)} ${style.dim(about)}`).join('\n')))
  if (failures.length > 0) throw new Failure(failures.join('; '), 1)
}

/** A few lines of a target's source. */
function shorten({ target, entry, y, lines: count }: (typeof TARGETS)[number]): string {
  const lines = emitSource(target, [mandelbrot]).trimEnd().split('\n')
  const last = lines.findLastIndex((line) => y.test(line))
  const telling = [lines.find((line) => entry.test(line)) ?? '', '...', ...lines.slice(last + 1 - count, last + 1)].map((line) =>
    line.trim(),
  )
  const cut = telling.map((line) => (line.length > WIDEST ? `${line.slice(0, WIDEST - 4)} ...` : line))
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
