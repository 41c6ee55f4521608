// The micro-kernel of products on CPUs: a tile of y, some rows by some vectors of columns, is summed in registers while l goes along what
// was packed (pack.ts). Each number of a is multiplied with vectors of b; no sum runs across the lanes of a vector.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import type { Packed, Panels } from './pack.ts'

type U32 = Value<'u32'>

/** The sums of a tile, and how far l goes in a round. */
export interface TileShape {
  readonly width: Width
  readonly rows: number
  readonly vectors: number
  readonly unroll: number
}

/**
 * Sums, the vectors of b and a number of a must fit the registers, and there must be more sums than additions under way at a time: 6 x 2 in
 * 16 registers, 12 x 2 in 32. WebAssembly engines load all that a round takes before they multiply, so it is one l there, and 4 x 2.
 */
export function tileShape({ width, registers = 16 }: Caps): TileShape {
  if (registers >= 32) return { width, rows: 12, vectors: 2, unroll: 2 }
  return width > 4 ? { width, rows: 6, vectors: 2, unroll: 2 } : { width, rows: 4, vectors: 2, unroll: 1 }
}

/** Sums, by row and vector. */
export type Sums = readonly (readonly Var<`f32x${Width}`>[])[]

/** Sums over `length` steps of l, whole rounds: rows of `block` from `row` on, times the panel that begins with `column`. */
export function multiplyTile(
  k: LaneScope,
  { width, rows, vectors, unroll }: TileShape,
  block: Packed,
  row: U32,
  panel: Panels,
  column: U32,
  length: U32,
): Sums {
  const sums = Array.from({ length: rows }, () => Array.from({ length: vectors }, () => k.var('sum', k.const('f32', 0).splat(width))))
  const [left, right] = [k.let('left', row.mul(block.pitch)), k.let('right', column.mul(panel.pitch))]
  k.for({ name: 'l', to: length, step: unroll }, (l) => {
    // All else is a constant, and becomes part of the instructions' addresses.
    const [a, b] = [k.let('a', left.add(l)), k.let('b', right.add(l.mul(panel.lanes)))]
    for (let u = 0; u < unroll; u++) {
      const columns = Array.from({ length: vectors }, (_, v): VectorOf<'f32'> => {
        return k.let('columns', panel.memory.load(b.add(u * panel.lanes + v * width), width))
      })
      sums.forEach((ofRow, r) => {
        const value: VectorOf<'f32'> = k.let('value', block.memory.at(a.add(r * block.pitch + u)).splat(width))
        ofRow.forEach((sum, v) => sum.set(item(columns, v).fma(value, sum.get())))
      })
    }
  })
  return sums
}
