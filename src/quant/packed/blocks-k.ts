// The packed layout of blocks of 256 whose eight sub-blocks of 32 come in pairs: a word holds four places of both, the even one in the
// low nibbles. Q4_K and Q5_K have six bits of scale and minimum for each sub-block, as in the file: scales are 16 halves d, 16 halves
// dmin, then three words. IQ4_XS has signed scales, two words of bytes, and values from a table.

import type { Vector } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type Field, type Packed, type PackedTile, SUMS, byteOf, copied, multiplyStretch, zeros } from './packed.ts'

/** Quants of the words 0..7 of a pair of sub-blocks: four weights of the even one, and four of the odd one. */
type Quants = (tile: PackedTile, pair: Value<'u32'>, group: number) => (word: number) => [VectorOf<'u32'>, VectorOf<'u32'>]

interface Pairs {
  readonly quants: Quants
  /** quants stay below 128 */
  readonly small: boolean
  /** the scales of the eight sub-blocks, a byte each */
  readonly signed: boolean
  scalesOf(k: LaneScope, tile: PackedTile, group: number): Eight
  /** Takes from the sum of a column what goes with the sums of its activations, and adds the rest to what there is. */
  finish(
    k: LaneScope,
    tile: PackedTile,
    group: number,
    scales: Eight,
  ): (column: number, total: VectorOf<'f32'>, before: VectorOf<'f32'>) => VectorOf<'f32'>
}

/** With scales and minimums of six bits. `fields`: where the quants lie, and what the format has besides. */
export function packedK(fields: readonly Field[], quants: Quants): Packed {
  return pairs(fields, [copied(0, 2, 1), copied(2, 2, 1), copied(4, 4, 3)], {
    quants,
    small: true,
    signed: false,
    scalesOf: (k, tile, group) => sixBits(k, tile, group, 0),
    finish(k, tile, group) {
      const minimums = sixBits(k, tile, group, 1)
      const [d, dmin] = [k.let('d', tile.halves(0, group)), k.let('dmin', tile.halves(32, group))]
      return (column, total, before) => {
        const least = dotSums(k, tile, column, minimums, false).to('f32')
        return total.fma(d, before).sub(least.mul(dmin).mul(tile.sumScale(column).splat(tile.width)))
      }
    },
  })
}

/** With signed scales, and quants to which `bias` was added. `scales`: two words of bytes. */
export function packedSigned(fields: readonly Field[], scales: Field, bias: number, quants: Quants): Packed {
  return pairs(fields, [copied(0, 2, 1), scales], {
    quants,
    small: false,
    signed: true,
    scalesOf: (k, tile, group) => {
      const word = (index: number): VectorOf<'u32'> => k.let('scales', tile.words(k.const('u32', 0), index, 32, group))
      return [word(0), word(1)]
    },
    finish(k, tile, group, eight) {
      const d = k.let('d', tile.halves(0, group))
      return (column, total, before) => {
        const least = dotSums(k, tile, column, eight, true).to('f32')
        return total.sub(least.mul(tile.sumScale(column).mul(bias).splat(tile.width))).fma(d, before)
      }
    },
  })
}

function pairs(quants: readonly Field[], scaleFields: readonly Field[], format: Pairs): Packed {
  return {
    block: 256,
    quants,
    scales: scaleFields,
    run: 1,
    scaled: 256,
    multiply(k, tile) {
      const { width, sums } = tile
      const scales = sums.map((_, group) => format.scalesOf(k, tile, group))
      const current = scales.map(([early]) => k.var('scales', early)) // of the pair at hand, and those after it in its half of the block
      const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width))))
      k.for({ name: 'half', to: 2 }, (half) => {
        k.for({ name: 'odd', to: 2 }, (odd) => {
          const pair = k.let('pair', half.mul(2).add(odd))
          multiplyPair(k, tile, format, pair, current, parts)
          for (const two of current) two.set(two.get().shr(16))
        })
        current.forEach((two, group) => two.set(item(scales, group)[1]))
      })
      sums.forEach((columns, group) => {
        const finish = format.finish(k, tile, group, item(scales, group))
        columns.forEach((sum, column) => sum.set(finish(column, item(item(parts, group), column).get(), sum.get())))
      })
    },
  }
}

/** A sum over a block without the scales of its rows. */
type PartialSum = Var<Vector<'f32'>>
/** Bytes of eight sub-blocks, in two words. */
type Eight = readonly [VectorOf<'u32'>, VectorOf<'u32'>]

/** Scales (`which` 0) or minimums (1), which have six bits: four are whole, the upper two bits of the others fill up the bytes of these. */
function sixBits(k: LaneScope, tile: PackedTile, group: number, which: 0 | 1): Eight {
  const word = (index: number): VectorOf<'u32'> => tile.words(k.const('u32', 0), index, 64, group)
  const first = k.let('sixes', word(which))
  const lower = which === 0 ? word(2) : word(2).shr(4)
  return [k.let('early', first.and(0x3f3f3f3f)), k.let('late', lower.and(0x0f0f0f0f).or(first.shr(2).and(0x30303030)))]
}

/** Sum of a column's activations times the minimums or scales of their sub-blocks. */
function dotSums(k: LaneScope, tile: PackedTile, column: number, bytes: Eight, signed: boolean): VectorOf<'i32'> {
  const word = (index: number): VectorOf<'u32'> => tile.sums256(column, index).splat(tile.width)
  const start = zeros(k, tile.width)
  const high = bytes.reduce((sum, four, i) => {
    const sums = word(SUMS.high32 + i)
    return signed ? sums.dotI8(four, sum) : four.dotU7I8(sums, sum)
  }, start)
  return bytes.reduce((sum, four, i) => {
    const sums = word(SUMS.low32 + i)
    return signed ? sums.dotU7I8(four, sum) : four.dotU7I8(sums, sum)
  }, high.shl(SUMS.shift))
}

/** Adds the products of a pair of sub-blocks, whose scales are the first two bytes of `scales`. */
function multiplyPair(
  k: LaneScope,
  tile: PackedTile,
  { quants, small, signed }: Pairs,
  pair: Value<'u32'>,
  scales: readonly Var<Vector<'u32'>>[],
  parts: readonly (readonly PartialSum[])[],
): void {
  const totals = multiplyStretch(k, tile, {
    words: 8,
    sums: [[0, 1]],
    small,
    quants: (group) => quants(tile, pair, group),
    activations: (sub) => tile.activations(pair.mul(16), 8 * sub),
    scale: (group, sub) => byteOf(item(scales, group).get(), sub, signed),
  })
  parts.forEach((columns, group) =>
    columns.forEach((part, column) => {
      const [total] = item(item(totals, group), column)
      if (total !== undefined) part.set(total.fma(tile.scale(column, pair).splat(tile.width), part.get()))
    }),
  )
}
