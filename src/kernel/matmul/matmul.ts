// y [.., m, n] = a [.., m, k] times b [.., k, n], plus bias [n], for tensors: either may lie in memory the other way around, and be
// repeated along axes of the batch. Weights of a model, which have formats of their own, are multiplied by linear.

import { family } from '../family.ts'
import { MATMUL_CASES } from './case.ts'
import { matmulTiles } from './matrix-tiles.ts'
import { matmulPanels } from './panels.ts'
import { type MatmulParams, countOf, defineMatmul, matmulBuffers } from './params.ts'
import { matmulRegisters } from './registers.ts'
import { matmulDots, matmulSums } from './vectors.ts'

/** f16 has eleven bits, bf16 eight. */
const TOLERANCE = { f32: 1e-12, f16: 1e-7, bf16: 5e-6 } as const

export const matmul = family<MatmulParams>({
  name: 'matmul',
  about: 'products of matrices, transposed or not, in batches',
  tolerance: ({ type }) => TOLERANCE[type],
  cases: MATMUL_CASES,
  buffers: matmulBuffers,
  forms: [matmulDots, matmulSums, matmulPanels, matmulTiles, matmulRegisters],
  cost: ({ m, n, k, batch }) => ({ operations: 2 * countOf(batch) * m * n * k, arithmetic: 'f32' }),
  define: defineMatmul,
})
