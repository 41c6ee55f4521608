// Mat-mat beside the arithmetic of the device: G operations per second (two for each weight and row), and the share of what it does
// in registers. `node lab/run.js matmul [--device cpu,wasm,cpu-1,webgpu] [--format q4_k] [--size 2048x2048] [--rows 64] [--samples 9] [--json]`

import { openDevices, parseOptions, printTable } from './lab.ts'
import { type LinearTiming, timeLinear } from './linear.ts'
import { arithmeticPeak } from './stream.ts'

const ROWS = 64

export async function main(args: readonly string[]): Promise<void> {
  const options = parseOptions(args.includes('--size') ? args : [...args, '--size', '2048x2048'])
  const n = args.includes('--rows') ? Number(args[args.indexOf('--rows') + 1]) : ROWS
  const results: (LinearTiming & { readonly opsPerSecond: number; readonly share: number })[] = []
  const peaks: { readonly device: string; readonly detail: string; readonly opsPerSecond: number }[] = []
  for (const device of await openDevices(options.devices)) {
    const peak = await arithmeticPeak(device, options.samples)
    peaks.push({ device: device.name, detail: device.detail, opsPerSecond: peak })
    if (!options.json) process.stdout.write(`${device.name}: ${device.detail}; ${giga(peak)} G f32 operations/s in registers\n`)
    for (const size of options.sizes) {
      for (const format of options.formats) {
        for (const timing of await timeLinear(device, format, size, n, options.samples)) {
          const opsPerSecond = (2 * timing.m * timing.k * n) / timing.median
          results.push({ ...timing, opsPerSecond, share: opsPerSecond / peak })
        }
      }
    }
    await device.close()
  }
  if (options.json) process.stdout.write(`${JSON.stringify({ peaks, results }, undefined, 2)}\n`)
  else {
    printTable([['device', 'size', 'rows', 'format', 'form', 'ms', 'spread', 'G/s', 'of f32 peak'], ...results.map(({ device, m, k, format, form, median, spread, opsPerSecond, share }) =>
      [device, `${m}x${k}`, String(n), format, form, (median * 1e3).toFixed(2), `${(100 * spread).toFixed(0)}%`, giga(opsPerSecond), `${(100 * share).toFixed(0)}%`])])
  }
}

function giga(value: number): string {
  return (value / 1e9).toFixed(1)
}
