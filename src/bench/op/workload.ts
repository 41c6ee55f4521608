// The operations that `ingot bench --ops` times: which, how large, and the least that each must move and do. Plain data, since every
// contender gets it through a channel; what an operation is in terms of a library is each contender's own business.

import { norm } from '../../kernel/reduce/norm.ts'
import { softmax } from '../../kernel/reduce/softmax.ts'

/** Operations by name, with what their sizes mean. */
export const OP_SIZES = {
  add: ['elements'],
  mul: ['elements'],
  relu: ['elements'],
  /** of two square matrices */
  matmul: ['side'],
  softmax: ['rows', 'columns'],
  /** with a weight */
  rmsNorm: ['rows', 'columns'],
  /** with a weight and a bias */
  layerNorm: ['rows', 'columns'],
  /** of all elements */
  sum: ['elements'],
  max: ['elements'],
  sumRows: ['rows', 'columns'],
  sumColumns: ['rows', 'columns'],
  argmaxRows: ['rows', 'columns'],
  /** xW + (xA)B * 2 with constant weights: x [rows, side], W [side, side], A [side, rank], B [rank, side] */
  lora: ['rows', 'side', 'rank'],
  /** softmax and cumulative sum of a row by turns, which nothing fuses; the values are read */
  rowChain: ['elements', 'count'],
  /** x + 1, x * 0.5 by turns; the values are read */
  mapChain: ['elements', 'count'],
} as const satisfies Record<string, readonly string[]>

export type OpName = keyof typeof OP_SIZES

export interface OpWork {
  readonly op: OpName
  readonly sizes: readonly number[]
}

export interface OpLine {
  readonly name: string
  readonly work: OpWork
  /** moved at least: every input read once, every output written once; 0 where that says nothing */
  readonly bytes: number
  /** done at least; a multiplication with its addition is two */
  readonly operations: number
  /** operations of a run: what is shown is the time of one */
  readonly count: number
  /** planned ahead, where a contender can; or never */
  readonly way?: 'compiled' | 'eager'
  /** also measured with --quick */
  readonly quick: boolean
}

const F32 = 4 // bytes

type Cost = Pick<OpLine, 'bytes' | 'operations'>
const line = (name: string, op: OpName, sizes: readonly number[], cost: Cost, quick = true): OpLine => ({
  name,
  work: { op, sizes },
  ...cost,
  count: 1,
  quick,
})
/** bytes of so many elements in and out, and operations */
const cost = (elements: number, operations: number): Cost => ({ bytes: F32 * elements, operations })
const short = (n: number): string => (n >= 1e6 ? `${n / 1e6}M` : n >= 1e4 ? `${n / 1e3}K` : String(n))

const VECTORS = [10_000, 1_000_000]
const LORA = { rows: 128, rank: 8 } as const

function chain(name: string, op: 'rowChain' | 'mapChain', elements: number, count: number, way: 'compiled' | 'eager'): OpLine {
  return { name, work: { op, sizes: [elements, count] }, bytes: 0, operations: 0, count, way, quick: true }
}

export const OP_LINES: readonly OpLine[] = [
  ...VECTORS.flatMap((n) => [
    line(`add ${short(n)}`, 'add', [n], cost(3 * n, n)),
    line(`mul ${short(n)}`, 'mul', [n], cost(3 * n, n)),
    line(`relu ${short(n)}`, 'relu', [n], cost(2 * n, n)),
  ]),
  ...[256, 512, 1024, 2048].map((n) => line(`matmul ${n}`, 'matmul', [n], cost(3 * n * n, 2 * n ** 3), n === 256 || n === 1024)),
  ...[
    [128, 2048],
    [1, 32_000],
  ].map(([rows = 1, cols = 1]) =>
    line(`softmax ${rows}x${cols}`, 'softmax', [rows, cols], cost(2 * rows * cols, softmax.cost({ rows, cols }).operations)),
  ),
  ...(['rms', 'layer'] as const).map((kind) => {
    const [rows, cols] = [128, 2048]
    const { operations } = norm.cost({ kind, rows, cols, eps: 1e-5, weight: true, bias: kind === 'layer' })
    return line(
      `${kind}Norm ${rows}x${cols}`,
      `${kind}Norm`,
      [rows, cols],
      cost((2 * rows + (kind === 'layer' ? 2 : 1)) * cols, operations),
    )
  }),
  line('sum 1M', 'sum', [1e6], cost(1e6, 1e6)),
  line('max 1M', 'max', [1e6], cost(1e6, 1e6)),
  line('sum of rows 1024x1024', 'sumRows', [1024, 1024], cost(1025 * 1024, 1024 * 1024), false),
  line('sum of columns 1024x1024', 'sumColumns', [1024, 1024], cost(1025 * 1024, 1024 * 1024)),
  line('argmax of rows 1024x1024', 'argmaxRows', [1024, 1024], cost(1025 * 1024, 1024 * 1024)),
  ...[512, 1024, 2048].map((side) => {
    const { rows, rank } = LORA
    const least = cost(2 * rows * side + side * side + 2 * side * rank, 2 * rows * side * (side + 2 * rank + 1))
    return line(`lora ${rows}x${side} r${rank}`, 'lora', [rows, side, rank], least, side === 1024)
  }),
  chain('compiled 1000 x 64', 'rowChain', 64, 1000, 'compiled'),
  chain('eager 20 x 64', 'rowChain', 64, 20, 'eager'),
  chain('eager 20 maps x 64', 'mapChain', 64, 20, 'eager'),
  chain('eager 1 map x 64', 'mapChain', 64, 1, 'eager'),
]

/**
 * Element i of input number `which`: from -0.75 to 1.25, no two alike within ten thousand, with sums that do not cancel out. The same as
 * in bench/peers/ops/input.js.
 */
export function inputValue(i: number, which: number): number {
  return ((i * 7919 + which * 104_729) % 10_007) / 5003 - 0.75
}
