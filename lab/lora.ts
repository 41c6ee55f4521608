// A linear layer with a low-rank change, whose products are joined, against the same two products kept apart and added: both as plans, in
// turns. What counts is the ratio, which must not exceed 1 but for noise.
// `node lab/run.js lora [--device cpu,wasm,webgpu] [--threads 2] [--only q4_k,2048] [--rounds 9] [--quick] [--json]`

import { median } from '../src/bench/statistics.ts'
import type { Device } from '../src/device/device.ts'
import { openCpu } from '../src/device/cpu/cpu.ts'
import { webgpu } from '../src/device/webgpu/webgpu.ts'
import { packedBytes, packedOf } from '../src/kernel/linear/repack.ts'
import { sideBySide } from '../src/quant/packed/packed.ts'
import { type GgmlType, tensorBytes } from '../src/quant/type.ts'
import { type Plan, assignment, buildPlan } from '../src/tensor/plan.ts'
import { Storage } from '../src/tensor/storage.ts'
import { Tensor } from '../src/tensor/tensor.ts'
import { parseOptions } from './measure/options.ts'

/** x [rows, side] times a weight [side, side] with a change of some rank. */
interface Case {
  readonly format: GgmlType
  readonly rows: number
  readonly side: number
  readonly rank: number
  readonly quick: boolean
}

const SIDES = [512, 1024, 2048]
const RANKS = [4, 8, 16, 32, 64]
const CASES: readonly Case[] = [
  ...SIDES.flatMap((side) => [128, side].map((rows) => ({ format: 'f32', rows, side, rank: 8, quick: side === 512 }) as const)),
  ...RANKS.map((rank) => ({ format: 'f32', rows: 128, side: 1024, rank, quick: true }) as const),
  ...(['q8_0', 'q4_k'] as const).flatMap((format) => [
    ...SIDES.map((side) => ({ format, rows: 128, side, rank: 8, quick: side === 1024 })),
    ...RANKS.map((rank) => ({ format, rows: 1, side: 1024, rank, quick: rank === 8 })),
    ...[4, 64].map((rank) => ({ format, rows: 128, side: 1024, rank, quick: false })),
  ]),
]
/** Bytes everywhere that are no NaN and nothing subnormal, as floats, halves or scales of any format. */
const FILLING = 0x3c
/** A sample takes about this long. */
const SAMPLE_MS = 60
const SCALE = 2

const OPENERS: Readonly<Record<string, (threads: number | undefined) => Promise<Device>>> = {
  cpu: (threads) => openCpu({ blas: { library: 'off' }, ...(threads === undefined ? {} : { threads }) }),
  wasm: (threads) => openCpu({ level: 'wasm', ...(threads === undefined ? {} : { threads }) }),
  webgpu: () => webgpu.open(),
}

/** What run.js calls. */
export async function main(args: readonly string[]): Promise<void> {
  const { devices, threads, only, quick, rounds, json } = parseOptions(args)
  const nameOf = ({ format, rows, side, rank }: Case): string => `${format} ${rows}x${side}x${side} r${rank}`
  const chosen = CASES.filter((each) => (only.length > 0 ? only.some((text) => nameOf(each).includes(text)) : each.quick || !quick))
  const results: unknown[] = []
  for (const name of devices) {
    const open = OPENERS[name]
    if (open === undefined) throw new Error(`--device knows ${Object.keys(OPENERS).join(', ')}, got ${name}`)
    const device = await open(threads)
    if (!json) process.stdout.write(`${name}: ${device.detail}\n`)
    for (const each of chosen) {
      for (const packed of packedOf(each.format, each.side) !== undefined && device.caps.dot ? [true, false] : [false]) {
        if (!packed && each.rows === 1 && device.caps.dot && each.format !== 'f32') continue // never run there
        const { joined, apart, ratio } = await compare(device, each, packed, rounds)
        const title = `${nameOf(each)}${packed ? ' packed' : ''}`
        if (json) results.push({ device: name, case: title, joined, apart, ratio })
        else process.stdout.write(`  ${title.padEnd(34)} ${show(joined)} joined ${show(apart)} apart   ratio ${ratio.toFixed(3)}\n`)
      }
    }
    await device.close()
  }
  if (json) process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`)
}

const show = (ms: number): string => `${ms.toFixed(3)} ms`.padStart(12)

async function compare(device: Device, { format, rows, side, rank }: Case, isPacked: boolean, rounds: number) {
  const buffers: ReturnType<Device['alloc']>[] = []
  const place = async (bytes: number): Promise<ReturnType<Device['alloc']>> => {
    const size = Math.ceil(bytes / 16) * 16
    const buffer = device.alloc(size)
    buffers.push(buffer)
    await device.submit([{ kind: 'fill', to: { buffer }, bytes: size, value: FILLING }])
    return buffer
  }
  const floats = async (...shape: number[]): Promise<Tensor> => Tensor.over(await place(4 * shape.reduce((a, b) => a * b)), shape, 'f32')
  const bytes = isPacked ? packedBytes({ format, m: side, k: side }) : tensorBytes(format, [side, side])
  const weight = Tensor.leaf(new Storage(isPacked ? 'packed' : 'plain', await place(bytes)), [side, side], format)
  const [x, a, b] = [await floats(rows, side), await floats(rank, side), await floats(side, rank)]
  // Loaders lay B as the rows of the weight lie.
  const beside = isPacked ? (await floats(...sideBySide(side, rank))).permute(0, 2, 1).reshape(side, rank) : b
  const y = await floats(rows, side)
  const joined = await buildPlan(device, { effects: [assignment(y, x.lora(weight, a, beside, SCALE))] })
  // What lies in between keeps them apart.
  const change = x.linear(a).mul(SCALE).linear(b).stopGradient()
  const apart = await buildPlan(device, { effects: [assignment(y, x.linear(weight).add(change))] })
  const times = { joined: [] as number[], apart: [] as number[] }
  const count = Math.max(1, Math.round(SAMPLE_MS / (await timeOf(apart, 2))))
  await timeOf(joined, count)
  for (let round = 0; round < rounds; round++) {
    times.joined.push(await timeOf(joined, count))
    times.apart.push(await timeOf(apart, count))
  }
  for (const plan of [joined, apart]) plan[Symbol.dispose]()
  for (const buffer of buffers) device.free(buffer)
  const ratio = median(times.joined.map((time, i) => time / times.apart[i]!))
  return { joined: median(times.joined), apart: median(times.apart), ratio }
}

/** Milliseconds of a run. */
async function timeOf(plan: Plan, count: number): Promise<number> {
  const start = performance.now()
  for (let i = 0; i < count; i++) await plan.run()
  return (performance.now() - start) / count
}
