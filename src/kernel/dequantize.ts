// The values of a weight in any block format, as f32. Each lane decodes runs of 32.

import type { Caps } from '../base/caps.ts'
import { buffer, kernel, uniform } from '../ir/author.ts'
import { CHUNK } from '../quant/format.ts'
import { formatOf } from '../quant/index.ts'
import type { KernelRecord, Work } from './record.ts'

export interface DequantizeParams {
  readonly format: string
  readonly elements: number
}

const LANES = 64
/** chunks of one workgroup where lanes are loops */
const SERIAL = 64

export const dequantize: KernelRecord<DequantizeParams> = {
  name: 'dequantize',
  about: 'values of a weight in any block format',
  tolerance: 0,
  cases: [
    { format: 'q4_k', elements: 1024 },
    ...['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q5_k', 'q6_k', 'mxfp4', 'f16', 'bf16'].map((format) => ({ format, elements: 2304 })),
  ],
  buffers: ({ format, elements }) => [
    { name: 'w', role: 'in', type: format, elements },
    { name: 'y', role: 'out', type: 'f32', elements },
  ],
  work,
  define: ({ w }) => ({ y: Float32Array.from(w as Float32Array) }),
}

function work(caps: Caps, { format, elements }: DequantizeParams): Work {
  const { storage, decode } = formatOf(format)
  const lanes = caps.lanes === 1 ? 1 : LANES
  const each = caps.lanes === 1 ? SERIAL : LANES
  const chunks = elements / CHUNK
  const written = kernel(
    `dequantize_${format}`,
    {
      params: { w: buffer(storage, 'read'), y: buffer('f32x4', 'write'), chunks: uniform('u32') },
      workgroup: [lanes],
    },
    ({ w, y, chunks: count }, k) => {
      const first = k.let('first', k.workgroupId.x.mul(each))
      k.for({ name: 'c', from: first.add(k.lane), to: first.add(each).min(count), step: lanes }, (chunk, body) => {
        decode(body, w, chunk).forEach((values, i) => y.set(chunk.mul(CHUNK / 4).add(i), values))
      })
    },
  )
  return { launches: [{ kernel: written, uniforms: { chunks }, grid: [Math.ceil(chunks / each), 1, 1] }] }
}
