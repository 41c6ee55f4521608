// Products of matrices: squares in all four transpositions, batches as attention has them, sizes that fit no tile, small ones, and matrices
// times vectors. All but the last are bound by arithmetic.
// `node lab/run.js gemm [--device cpu,wasm,webgpu] [--threads 2] [--only nn,1024] [--rounds 9] [--quick] [--json]`

import type { ElementType } from '../src/kernel/matmul/element.ts'
import { matmul } from '../src/kernel/matmul/matmul.ts'
import { type Entry, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

/** Which of a and b lie in memory transposed, as BLAS calls it. */
const WAYS = { nn: [false, false], nt: [false, true], tn: [true, false], tt: [true, true] } as const
type Way = keyof typeof WAYS
const ALL = ['nn', 'nt', 'tn', 'tt'] as const satisfies readonly Way[]

interface Options {
  readonly count?: number
  readonly type?: ElementType
  readonly quick?: boolean
}

/** [m, k] times [k, n]. */
function product(way: Way, m: number, k: number, n: number, { count = 1, type = 'f32', quick = false }: Options = {}): Entry {
  const [transposeA, transposeB] = WAYS[way]
  const batch = count === 1 ? [] : [{ size: count, strideA: m * k, strideB: k * n }]
  const facts = { kernel: type === 'f32' ? way : `${way} ${type}`, shape: `${count === 1 ? '' : `${count} x `}${m}x${k}x${n}`, quick }
  return entryOf(matmul, { type, m, n, k, transposeA, transposeB, batch, bias: false }, facts)
}

export const entries = [
  ...[512, 1024, 2048].flatMap((side) => ALL.map((way) => product(way, side, side, side, { quick: side === 512 }))),
  ...ALL.map((way) => product(way, 128, 128, 128, { count: 32, quick: way === 'nn' })),
  product('nt', 512, 64, 512, { count: 12, quick: true }),
  product('nn', 512, 512, 64, { count: 12, quick: true }),
  ...ALL.map((way) => product(way, 1000, 777, 513, { quick: way === 'nn' })),
  ...[16, 32, 64, 128, 256].map((side) => product('nn', side, side, side)),
  ...(['f16', 'bf16'] as const).map((type) => product('nn', 512, 512, 512, { type })),
  ...ALL.flatMap((way) => [1, 4, 16].flatMap((few) => [product(way, few, 2048, 2048), product(way, 2048, 2048, few)])),
]

export const main = experiment(entries)
