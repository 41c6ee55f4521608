// The part of the demonstration that runs one kernel on every device, draws what the first one computed, and compares the others with it.

import { messageOf } from '../../base/error.ts'
import type { Diagnosis } from '../../device/open/diagnose.ts'
import { DEVICES } from '../../device/open/open.ts'
import { lanesOf } from '../../ir/kernel.ts'
import type { Style } from '../output/style.ts'
import { mandelbrot } from './kernel.ts'
import { runOnce } from './run.ts'

const WIDTH = 72
const HEIGHT = 20
const LIMIT = 48 // iterations
/** From points that escape at once to those that never do. */
const SHADES = ' .:-=+*#%@'

/** Lines of the picture, and one about each device; `ran` is false if none ran the kernel. */
export async function drawEverywhere({ devices }: Diagnosis, style: Style): Promise<{ ran: boolean; lines: readonly string[] }> {
  let first: Uint32Array | undefined
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
      first ??= iterations
      const compared = first
      const different = iterations.filter((value, i) => value !== compared[i]).length
      const agrees =
        different === 0 ? 'exactly the same picture' : `${different} of ${WIDTH * HEIGHT} points differ: floats round differently there`
      const result = first === iterations ? 'drew this picture' : agrees
      lines.push(`${style.green('✓')} ${name.padEnd(10)} ${`${ms.toFixed(1)} ms`.padStart(10)}   ${result}`)
    } catch (error) {
      lines.push(`${style.red('✗')} ${name.padEnd(10)} ${messageOf(error)}`)
    }
  }
  return { ran: first !== undefined, lines: [...(first === undefined ? [] : draw(first)), '', ...lines] }
}

function draw(iterations: Uint32Array): string[] {
  const shade = (count: number): string =>
    SHADES[Math.min(SHADES.length - 1, Math.floor((Math.log2(1 + count) / Math.log2(1 + LIMIT)) * SHADES.length))] ?? ' '
  return Array.from({ length: HEIGHT }, (_, row) =>
    Array.from(iterations.subarray(row * WIDTH, (row + 1) * WIDTH), shade)
      .join('')
      .trimEnd(),
  )
}
