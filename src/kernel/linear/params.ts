// What all forms of a linear layer share: y [n, m] = x [n, k] times w [m, k] transposed, plus bias [m], plus u [n, rank] times v [m, rank]
// transposed: the sums over k go on along a rank, which is how a low-rank change of a weight is added.

import { buffer, uniform } from '../../ir/author.ts'
import type { Format } from '../../quant/format.ts'
import type { Arrays, BufferShape } from '../family.ts'
import { defineJoined, joinedBuffers, joinedParams } from '../matmul/joined.ts'

export interface LinearParams {
  readonly format: string
  readonly m: number
  readonly k: number
  /** rows of x */
  readonly n: number
  readonly bias: boolean
  /** columns of u; none, or 0: there is no u */
  readonly rank?: number
}

/** Fewer rows of x than this are vectors: kernels read each weight once, and decode it in registers. */
export const MATVEC_ROWS = 8

export function linearBuffers({ format, m, k, n, bias, rank = 0 }: LinearParams): BufferShape[] {
  return [
    { name: 'x', role: 'in', type: 'f32', elements: n * k },
    { name: 'w', role: 'in', type: format, elements: m * k, cold: true },
    ...(bias ? [{ name: 'bias', role: 'in', type: 'f32', elements: m } as const] : []),
    ...joinedBuffers(rank, n, m),
    { name: 'y', role: 'out', type: 'f32', elements: n * m },
  ]
}

/** Parameters of a kernel; `aligned`: x is seen as vectors of four, since its rows are multiples of that. */
export const linearParams = ({ storage }: Format, bias: boolean, aligned: boolean, joined: boolean) => ({
  x: buffer(aligned ? 'f32x4' : 'f32', 'read'),
  w: buffer(storage, 'read'),
  ...(bias ? { bias: buffer('f32', 'read') } : {}),
  ...joinedParams(joined),
  y: buffer('f32', 'write'),
  m: uniform('u32'),
  k: uniform('u32'),
})

/** The meaning, whatever the form. */
export function defineLinear(arrays: Arrays, { m, k, n, rank = 0 }: Omit<LinearParams, 'format' | 'bias'>): Arrays {
  const { x, w, bias } = arrays
  const y = new Float32Array(n * m)
  for (let row = 0; row < n; row++) {
    for (let out = 0; out < m; out++) {
      let sum = (bias?.[out] ?? 0) + defineJoined(arrays, row, out, rank)
      for (let i = 0; i < k; i++) sum += (x?.[row * k + i] ?? 0) * (w?.[out * k + i] ?? 0)
      y[row * m + out] = sum
    }
  }
  return { y }
}
