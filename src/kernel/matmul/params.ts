// What all forms of a product of matrices share: y[.., i, j] = sum over l of a[.., i, l] * b[.., l, j], plus bias[j]. Each of a and b may
// lie in memory the other way around, and has its own strides along the axes of the batch; y is contiguous.

import { IngotError } from '../../base/error.ts'
import { type Handles, type LaneScope, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import type { Arrays, BufferShape } from '../family.ts'
import { mergeAxes } from '../map/walk.ts'
import type { ElementType } from './element.ts'

/** An axis of the batch: how many products there are along it, and the elements from one to the next. A stride of 0 repeats the matrix. */
export interface BatchAxis {
  readonly size: number
  readonly strideA: number
  readonly strideB: number
}

export interface MatmulParams {
  /** of all matrices; sums are f32 */
  readonly type: ElementType
  readonly m: number
  readonly n: number
  readonly k: number
  /** a lies in memory as [k, m], not [m, k] */
  readonly transposeA: boolean
  /** b lies in memory as [n, k], not [k, n] */
  readonly transposeB: boolean
  /** outermost first */
  readonly batch: readonly BatchAxis[]
  /** [n], added to every row */
  readonly bias: boolean
}

export function matmulBuffers({ type, m, n, k, batch, bias }: MatmulParams): BufferShape[] {
  const last = (stride: 'strideA' | 'strideB'): number => batch.reduce((sum, axis) => sum + (axis.size - 1) * axis[stride], 0)
  return [
    { name: 'a', role: 'in', type, elements: last('strideA') + m * k },
    { name: 'b', role: 'in', type, elements: last('strideB') + k * n },
    ...(bias ? [{ name: 'bias', role: 'in', type, elements: n } as const] : []),
    { name: 'y', role: 'out', type, elements: countOf(batch) * m * n },
  ]
}

/** Products of a batch. */
export function countOf(batch: readonly BatchAxis[]): number {
  return batch.reduce((count, { size }) => count * size, 1)
}

/** The meaning, whatever the form. */
export function defineMatmul({ a, b, bias }: Arrays, { m, n, k, transposeA, transposeB, batch }: MatmulParams): Arrays {
  const y = new Float32Array(countOf(batch) * m * n)
  const [rowA, stepA] = transposeA ? [1, m] : [k, 1]
  const [columnB, stepB] = transposeB ? [k, 1] : [1, n]
  for (let product = 0; product < countOf(batch); product++) {
    let [startA, startB, rest] = [0, 0, product]
    for (const { size, strideA, strideB } of batch.toReversed()) {
      startA += (rest % size) * strideA
      startB += (rest % size) * strideB
      rest = Math.floor(rest / size)
    }
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = bias?.[j] ?? 0
        for (let l = 0; l < k; l++) sum += (a?.[startA + i * rowA + l * stepA] ?? 0) * (b?.[startB + j * columnB + l * stepB] ?? 0)
        y[(product * m + i) * n + j] = sum
      }
    }
  }
  return { y }
}

/** Axes of a batch that kernels know; more are left after merging only in made-up examples. */
const AXES = 4

/** The same product with as few axes as it takes: those that are walked like one are one, and rows of a that follow each other are a's. */
export function simplify(params: MatmulParams): MatmulParams {
  const { shape, strides } = mergeAxes(
    params.batch.map(({ size }) => size),
    [params.batch.map(({ strideA }) => strideA), params.batch.map(({ strideB }) => strideB)],
  )
  const [stridesA = [], stridesB = []] = strides
  const axes = shape.map((size, axis): BatchAxis => ({ size, strideA: stridesA[axis] ?? 0, strideB: stridesB[axis] ?? 0 }))
  // which way a matrix of one row or column lies, nobody can tell
  const { m, k } = params
  const transposeA = params.transposeA && m > 1 && k > 1
  const last = axes.at(-1)
  const joins = last !== undefined && !transposeA && last.strideB === 0 && last.strideA === m * k
  const batch = (joins ? axes.slice(0, -1) : axes).filter(({ size }) => size > 1)
  if (batch.length > AXES)
    throw new IngotError('unsupported', 'too many axes', {
      op: 'matmul',
      got: params.batch.length,
      wanted: `${AXES} that cannot be merged`,
    })
  return { ...params, m: joins ? m * last.size : m, transposeA, batch }
}

/** Where the matrices of a batch begin, for kernels: sizes of all axes but the outermost, and strides of all. */
export const batchParams = {
  size: Array.from({ length: AXES - 1 }, () => uniform('u32')),
  strideA: Array.from({ length: AXES }, () => uniform('u32')),
  strideB: Array.from({ length: AXES }, () => uniform('u32')),
}

export function batchUniforms(batch: readonly BatchAxis[]): Record<string, number> {
  const missing = Array.from({ length: AXES - batch.length }, (): BatchAxis => ({ size: 1, strideA: 0, strideB: 0 }))
  const axes = [...missing, ...batch]
  return Object.fromEntries([
    ...axes.slice(1).map(({ size }, axis): [string, number] => [`size${axis}`, size]),
    ...axes.map(({ strideA }, axis): [string, number] => [`strideA${axis}`, strideA]),
    ...axes.map(({ strideB }, axis): [string, number] => [`strideB${axis}`, strideB]),
  ])
}

/** The first elements of a and b of a product of the batch. */
export function startsOf<U extends Uniformity>(
  k: LaneScope,
  { size, strideA, strideB }: Handles<typeof batchParams>,
  product: Value<'u32', U>,
): { a: Value<'u32', U | 'uniform'>; b: Value<'u32', U | 'uniform'> } {
  let rest: Value<'u32', U | 'uniform'> = product
  let a: Value<'u32', U | 'uniform'> = k.const('u32', 0)
  let b: Value<'u32', U | 'uniform'> = k.const('u32', 0)
  for (let axis = AXES - 1; axis >= 0; axis--) {
    const along = axis === 0 ? undefined : size[axis - 1]
    const index = along === undefined ? rest : rest.rem(along)
    a = a.add(index.mul(strideA[axis] ?? 0))
    b = b.add(index.mul(strideB[axis] ?? 0))
    if (along !== undefined) rest = rest.div(along)
  }
  return { a: k.let('startA', a), b: k.let('startB', b) }
}
