// What the experiments share: options, devices, synchronised timing, tables. Knows no kernel.

import type { BufferHandle, Command, Device } from '../src/device/device.ts'
import { openCpu } from '../src/device/cpu/cpu.ts'
import { webgpu } from '../src/device/webgpu/webgpu.ts'
import { buffersOf, packUniforms } from '../src/ir/kernel.ts'
import type { Work } from '../src/kernel/record.ts'
import { FORMATS } from '../src/quant/index.ts'

export interface Options {
  readonly json: boolean
  readonly devices: readonly string[]
  readonly formats: readonly string[]
  /** rows and columns of the weight */
  readonly sizes: readonly (readonly [m: number, k: number])[]
  readonly samples: number
}

const OPENERS: Readonly<Record<string, () => Promise<Device>>> = {
  cpu: () => openCpu(),
  wasm: () => openCpu({ level: 'wasm' }),
  'cpu-1': () => openCpu({ threads: 1 }),
  webgpu: () => webgpu.open(),
}
const SIZES = '2048x2048,5632x2048,32000x2048'

/** `--device cpu,webgpu --format q4_k --size 2048x2048 --samples 9 --json` */
export function parseOptions(args: readonly string[]): Options {
  const value = (name: string, otherwise: string): string[] => {
    const at = args.indexOf(`--${name}`)
    return (at < 0 ? otherwise : args[at + 1] ?? '').split(',')
  }
  const sizes = value('size', SIZES).map((text) => {
    const [m = Number.NaN, k = Number.NaN] = text.split('x').map(Number)
    if (!Number.isInteger(m) || !Number.isInteger(k)) throw new Error(`--size wants ROWSxCOLUMNS, got ${text}`)
    return [m, k] as const
  })
  const formats = value('format', FORMATS.map(({ name }) => name).join(','))
  return { json: args.includes('--json'), devices: value('device', 'cpu,webgpu'), formats, sizes, samples: Number(value('samples', '9')[0]) }
}

/** The devices asked for that are here; says which are not. */
export async function openDevices(names: readonly string[]): Promise<Device[]> {
  const devices: Device[] = []
  for (const name of names) {
    const open = OPENERS[name]
    if (open === undefined) throw new Error(`--device knows ${Object.keys(OPENERS).join(', ')}, got ${name}`)
    try {
      devices.push(await open())
    } catch (error) {
      process.stderr.write(`${name}: ${String(error)}\n`)
    }
  }
  return devices
}

/** Dispatches of a work with its buffers bound by name. */
export async function commandsOf(device: Device, { launches }: Work, buffers: Readonly<Record<string, BufferHandle>>): Promise<Command[]> {
  return Promise.all(launches.map(async ({ kernel, uniforms, grid }): Promise<Command> => ({
    kind: 'dispatch', program: await device.compile(kernel), grid, uniforms: packUniforms(kernel, uniforms),
    buffers: buffersOf(kernel).map(({ name }) => ({ buffer: buffers[name]! })),
  })))
}

export interface Timing {
  /** seconds of one run: the median of the samples, the best, and how far the middle half is spread */
  readonly median: number
  readonly best: number
  readonly spread: number
  readonly samples: number
}

/** Samples last at least this long, so that a clock and a submission do not matter. */
const LEAST_SECONDS = 0.02
const MOST_REPEATS = 1000

/** Times commands: warmed up, repeated within one submission, every sample waited for. */
export async function time(device: Device, commands: readonly Command[], samples: number): Promise<Timing> {
  await timeRepeated(device, commands, 1, 1)
  const [first] = await timeRepeated(device, commands, 1, 1)
  const repeats = Math.min(MOST_REPEATS, Math.max(1, Math.ceil(LEAST_SECONDS / first!)))
  const seconds = await timeRepeated(device, commands, repeats, samples)
  seconds.sort((a, b) => a - b)
  const at = (part: number): number => seconds[Math.floor(part * (seconds.length - 1))]!
  return { median: at(0.5), best: at(0), spread: (at(0.75) - at(0.25)) / at(0.5), samples }
}

/** Seconds of one run of the commands, for each sample; one more goes before them. */
async function timeRepeated(device: Device, commands: readonly Command[], repeats: number, samples: number): Promise<number[]> {
  const recording = device.record(Array.from({ length: repeats }, () => commands).flat())
  const seconds: number[] = []
  for (let sample = -1; sample < samples; sample++) {
    const start = performance.now()
    await device.submit(recording)
    if (sample >= 0) seconds.push((performance.now() - start) / 1000 / repeats)
  }
  recording[Symbol.dispose]()
  return seconds
}

export function upload(device: Device, bytes: Uint8Array): BufferHandle {
  const buffer = device.alloc(Math.ceil(bytes.length / 16) * 16)
  const STEP = 64 * 2 ** 20
  for (let at = 0; at < bytes.length; at += STEP) device.write(buffer, at, bytes.subarray(at, at + STEP))
  return buffer
}

/** Rows of cells, aligned; the first row is the head. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) process.stdout.write(`${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ').trimEnd()}\n`)
}
