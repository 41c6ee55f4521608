// The packed layout of blocks of 256 whose eight sub-blocks of 32 come in pairs: a word holds four places of both, the even one in the
// low nibbles. Q4_K and Q5_K have six bits of scale and minimum for each sub-block, as in the file: scales are 16 halves d, 16 halves
// dmin, then three words. IQ4_XS has signed scales, two words of bytes, and values from a table.

import type { Vector, Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { NARROW, dotNarrow, narrowGroups } from './narrow.ts'
import { type Field, type Packed, type PackedTile, SUMS, copied, zeros } from './packed.ts'
import { type PackedWeights, type Panel, multiply256 } from './panel.ts'

/** Quants of word `word + t` (0..7) of a pair of sub-blocks: four weights of the even one, and four of the odd one. */
type Quants = (tile: PackedWeights, pair: Value<'u32'>, word: Value<'u32'>, t: number, group: number) => [VectorOf<'u32'>, VectorOf<'u32'>]

interface Pairs {
  readonly quants: Quants
  /** quants stay below 128 */
  readonly small: boolean
  /** the greatest of them */
  readonly largest: number
  /** the scales of the eight sub-blocks, a byte each */
  readonly signed: boolean
  scalesOf(k: LaneScope, tile: PackedWeights, group: number): Eight
  /** Takes from the sum of a column what goes with the sums of its activations, and adds the rest to what there is. */
  finish(
    k: LaneScope,
    tile: PackedTile,
    group: number,
    scales: Eight,
    bias?: 0,
  ): (column: number, total: VectorOf<'f32'>, before: VectorOf<'f32'>) => VectorOf<'f32'>
}

/** With scales and minimums of six bits. `fields`: where the quants lie, and what the format has besides; `largest`: quant. */
export function packedK(fields: readonly Field[], largest: number, quants: Quants): Packed {
  return pairs(fields, [copied(0, 2, 1), copied(2, 2, 1), copied(4, 4, 3)], {
    quants,
    small: true,
    largest,
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
    largest: 255,
    signed: true,
    scalesOf: (k, tile, group) => {
      const word = (index: number): VectorOf<'u32'> => k.let('scales', tile.words(k.const('u32', 0), index, 32, group))
      return [word(0), word(1)]
    },
    finish(k, tile, group, eight, none) {
      const d = k.let('d', tile.halves(0, group))
      if (none === 0) return (_column, total, before) => total.fma(d, before)
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
      const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width))))
      k.for({ name: 'pair', to: 4 }, (pair) => {
        if (width <= NARROW) multiplyFew(k, tile, format, pair, scales, parts)
        else sums.forEach((_, group) => multiplyPair(k, tile, format, pair, item(scales, group), item(parts, group), group))
      })
      sums.forEach((columns, group) => {
        const finish = format.finish(k, tile, group, item(scales, group))
        columns.forEach((sum, column) => sum.set(finish(column, item(item(parts, group), column).get(), sum.get())))
      })
    },
    panel: panelOf(format),
  }
}

/** Bytes from 128 on become signed, by taking away their bias, which is 128. */
function panelOf(format: Pairs): Panel {
  const { quants, small, largest, signed } = format
  const panel: Panel = {
    words: 64,
    per: 32,
    signed: !small,
    largest: small ? largest : 128,
    quants(k, weights, group, put) {
      k.for({ name: 'pair', to: 4 }, (pair) => {
        for (let t = 0; t < 8; t++) {
          quants(weights, pair, k.const('u32', 0), t, group).forEach((q, odd) =>
            put(pair.mul(16), 8 * odd + t, small ? q : q.xor(0x80808080)),
          )
        }
      })
    },
    factors(k, weights, group, put) {
      const scales = format.scalesOf(k, weights, group)
      k.for({ name: 'pair', to: 4 }, (pair) =>
        ofPair(k, scales, pair, weights.width, signed).forEach((scale, odd) => put(pair.mul(2), odd, scale)),
      )
    },
    multiply: (k, tile) =>
      multiply256(k, tile, panel, (group) =>
        format.finish(k, tile, group, format.scalesOf(k, tile, group), ...(small ? [] : [0 as const])),
      ),
  }
  return panel
}

/** A sum over a block without the scales of its rows. */
type PartialSum = Var<Vector<'f32'>>
/** Bytes of eight sub-blocks, in two words. */
type Eight = readonly [VectorOf<'u32'>, VectorOf<'u32'>]

/** Scales (`which` 0) or minimums (1), which have six bits: four are whole, the upper two bits of the others fill up the bytes of these. */
function sixBits(k: LaneScope, tile: PackedWeights, group: number, which: 0 | 1): Eight {
  const word = (index: number): VectorOf<'u32'> => tile.words(k.const('u32', 0), index, 64, group)
  const first = k.let('sixes', word(which))
  const lower = which === 0 ? word(2) : word(2).shr(4)
  return [k.let('early', first.and(0x3f3f3f3f)), k.let('late', lower.and(0x0f0f0f0f).or(first.shr(2).and(0x30303030)))]
}

/** The two scales of a pair of sub-blocks. */
function ofPair(k: LaneScope, [early, late]: Eight, pair: Value<'u32'>, width: Width, signed: boolean): [VectorOf<'i32'>, VectorOf<'i32'>] {
  const both = k.let('both', pair.lt(2).select(early, late).shr(pair.and(1).mul(16).splat(width)))
  if (signed) return [both.shl(24).as('i32').shr(24), both.shl(16).as('i32').shr(24)]
  return [both.and(255).as('i32'), both.shr(8).and(255).as('i32')]
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

function multiplyPair(
  k: LaneScope,
  tile: PackedTile,
  { quants, small, signed }: Pairs,
  pair: Value<'u32'>,
  scales: Eight,
  parts: readonly PartialSum[],
  group: number,
): void {
  const { width } = tile
  const dots = parts.map(() => [zeros(k, width), zeros(k, width)])
  for (let t = 0; t < 8; t++) {
    const [low, high] = quants(tile, pair, k.const('u32', 0), t, group)
    dots.forEach((dot, column) => {
      const [a, b] = [t, 8 + t].map((place) => tile.activations(column, pair.mul(16), place).splat(width)) as [
        VectorOf<'u32'>,
        VectorOf<'u32'>,
      ]
      dot[0] = small ? low.dotU7I8(a, item(dot, 0)) : low.dotU8I8(a, item(dot, 0))
      dot[1] = small ? high.dotU7I8(b, item(dot, 1)) : high.dotU8I8(b, item(dot, 1))
    })
  }
  const factors = ofPair(k, scales, pair, width, signed).map((scale) => k.let('factor', scale.to('f32')))
  parts.forEach((part, column) => {
    const both = item(item(dots, column), 1)
      .to('f32')
      .fma(item(factors, 1), item(item(dots, column), 0).to('f32').mul(item(factors, 0)))
    part.set(both.fma(tile.scale(column, pair).splat(width), part.get()))
  })
}

/** The same for all groups where registers are narrow. */
function multiplyFew(
  k: LaneScope,
  tile: PackedTile,
  { quants, small, signed }: Pairs,
  pair: Value<'u32'>,
  scales: readonly Eight[],
  parts: readonly (readonly PartialSum[])[],
): void {
  for (const groups of narrowGroups(tile, 2)) {
    const dots = dotNarrow(k, tile, groups, {
      steps: 8,
      words: 1,
      subs: 2,
      small,
      quants: (word, plus, group) => quants(tile, pair, word, plus, group),
      activations: (column, sub, word, plus) => tile.activations(column, pair.mul(16).add(word), 8 * sub + plus),
    })
    groups.forEach((group, g) => {
      const factors = ofPair(k, item(scales, group), pair, tile.width, signed).map((scale) => k.let('factor', scale))
      item(parts, group).forEach((part, column) => {
        const [even, odd] = factors.map((factor, half) => item(item(item(dots, g), column), half).mul(factor)) as [
          VectorOf<'i32'>,
          VectorOf<'i32'>,
        ]
        part.set(even.add(odd).to('f32').fma(tile.scale(column, pair).splat(tile.width), part.get()))
      })
    })
  }
}
