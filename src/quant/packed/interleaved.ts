// The packed layout of blocks of 256 whose quants are interleaved: a word holds the same four places of four sub-blocks of 32, in bits of
// its own for each (Q2_K, Q3_K, Q6_K, and what is brought into that form at load). Scales belong to 16 weights, to 32, or to all 256; what
// is taken from the quants to make them signed goes with the sums of the activations, and so do the minimums of a format that has them.

import type { Vector } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import {
  type Field,
  type Packed,
  type PackedTile,
  SUMS,
  type WordQuants,
  type Sum,
  byteOf,
  multiplyStretch,
  shifted,
  zeros,
} from './packed.ts'

/** Sub-blocks of a half block, which share their words; those whose activations share a scale. */
const PAIRS = [
  [0, 1],
  [2, 3],
] as const

export interface Interleaved {
  /** of quants: all that `quantsOf` reads */
  readonly quants: readonly Field[]
  /** of scales: half d, half dmin if there are minimums, then the words of scales */
  readonly scales: readonly Field[]
  /** weights that share a scale */
  readonly per: 16 | 32 | 256
  /** a scale is a signed byte, an unsigned one, or the low four bits of one; absent where there is only d */
  readonly scale?: 'signed' | 'unsigned' | 'nibble'
  /** what was added to the quants to make them unsigned; or the minimums are the high four bits of the scales' bytes */
  readonly offset: number | 'minimums'
  /** d is to be multiplied with this, if not 1 */
  readonly unit?: number
  /** blocks whose scales lie together */
  readonly run: number
  readonly streamed?: true
  /** sub-blocks that are multiplied together where registers are few; 0 and 1, then 2 and 3 if not given */
  readonly together?: readonly (readonly number[])[]
  /** Words `at + word` (0..7 of a half block, `at` is 0 or 4) in some of its four sub-blocks, as unsigned bytes below 128. */
  quantsOf(tile: PackedTile, half: Value<'u32'>, at: Value<'u32'>, group: number): WordQuants
}

export function interleaved(format: Interleaved): Packed {
  const { quants, scales, run, streamed } = format
  return {
    block: 256,
    quants,
    scales,
    run,
    scaled: 256,
    ...(streamed === undefined ? {} : { streamed }),
    multiply: (k, tile) => multiply(k, tile, format),
  }
}

/** Quants of two bits. */
export const twoBits: Interleaved['quantsOf'] = (tile, half, at, group) => (word, subs) => {
  const bits = tile.quants(half.mul(8).add(at), word, group)
  return subs.map((sub) => shifted(bits, -2 * sub).and(0x03030303))
}

/** Where the words of scales begin in a block's scales, in bytes: behind one or two rows of halves. */
function wordsAt({ offset }: Interleaved): number {
  return offset === 'minimums' ? 64 : 32
}

function multiply(k: LaneScope, tile: PackedTile, format: Interleaved): void {
  const { width, sums } = tile
  const { offset, unit = 1 } = format
  const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width))))
  k.for({ name: 'half', to: 2 }, (half) => multiplyHalf(k, tile, format, half, parts))
  sums.forEach((columns, group) => {
    const d = k.let('d', unit === 1 ? tile.halves(0, group) : tile.halves(0, group).mul(unit))
    const dmin = offset === 'minimums' ? k.let('dmin', tile.halves(32, group)) : undefined
    const scales = allScales(k, tile, format, group)
    columns.forEach((sum, column) => {
      const least = dotSums(k, tile, format, column, scales).to('f32')
      const total = item(item(parts, group), column).get()
      if (dmin === undefined) {
        const taken = least.mul(tile.sumScale(column).mul(Number(offset)).splat(width))
        sum.set(total.sub(taken).fma(d, sum.get()))
      } else {
        sum.set(total.fma(d, sum.get()).sub(least.mul(dmin).mul(tile.sumScale(column).splat(width))))
      }
    })
  })
}

/** A sum over a block without the scales of its rows: [group][column]. */
type Parts = readonly (readonly Sum[])[]

/** Places of a half block that have one scale in each sub-block: all 32, or the first or last 16 (`late`); `at` is their first word. */
function eachPlaces(
  k: LaneScope,
  { per }: Interleaved,
  words: readonly Var<Vector<'u32'>>[],
  body: (at: Value<'u32'>, words: number) => void,
): void {
  if (per !== 16) return body(k.const('u32', 0), 8)
  k.for({ name: 'late', to: 2 }, (late) => {
    body(late.mul(4), 4)
    for (const word of words) word.set(word.get().shr(8)) // bytes 0 and 2 are of the first places, 1 and 3 of the others
  })
}

/** Words with the scales of a half block, in each group: their bytes are of the first places, as `factorOf` finds them. */
function scaleWords(k: LaneScope, tile: PackedTile, format: Interleaved, half: Value<'u32'>): Var<Vector<'u32'>>[][] {
  const { per, scale } = format
  if (scale === undefined) return tile.sums.map(() => [])
  const count = per === 16 ? 2 : 1
  return tile.sums.map((_, group) =>
    Array.from({ length: count }, (_, plus) => {
      const word = tile.words(half.mul(count), plus, wordsAt(format), group)
      return k.var('scales', scale === 'nibble' ? word.and(0x0f0f0f0f) : word)
    }),
  )
}

/** The scale of a sub-block. */
function factorOf(words: readonly Var<Vector<'u32'>>[], { per, scale }: Interleaved, sub: number): VectorOf<'i32'> {
  const signed = scale === 'signed'
  return per === 16 ? byteOf(item(words, sub >> 1).get(), 2 * (sub % 2), signed) : byteOf(item(words, 0).get(), sub, signed)
}

/** As much as has one scale at a time. */
function multiplyHalf(k: LaneScope, tile: PackedTile, format: Interleaved, half: Value<'u32'>, parts: Parts): void {
  const words = scaleWords(k, tile, format, half)
  eachPlaces(k, format, words.flat(), (at, count) => {
    const totals = multiplyStretch(k, tile, {
      words: count,
      sums: PAIRS,
      ...(format.together === undefined ? {} : { together: format.together }),
      small: true,
      quants: (group) => format.quantsOf(tile, half, at, group),
      activations: (sub) => tile.activations(half.mul(32).add(at), 8 * sub),
      ...(format.scale === undefined ? {} : { scale: (group: number, sub: number) => factorOf(item(words, group), format, sub) }),
    })
    parts.forEach((columns, group) =>
      columns.forEach((part, column) =>
        item(item(totals, group), column).forEach((total, late) => {
          part.set(total.fma(tile.scale(column, half.mul(2).add(late)).splat(tile.width), part.get()))
        }),
      ),
    )
  })
}

/** The bytes that the sums of activations are multiplied with: all scales of the block, or its minimums. */
function allScales(k: LaneScope, tile: PackedTile, format: Interleaved, group: number): VectorOf<'u32'>[] {
  const { per, offset, scale } = format
  if (scale === undefined) return [0, 1].map(() => k.const('u32', 0x01010101).splat(tile.width))
  return Array.from({ length: per === 16 ? 4 : 2 }, (_, index) => {
    const word = tile.words(k.const('u32', 0), index, wordsAt(format), group)
    return k.let('scales', offset === 'minimums' ? word.shr(4).and(0x0f0f0f0f) : word)
  })
}

/** Sum of a column's activations times such bytes. */
function dotSums(
  k: LaneScope,
  tile: PackedTile,
  { per, scale }: Interleaved,
  column: number,
  bytes: readonly VectorOf<'u32'>[],
): VectorOf<'i32'> {
  const [high, low] = per === 16 ? [SUMS.high16, SUMS.low16] : [SUMS.high32, SUMS.low32]
  const word = (index: number): VectorOf<'u32'> => tile.sums256(column, index).splat(tile.width)
  const start = zeros(k, tile.width)
  const upper = bytes.reduce(
    (sum, four, i) => (scale === 'signed' ? word(high + i).dotI8(four, sum) : four.dotU7I8(word(high + i), sum)),
    start,
  )
  return bytes.reduce(
    (sum, four, i) => (scale === 'signed' ? word(low + i).dotU7I8(four, sum) : four.dotU7I8(word(low + i), sum)),
    upper.shl(SUMS.shift),
  )
}
