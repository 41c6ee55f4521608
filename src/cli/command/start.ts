// `ingot start`, which `npm start` runs: shows what the machine has, then one kernel in TypeScript, as every target's source, and run
// on every device that works. Needs no network and no model.

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { messageOf } from '../../base/error.ts'
import { packageFile } from '../../base/place.ts'
import { type Diagnosis, diagnose } from '../../device/open/diagnose.ts'
import { DEVICES } from '../../device/open/open.ts'
import { lanesOf } from '../../ir/kernel.ts'
import { mandelbrot } from '../demo/kernel.ts'
import { runOnce } from '../demo/run.ts'
import { describeDiagnosis } from './doctor.ts'
import { Failure } from '../failure.ts'
import { emitSource } from '../source.ts'
import { type Style, styleFor } from '../output/style.ts'

/** Commands to try, without the program's name, and what each shows. */
export const HINTS = [
  ['run model.gguf -p "Once upon a time"', 'any GGUF model: Llama, Qwen, Gemma, Phi'],
  ['kernel linear --format q4_k --emit msl', 'the kernels that do the work, in any language'],
  ['doctor', 'which devices work here, and what to do about the others'],
  ['--help', 'all commands'],
] as const

const WIDTH = 72
const HEIGHT = 24
const LIMIT = 48 // iterations
/** From points that escape at once to those that never do. */
const SHADES = ' .:-=+*#%@'

export function define(command: Command): void {
  command.action(start)
}

async function start(): Promise<void> {
  const style = styleFor(process.stdout)
  const say = (text: string): void => void process.stdout.write(`${text}\n`)
  const title = (number: number, text: string): void => say(`\n${style.bold(style.cyan(`${number}. ${text}`))}\n`)

  say(style.bold('Ingot: language models from TypeScript, on whatever this machine has.'))
  title(1, 'What this machine has')
  const diagnosis = await diagnose()
  say(describeDiagnosis(diagnosis, style, { short: true }).trimEnd())

  title(2, 'A kernel, written once, in TypeScript')
  say(indent((await readDemo()).trimEnd()))
  for (const [number, target, where] of [
    [3, 'msl', 'for Metal'],
    [4, 'wgsl', 'for WebGPU'],
    [5, 'c', 'in C, for the CPU'],
  ] as const) {
    title(number, `The same kernel ${where}`)
    say(style.dim(indent(emitSource(target, [mandelbrot]).trimEnd())))
  }

  title(6, 'And run')
  const ran = await runEverywhere(diagnosis, style, say)
  say(`\n${style.bold('What next')}\n`)
  const me = /node_modules|[\\/]ingot$/.test(process.argv[1] ?? '') ? 'npx ingot' : 'node bin/ingot.js'
  say(indent(HINTS.map(([args, about]) => `${me} ${args.padEnd(40)} ${style.dim(about)}`).join('\n')))
  if (!ran) throw new Failure('no device ran the kernel', 1)
}

/** Runs the kernel on every device that computes, draws the first result, and says whether the others agree; false if none ran. */
async function runEverywhere({ devices }: Diagnosis, style: Style, say: (text: string) => void): Promise<boolean> {
  let drawn: Uint32Array | undefined
  const lines: string[] = []
  for (const { name, available, findings } of devices) {
    const entry = DEVICES.find((each) => each.name === name)
    if (entry === undefined || entry.auto === 'never') continue
    if (!available) {
      lines.push(`${style.dim('-')} ${name.padEnd(10)} ${style.dim(`skipped: ${findings[0]?.evidence ?? 'not here'}`)}`)
      continue
    }
    try {
      const { bytes, ms } = await runOnce(await entry.load(), mandelbrot, {
        bytes: 4 * WIDTH * HEIGHT,
        uniforms: { width: WIDTH, height: HEIGHT, limit: LIMIT },
        grid: [Math.ceil((WIDTH * HEIGHT) / lanesOf(mandelbrot)), 1, 1],
      })
      const iterations = new Uint32Array(bytes.buffer, bytes.byteOffset, WIDTH * HEIGHT)
      const first = (drawn ??= draw(iterations, say))
      const different = iterations.filter((value, i) => value !== first[i]).length
      const agrees =
        different === 0 ? 'exactly the same picture' : `${different} of ${WIDTH * HEIGHT} points differ: floats round differently there`
      const result = first === iterations ? 'drew this picture' : agrees
      lines.push(`${style.green('✓')} ${name.padEnd(10)} ${`${ms.toFixed(1)} ms`.padStart(10)}   ${result}`)
    } catch (error) {
      lines.push(`${style.red('✗')} ${name.padEnd(10)} ${messageOf(error)}`)
    }
  }
  say(`\n${indent(lines.join('\n'))}`)
  return drawn !== undefined
}

function draw(iterations: Uint32Array, say: (text: string) => void): Uint32Array {
  const shade = (count: number): string =>
    SHADES[Math.min(SHADES.length - 1, Math.floor((Math.log2(1 + count) / Math.log2(1 + LIMIT)) * SHADES.length))] ?? ' '
  for (let row = 0; row < HEIGHT; row++)
    say(`  ${Array.from(iterations.subarray(row * WIDTH, (row + 1) * WIDTH), shade).join('')}`.trimEnd())
  return iterations
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
