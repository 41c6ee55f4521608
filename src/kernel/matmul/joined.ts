// Two products in one sum: where a product of matrices adds up along l, it can go on along the columns of u [rows, rank] times v. That is
// how a low-rank change of a weight is added in the kernel that multiplies with the weight. v lies as the weight does: as [columns, rank]
// where rows of the weight go along l, else as [rank, columns].

import { buffer, uniform } from '../../ir/author.ts'
import type { LaneScope, Readable } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import type { Arrays, BufferShape } from '../family.ts'
import type { Source } from './stage.ts'

type U32 = Value<'u32'>

/** The buffers of u and v; with rank 0 there are none. */
export function joinedBuffers(rank: number, rows: number, columns: number): BufferShape[] {
  if (rank === 0) return []
  return [
    { name: 'u', role: 'in', type: 'f32', elements: rows * rank },
    { name: 'v', role: 'in', type: 'f32', elements: rank * columns },
  ]
}

/** Parameters of kernels that may be told a rank of 0, and then read neither. */
export const JOINED_PARAMS = { u: buffer('f32', 'read'), v: buffer('f32', 'read'), rank: uniform('u32') }

/** Parameters of kernels that are written with or without them. */
export const joinedParams = (joined: boolean): Partial<typeof JOINED_PARAMS> => (joined ? JOINED_PARAMS : {})

/** What such kernels see where there are none. */
export function joinedBinds(rank: number, other: string): { readonly u?: string; readonly v?: string } {
  return rank === 0 ? { u: other, v: other } : {}
}

/** Element [row, column] of u times v, in plain terms; `columns` are those of v where it lies as [rank, columns]. */
export function defineJoined({ u, v }: Arrays, row: number, column: number, rank: number, columns?: number): number {
  let sum = 0
  for (let l = 0; l < rank; l++)
    sum += (u?.[row * rank + l] ?? 0) * (v?.[columns === undefined ? column * rank + l : l * columns + column] ?? 0)
  return sum
}

/** u and v as a kernel has them. */
export interface Joined<U extends Uniformity = Uniformity> {
  readonly u: Readable<'f32', Uniformity>
  readonly v: Readable<'f32', Uniformity>
  readonly rank: Value<'u32', U>
}

/** What a kernel was given, if it was written with them. */
export function joinedOf<U extends Uniformity>({ u, v, rank }: Partial<Joined<U>>): Joined<U> | undefined {
  return u === undefined || v === undefined || rank === undefined ? undefined : { u, v, rank }
}

/** Rows of u or of v, of which there are so many, along the rank. */
export function joinedRows(rank: U32, memory: Joined['u'], rows: U32): Source {
  return { element: formatOf('f32').element, memory, rows, inner: rank, turned: false, aligned: false, ragged: true }
}

/** The steps of a rank that are left from one on, at most so many: whole multiples of `unit`. */
export function stepsLeft<U extends Uniformity>(
  k: LaneScope,
  rank: Value<'u32', U>,
  from: Value<'u32', U>,
  most: number,
  unit: number,
): Value<'u32', U | 'uniform'> {
  const left = rank.sub(from).min(most)
  return k.let('left', left.add(unit - 1).div(unit).mul(unit)) // prettier-ignore
}

/** Something that is added up. */
export interface Sum {
  get(): Value<'f32'>
  set(value: Value<'f32'>): void
}

/** Step `l` of a rank for some rows of v, which are columns of y, and some rows of u; `sums` are by row of v, then of u. */
export function addJoined(
  { u, v, rank }: Joined,
  l: U32,
  rowsOfV: readonly U32[],
  rowsOfU: readonly U32[],
  sums: readonly (readonly Sum[])[],
): void {
  const factors = rowsOfU.map((row) => u.at(row.mul(rank).add(l)))
  rowsOfV.forEach((row, i) => {
    const value = v.at(row.mul(rank).add(l))
    factors.forEach((factor, j) => {
      const sum = sums[i]?.[j]
      sum?.set(value.fma(factor, sum.get()))
    })
  })
}
