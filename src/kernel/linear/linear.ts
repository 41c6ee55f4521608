// y [n, m] = x [n, k] times w [m, k] transposed, plus bias [m] and a product of low rank, with w in any format as its file has it.
// A few rows of x are vectors (decoding): memory is what they wait for. Many make it a product of matrices (prompts): weights are decoded
// once per tile.

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
  about: 'rows times a weight matrix of any format, plus a bias, plus a product of low rank',
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
    // sums that go on: by less than a vector, in the room of the last run, past that, and alone in a run
    { format: 'q4_k', m: 67, k: 512, n: 1, bias: true, rank: 8 },
    { format: 'q6_k', m: 35, k: 256, n: 3, bias: false, rank: 5 },
    { format: 'q4_k', m: 67, k: 512, n: 45, bias: true, rank: 8 },
    ...[1, 4, 33, 64, 70, 700].map((rank) => ({ format: 'f32', m: 83, k: 193, n: 45, bias: rank % 2 === 1, rank })),
    ...[1, 16, 64].map((rank) => ({ format: 'q8_0', m: 70, k: 256, n: 40, bias: false, rank })),
    ...['f32', 'f16'].flatMap((format) => [
      { format, m: 5, k: 67, n: 7, bias: false, rank: 9 },
      { format, m: 83, k: 192, n: 1, bias: true, rank: 4 },
      { format, m: 64, k: 320, n: 33, bias: false, rank: 8 },
    ]),
  ],
  proofs: [
    { format: 'q4_k', m: 19, k: 512, n: 1, bias: true },
    { format: 'q4_k', m: 19, k: 256, n: 9, bias: false },
    { format: 'q4_k', m: 19, k: 256, n: 9, bias: false, rank: 6 },
  ],
  buffers: linearBuffers,
  forms: FORMS,
  cost: ({ m, k, n, rank = 0 }) => ({ operations: 2 * m * (k + rank) * n, arithmetic: 'f32' }),
  define: defineLinear,
})
