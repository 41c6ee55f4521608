// The values of a weight in any block format, as f32. Each lane decodes runs of 32.

import { buffer, uniform } from '../../ir/author.ts'
import { CHUNK } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { family, isCpu } from '../family.ts'
import { template } from '../template.ts'

export interface DequantizeParams {
  readonly format: string
  readonly elements: number
}

const LANES = 64
/** chunks of one workgroup where lanes are loops */
const SERIAL = 64

interface DequantizeTraits {
  readonly format: string
  readonly lanes: number
  /** runs of 32 that a workgroup decodes */
  readonly each: number
}

const runs = template<DequantizeTraits>({ family: 'dequantize', form: 'runs' }, ({ format, lanes, each }, kernel) => {
  const { storage, decode } = formatOf(format)
  const params = { w: buffer(storage, 'read'), y: buffer('f32x4', 'write'), chunks: uniform('u32') }
  return kernel(`dequantize_${format}`, { params, workgroup: [lanes] }, ({ w, y, chunks }, k) => {
    const first = k.let('first', k.workgroupId.x.mul(each))
    k.for({ name: 'c', from: first.add(k.lane), to: first.add(each).min(chunks), step: lanes }, (chunk, body) => {
      decode(body, w, chunk).forEach((values, i) => y.set(chunk.mul(CHUNK / 4).add(i), values))
    })
  })
})

export const dequantize = family<DequantizeParams>({
  name: 'dequantize',
  about: 'values of a weight in any block format',
  tolerance: () => 0,
  cases: [
    { format: 'q4_k', elements: 1024 },
    ...['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q5_k', 'q6_k', 'mxfp4', 'f16', 'bf16'].map((format) => ({ format, elements: 2304 })),
  ],
  buffers: ({ format, elements }) => [
    { name: 'w', role: 'in', type: format, elements, cold: true },
    { name: 'y', role: 'out', type: 'f32', elements },
  ],
  forms: [
    {
      name: 'runs',
      fits: () => true,
      work: (caps, { format, elements }) => {
        const chunks = elements / CHUNK
        const lanes = isCpu(caps) ? 1 : LANES
        const each = isCpu(caps) ? SERIAL : LANES
        return { launches: [{ kernel: runs({ format, lanes, each }), uniforms: { chunks }, grid: [Math.ceil(chunks / each), 1, 1] }] }
      },
    },
  ],
  cost: ({ elements }) => ({ operations: 2 * elements, arithmetic: 'f32' }),
  define: ({ w = new Float32Array() }) => ({ y: Float32Array.from(w) }),
})
