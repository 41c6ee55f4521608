// Times a linear layer on a device: as the library's mat-vec or mat-mat, and with packed weights and int8 activations where the
// device prefers them. Weights are real blocks, one row repeated.

import type { BufferHandle, Device } from '../src/device/device.ts'
import { matmul } from '../src/kernel/matmul.ts'
import { MATVEC_ROWS, matvec } from '../src/kernel/matvec.ts'
import { packedLinear } from '../src/kernel/packed-linear.ts'
import { quantize8, quantizedWords } from '../src/kernel/quantize8.ts'
import type { Work } from '../src/kernel/record.ts'
import { packedBytes, packedOf, repack } from '../src/kernel/repack.ts'
import { GGML_TYPES, type GgmlType } from '../src/quant/type.ts'
import { randomBlocks } from '../test/kernel/block.ts'
import { type Timing, commandsOf, time, upload } from './lab.ts'

export interface LinearTiming extends Timing {
  readonly device: string
  /** `plain` reads the format as stored; `packed` has int8 activations and rows side by side */
  readonly form: 'plain' | 'packed'
  readonly format: string
  readonly m: number
  readonly k: number
  readonly n: number
  /** of the weight, as this form reads it */
  readonly weightBytes: number
}

const FLOATS: Readonly<Record<string, number>> = { f32: 4, f16: 2, bf16: 2 }

/** One timing per form that the device has; none where the weight is larger than it takes. */
export async function timeLinear(device: Device, format: string, [m, k]: readonly [number, number], n: number, samples: number): Promise<LinearTiming[]> {
  const { block, bytes } = GGML_TYPES[format as GgmlType]
  const weightBytes = (m * k / block) * bytes
  if (k % block !== 0 || weightBytes > device.caps.bindingBytes) return []
  const common = { device: device.name, format, m, k, n }
  const params = { format, m, k, n, bias: false }
  const live: BufferHandle[] = []
  const keep = (buffer: BufferHandle): BufferHandle => { live.push(buffer); return buffer }
  try {
    const x = keep(upload(device, new Uint8Array(Float32Array.from({ length: n * k }, (_, i) => Math.sin(i)).buffer)))
    const w = keep(upload(device, weightOf(format, m, k, weightBytes)))
    const y = keep(device.alloc(4 * n * m))
    const plain = (n > MATVEC_ROWS ? matmul : matvec).work(device.caps, params)
    const scratch = Object.fromEntries(Object.entries(plain.scratch ?? {}).map(([name, size]) => [name, keep(device.alloc(size))]))
    const timings: LinearTiming[] = [{ ...common, form: 'plain', weightBytes, ...await time(device, await commandsOf(device, plain, { x, w, y, ...scratch }), samples) }]
    if (!device.caps.dot || packedOf(format, k) === undefined) return timings
    const packed = keep(device.alloc(packedBytes(params)))
    const quantised = keep(device.alloc(4 * quantizedWords(n, k)))
    await device.submit(await commandsOf(device, repack(params), { w, y: packed }))
    const commands = [
      ...await commandsOf(device, quantize8.work(device.caps, { n, k }), { x, y: quantised }),
      ...await commandsOf(device, packedLinear(device.caps, params) satisfies Work, {
        x: quantised, floats: quantised, w: packed, bytes: packed, signed: packed, halves: packed, y,
      }),
    ]
    return [...timings, { ...common, form: 'packed', weightBytes: packedBytes(params), ...await time(device, commands, samples) }]
  } finally {
    for (const buffer of live) device.free(buffer)
  }
}

function weightOf(format: string, m: number, k: number, bytes: number): Uint8Array {
  let seed = 1
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647
  const element = FLOATS[format]
  // 1.0 in every one of these: 3f 80 is the upper half of the f32, 3c 00 the half
  const row = element === undefined ? randomBlocks(format as GgmlType, k, random)
    : format === 'f16' ? new Uint8Array(Uint16Array.from({ length: k }, () => 0x3c00).buffer)
      : format === 'bf16' ? new Uint8Array(Uint16Array.from({ length: k }, () => 0x3f80).buffer) : new Uint8Array(Float32Array.from({ length: k }, random).buffer)
  const all = new Uint8Array(bytes)
  for (let i = 0; i < m; i++) all.set(row, i * row.length)
  return all
}
