// y [n, m] = x [n, k] times w [m, k] transposed, for many rows of x (prefill). Weights are decoded once per tile.
// Forms: 8x8 matrix tiles of a subgroup fed through workgroup memory; tiles of registers fed the same way; on CPUs one lane decodes a few
// rows of w into scratch and takes all rows of x along them.

import type { Caps } from '../base/caps.ts'
import { type LinearParams, defineLinear, linearBuffers } from './linear-params.ts'
import { matmulRegisters } from './matmul-registers.ts'
import { matmulSerial } from './matmul-serial.ts'
import { matmulTiles } from './matmul-tiles.ts'
import type { KernelRecord, Work } from './record.ts'

export const matmul: KernelRecord<LinearParams> = {
  name: 'matmul',
  about: 'many vectors times a weight matrix of any format',
  tolerance: 5e-7,
  cases: [
    { format: 'q4_k', m: 64, k: 256, n: 32, bias: false },
    { format: 'q4_k', m: 67, k: 512, n: 45, bias: true },
    ...['q4_0', 'q8_0', 'q6_k', 'mxfp4'].map((format) => ({ format, m: 32, k: 256, n: 9, bias: false })),
    ...['f32', 'f16'].flatMap((format) => [
      { format, m: 83, k: 193, n: 45, bias: true },
      { format, m: 64, k: 64, n: 33, bias: false },
      { format, m: 1, k: 67, n: 12, bias: false },
    ]),
  ],
  buffers: linearBuffers,
  work,
  define: defineLinear,
}

function work(caps: Caps, params: LinearParams): Work {
  if (caps.lanes === 1) return matmulSerial(params)
  return caps.tiles && caps.subgroup === 32 ? matmulTiles(params) : matmulRegisters(params)
}
