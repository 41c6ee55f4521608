// Sizes worth testing: all transpositions, sizes just below, at and above those of tiles, vectors, batches with either side repeated, and
// sums and results so long that every loop has more than one round.

import type { MatmulParams } from './params.ts'

type Case = Partial<MatmulParams> & Pick<MatmulParams, 'm' | 'n' | 'k'>

const caseOf = (some: Case): MatmulParams => ({ type: 'f32', transposeA: false, transposeB: false, batch: [], bias: false, ...some })

const WAYS = [
  { transposeA: false, transposeB: false },
  { transposeA: false, transposeB: true },
  { transposeA: true, transposeB: false },
  { transposeA: true, transposeB: true },
] as const

/** b is repeated along one axis, a along another; strides are larger than matrices, or as large. */
const REPEATED = [
  { size: 3, strideA: 60, strideB: 0 },
  { size: 2, strideA: 0, strideB: 63 },
]
/** Three axes that cannot be merged. */
const MANY = [
  { size: 2, strideA: 1000, strideB: 40 },
  { size: 2, strideA: 0, strideB: 200 },
  { size: 2, strideA: 72, strideB: 0 },
]

export const MATMUL_CASES: readonly MatmulParams[] = [
  { m: 64, n: 64, k: 64 },
  ...WAYS.flatMap((way): Case[] => [
    { ...way, m: 83, n: 45, k: 193, bias: true },
    { ...way, m: 45, n: 83, k: 64 },
    { ...way, m: 7, n: 530, k: 4 },
    { ...way, m: 100, n: 18, k: 300 },
    { ...way, m: 1, n: 1, k: 1 },
    { ...way, m: 1, n: 67, k: 45 },
    { ...way, m: 67, n: 1, k: 45 },
    { ...way, m: 9, n: 17, k: 1 },
    { ...way, m: 3, n: 40, k: 29, bias: true },
    { ...way, m: 40, n: 3, k: 29, bias: true },
    { ...way, m: 6, n: 7, k: 9, batch: REPEATED },
    { ...way, m: 8, n: 4, k: 9, batch: MANY },
    { ...way, type: 'f16', m: 35, n: 37, k: 41, bias: true },
    { ...way, type: 'bf16', m: 35, n: 37, k: 41, bias: true },
  ]),
  ...[
    [5, 15, 31],
    [6, 16, 32],
    [7, 17, 33],
    [11, 31, 63],
    [12, 32, 64],
    [13, 33, 65],
    [24, 24, 96],
  ].flatMap(([m = 1, n = 1, k = 1]): Case[] => [
    { m, n, k },
    { m, n, k, transposeA: true, transposeB: true },
  ]),
  // vectors, long and with a bias
  { m: 1, n: 300, k: 7, bias: true },
  { m: 1, n: 2100, k: 3 },
  { m: 4, n: 2100, k: 3 },
  { m: 300, n: 1, k: 9, bias: true },
  { m: 300, n: 1, k: 9, bias: true, transposeA: true },
  { m: 2, n: 3, k: 300, transposeB: true },
  // a matrix for all of the batch, which is one product of more rows; the same matrix of a; no axis that counts
  { m: 5, n: 20, k: 16, batch: [{ size: 7, strideA: 80, strideB: 0 }] },
  { m: 5, n: 20, k: 16, batch: [{ size: 3, strideA: 0, strideB: 320 }], bias: true },
  { m: 5, n: 20, k: 16, batch: [{ size: 1, strideA: 0, strideB: 0 }], transposeA: true },
  { m: 1, n: 9, k: 12, batch: [{ size: 4, strideA: 12, strideB: 108 }], transposeB: true },
  // sums that are kept elsewhere until they are whole
  ...(['f16', 'bf16'] as const).flatMap((type): Case[] => [
    { type, m: 20, n: 33, k: 300 },
    { type, m: 200, n: 9, k: 260, transposeA: true, bias: true },
    { type, m: 3, n: 270, k: 257, transposeB: true },
    { type, m: 6, n: 7, k: 9, batch: REPEATED },
  ]),
].map(caseOf)
