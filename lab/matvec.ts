// Mat-vec beside the memory it must read: GB/s of weights, and the share of what the device reads in a plain sum.
// `node lab/run.js matvec [--device cpu,wasm,cpu-1,webgpu] [--format q4_k] [--size 2048x2048] [--samples 9] [--json]`

import { openDevices, parseOptions, printTable } from './lab.ts'
import { type LinearTiming, timeLinear } from './linear.ts'
import { readBandwidth } from './stream.ts'

const STREAM_BYTES = 256 * 2 ** 20

export async function main(args: readonly string[]): Promise<void> {
  const options = parseOptions(args)
  const results: (LinearTiming & { readonly bytesPerSecond: number; readonly share: number })[] = []
  const bandwidths: { readonly device: string; readonly detail: string; readonly bytesPerSecond: number }[] = []
  for (const device of await openDevices(options.devices)) {
    const bandwidth = await readBandwidth(device, STREAM_BYTES, options.samples)
    bandwidths.push({ device: device.name, detail: device.detail, bytesPerSecond: bandwidth })
    if (!options.json) process.stdout.write(`${device.name}: ${device.detail}; reads ${giga(bandwidth)} GB/s\n`)
    for (const size of options.sizes) {
      for (const format of options.formats) {
        for (const timing of await timeLinear(device, format, size, 1, options.samples)) {
          const bytesPerSecond = timing.weightBytes / timing.median
          results.push({ ...timing, bytesPerSecond, share: bytesPerSecond / bandwidth })
        }
      }
    }
    await device.close()
  }
  if (options.json) process.stdout.write(`${JSON.stringify({ bandwidths, results }, undefined, 2)}\n`)
  else {
    printTable([['device', 'size', 'format', 'form', 'us', 'spread', 'GB/s', 'of reads'], ...results.map(({ device, m, k, format, form, median, spread, bytesPerSecond, share }) =>
      [device, `${m}x${k}`, format, form, (median * 1e6).toFixed(0), `${(100 * spread).toFixed(0)}%`, giga(bytesPerSecond), `${(100 * share).toFixed(0)}%`])])
  }
}

function giga(value: number): string {
  return (value / 1e9).toFixed(2)
}
