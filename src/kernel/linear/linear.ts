// y [n, m] = x [n, k] times w [m, k] transposed, plus bias [m], with w in any format as its file has it. A few rows of x are vectors
// (decoding): memory is what they wait for. Many make it a product of matrices (prompts): weights are decoded once per tile.

import { type Form, family } from '../family.ts'
import { matmulRegisters } from './matmul-registers.ts'
import { matmulPanels } from './matmul-panels.ts'
import { matmulTiles } from './matmul-tiles.ts'
import { matvecDot } from './matvec-dot.ts'
import { matvecVectors } from './matvec-vectors.ts'
import { matvecLanes, matvecSerial } from './matvec.ts'
import { type LinearParams, defineLinear, linearBuffers } from './params.ts'

const FORMS: readonly Form<LinearParams>[] = [
  matvecVectors,
  matvecSerial,
  matmulPanels,
  matvecDot,
  matvecLanes,
  matmulTiles,
  matmulRegisters,
]

export const linear = family<LinearParams>({
  name: 'linear',
  about: 'rows times a weight matrix of any format, plus a bias',
  tolerance: () => 1e-12,
  cases: [
    { format: 'q4_k', m: 64, k: 256, n: 1, bias: false },
    { format: 'q4_k', m: 67, k: 1024, n: 1, bias: true },
    { format: 'q4_k', m: 16, k: 512, n: 3, bias: false },
    { format: 'q6_k', m: 35, k: 1024, n: 1, bias: true },
    ...['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'mxfp4'].flatMap((format) => [
      { format, m: 16, k: 256, n: 1, bias: false },
      { format, m: 17, k: 96, n: 5, bias: false },
    ]),
    ...['q5_k', 'q6_k'].flatMap((format) => [1, 2, 4, 8].map((n) => ({ format, m: 16, k: 512, n, bias: false }))),
    ...['f32', 'f16', 'bf16'].flatMap((format) => [
      { format, m: 16, k: 256, n: 1, bias: false },
      { format, m: 83, k: 193, n: 1, bias: true },
      { format, m: 5, k: 67, n: 7, bias: false },
      { format, m: 1, k: 4, n: 8, bias: false },
    ]),
    { format: 'q4_k', m: 64, k: 256, n: 32, bias: false },
    { format: 'q4_k', m: 67, k: 512, n: 45, bias: true },
    ...['q4_0', 'q8_0', 'q6_k', 'mxfp4'].map((format) => ({ format, m: 32, k: 256, n: 9, bias: false })),
    ...['f32', 'f16'].flatMap((format) => [
      { format, m: 83, k: 193, n: 45, bias: true },
      { format, m: 64, k: 64, n: 33, bias: false },
      { format, m: 1, k: 67, n: 12, bias: false },
    ]),
  ],
  proofs: [
    { format: 'q4_k', m: 19, k: 512, n: 1, bias: true },
    { format: 'q4_k', m: 19, k: 256, n: 9, bias: false },
  ],
  buffers: linearBuffers,
  forms: FORMS,
  cost: ({ m, k, n }) => ({ operations: 2 * m * k * n, arithmetic: 'f32' }),
  define: defineLinear,
})
