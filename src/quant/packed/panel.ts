// Blocks in two steps, where bytes multiply into pairs of 16-bit sums (Caps.pairs). First the quants of a block become bytes, which stay
// in the nearest cache: a panel. Then every tile of columns is multiplied with it: nothing is decoded twice, products are added in 16 bits
// while they fit, and the factors of sub-blocks are multiplied in on the way to 32 bits. Activations are above -128 (kernel/linear).

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { PACKED_ROWS, type PackedTile, zeros } from './packed.ts'

/** The part of a tile that says what the weights are. */
export type PackedWeights = Pick<PackedTile, 'width' | 'quants' | 'bytes' | 'halves' | 'words'>
/** Keeps a vector for word `at + plus` of a panel. */
export type Put<T extends 'u32' | 'i32'> = (at: Value<'u32'>, plus: number, value: VectorOf<T>) => void

/** How blocks of a format become panels, and what is done with their products. */
export interface Panel {
  /** words of quants of a row in a block: four weights each, in the order of the activations */
  readonly words: number
  /** weights that share a factor; all of the block if not given: then it has none */
  readonly per?: 16 | 32
  /** bytes of the panel are signed; else below 128 */
  readonly signed: boolean
  /** greatest size of such a byte */
  readonly largest: number
  /** The bytes of a block, `width` rows of it. */
  quants(k: LaneScope, weights: PackedWeights, group: number, put: Put<'u32'>): void
  /** Its factors, of no more than 16 bits. */
  factors?(k: LaneScope, weights: PackedWeights, group: number, put: Put<'i32'>): void
  /** Adds the products of this block's rows with the columns' activations to every sum. */
  multiply(k: LaneScope, tile: PanelTile): void
}

/** A tile whose weights are in a panel. */
export interface PanelTile extends PackedTile {
  /** `width` rows of a word of the panel's quants, and of its factors as pairs */
  panel(at: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>
  factors(at: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>
}

/** a and b as pairs of 16 bits of one number: 1 for sums, or a factor */
const ONES = 0x00010001
const LARGEST = 2 ** 15 - 1
const LARGEST_ACTIVATION = 127

/** Words of a panel of one block: quants, then factors. */
export function panelWords({ words, per }: Panel): { quants: number; factors: number } {
  return { quants: PACKED_ROWS * words, factors: per === undefined ? 0 : (PACKED_ROWS * words * 4) / per }
}

/** A factor as a pair. */
export function paired(factor: VectorOf<'i32'>): VectorOf<'u32'> {
  return factor.as('u32').and(0xffff).or(factor.as('u32').shl(16))
}

/** Words of quants whose products are added in 16 bits: a power of two. */
function wordsTogether({ per, words, largest }: Panel): number {
  const fitting = LARGEST / (2 * LARGEST_ACTIVATION * largest)
  const sharing = per === undefined ? words : per / 4
  return [8, 4, 2, 1].find((count) => count <= fitting && count <= sharing) ?? 1
}

/** Products of `count` words from word `at` on with all columns, times their factors: [group][column]. */
export function dotPanel(k: LaneScope, tile: PanelTile, panel: Panel, at: Value<'u32'>, count: number): VectorOf<'i32'>[][] {
  const { width, sums } = tile
  const together = wordsTogether(panel)
  const perFactor = (panel.per ?? 0) / 4
  const ones = k.const('u32', ONES).splat(width)
  // Variables, since the order is what keeps registers few: a word of the weights, a column's activations, and on.
  const pairs = sums.map((columns) => columns.map(() => k.var('pairs', k.const('u32', 0).splat(width))))
  const totals = sums.map((columns) => columns.map(() => k.var('total', zeros(k, width))))
  for (let word = 0; word < count; word++) {
    const isFirst = word % together === 0
    const quants = sums.map((_, group) => k.let('quants', tile.panel(at, word, group)))
    item(sums, 0).forEach((_, column) => {
      const a = k.let('a', tile.activations(column, at, word).splat(width))
      quants.forEach((q, group) => {
        const product = panel.signed ? a.pairsI8(q) : q.pairsU7I8(a)
        const sum = item(item(pairs, group), column)
        if (together > 1) sum.set(isFirst ? product : sum.get().addPairs(product))
        else {
          const total = item(item(totals, group), column)
          total.set(
            product.dotI16(perFactor === 0 ? ones : tile.factors(at.div(perFactor), Math.floor(word / perFactor), group), total.get()),
          )
        }
      })
    })
    if (together === 1 || (word + 1) % together !== 0) continue
    pairs.forEach((columns, group) => {
      const factor = perFactor === 0 ? ones : k.let('factor', tile.factors(at.div(perFactor), Math.floor(word / perFactor), group))
      columns.forEach((sum, column) => {
        const total = item(item(totals, group), column)
        total.set(sum.get().dotI16(factor, total.get()))
      })
    })
  }
  return totals.map((columns) => columns.map((total) => total.get()))
}

/** The same for a block of 256, of which each quarter has a scale of its activations; `finish` adds the rest and the scales of rows. */
export function multiply256(
  k: LaneScope,
  tile: PanelTile,
  panel: Panel,
  finish: (group: number) => (column: number, total: VectorOf<'f32'>, before: VectorOf<'f32'>) => VectorOf<'f32'>,
): void {
  const { width, sums } = tile
  const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width))))
  k.for({ name: 'quarter', to: 4 }, (quarter) => {
    const totals = dotPanel(k, tile, panel, k.let('at', quarter.mul(16)), 16)
    item(sums, 0).forEach((_, column) => {
      const scale = k.let('scale', tile.scale(column, quarter).splat(width))
      parts.forEach((columns, group) => {
        const part = item(columns, column)
        part.set(item(item(totals, group), column).to('f32').fma(scale, part.get()))
      })
    })
  })
  sums.forEach((columns, group) => {
    const add = finish(group)
    columns.forEach((sum, column) => sum.set(add(column, item(item(parts, group), column).get(), sum.get())))
  })
}

/** sum + the products of signed bytes, the first above -128. */
export function dotSigned(k: LaneScope, width: Width): (a: VectorOf<'u32'>, b: VectorOf<'u32'>, sum: VectorOf<'i32'>) => VectorOf<'i32'> {
  return (a, b, sum) => a.pairsI8(b).dotI16(k.const('u32', ONES).splat(width), sum)
}
