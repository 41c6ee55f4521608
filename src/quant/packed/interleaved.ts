// The packed layout of blocks of 256 whose quants are interleaved: a word holds the same four places of four sub-blocks of 32, in bits of
// its own for each (Q2_K, Q3_K, Q6_K, and what is brought into that form at load). Scales belong to 16 weights, to 32, or to all 256; what
// is taken from the quants to make them signed goes with the sums of the activations, and so do the minimums of a format that has them.

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { NARROW, dotNarrow, narrowGroups } from './narrow.ts'
import { type Field, type Packed, type PackedTile, SUMS, zeros } from './packed.ts'
import { type PackedWeights, type Panel, dotSigned, multiply256 } from './panel.ts'

/** Sub-blocks of a half block, which share their words. */
const SUBS = 4

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
  /** greatest quant */
  readonly largest: number
  /** d is to be multiplied with this, if not 1 */
  readonly unit?: number
  /** blocks whose scales lie together */
  readonly run: number
  readonly streamed?: true
  /** Word `word + plus` (0..7) of a half block in its four sub-blocks, as unsigned bytes below 128. */
  quantsOf(tile: PackedWeights, half: Value<'u32'>, word: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>[]
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
    panel: panelOf(format),
  }
}

function panelOf(format: Interleaved): Panel {
  const { per, scale, largest } = format
  const top = per === 16 ? 2 : 1 // words of scales of a half block
  const panel: Panel = {
    words: 64,
    ...(per === 256 ? {} : { per }),
    signed: false,
    largest,
    quants(k, weights, group, put) {
      k.for({ name: 'half', to: 2 }, (half) => {
        for (let t = 0; t < 8; t++) {
          format.quantsOf(weights, half, k.const('u32', 0), t, group).forEach((q, sub) => put(half.mul(32), 8 * sub + t, q))
        }
      })
    },
    ...(scale === undefined
      ? {}
      : {
          factors(k, weights, group, put) {
            k.for({ name: 'half', to: 2 }, (half) => {
              for (let plus = 0; plus < top; plus++) {
                const word = k.let('scales', weights.words(half.mul(top), plus, wordsAt(format), group))
                for (let byte = 0; byte < 4; byte++) put(half.mul(4 * top), 4 * plus + byte, byteOf(word, byte, scale))
              }
            })
          },
        }),
    multiply: (k, tile) => multiply256(k, tile, panel, (group) => finish(k, tile, format, group, dotSigned(k, tile.width))),
  }
  return panel
}

/** Quants of two bits. */
export function twoBits(tile: PackedWeights, half: Value<'u32'>, word: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>[] {
  const bits = tile.quants(half.mul(8).add(word), plus, group)
  return [0, 1, 2, 3].map((sub) => (sub === 0 ? bits : bits.shr(2 * sub)).and(0x03030303))
}

/** Where the words of scales begin in a block's scales, in bytes: behind one or two rows of halves. */
function wordsAt({ offset }: Interleaved): number {
  return offset === 'minimums' ? 64 : 32
}

function multiply(k: LaneScope, tile: PackedTile, format: Interleaved): void {
  const { width, sums } = tile
  const { per } = format
  const words = Math.min(per, 32) / 4 // of a sub-block with one scale
  const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width))))
  k.for({ name: 'stretch', to: 256 / (SUBS * 4 * words) }, (stretch) => {
    // A stretch: as many places of a half block as have one scale in each sub-block.
    const half = words === 8 ? stretch : k.let('half', stretch.shr(1))
    const first = words === 8 ? k.const('u32', 0) : k.let('first', stretch.and(1).mul(words))
    const passes = width <= NARROW ? narrowGroups(tile, SUBS, SUBS) : sums.map((_, group) => [group])
    for (const groups of passes) {
      const dots =
        width <= NARROW
          ? dotNarrow(k, tile, groups, {
              steps: words,
              words: 1,
              subs: SUBS,
              small: true,
              quants: (word, plus, group) => format.quantsOf(tile, half, first.add(word), plus, group),
              activations: (column, sub, word, plus) => tile.activations(column, half.mul(32).add(first).add(word), 8 * sub + plus),
            })
          : groups.map((group) => dotWide(k, tile, format, half, first, words, group))
      groups.forEach((group, g) => {
        const factors = factorsOf(k, tile, format, half, stretch, group)
        item(parts, group).forEach((part, column) => {
          for (const late of [0, 1]) {
            const [even, odd] = [2 * late, 2 * late + 1]
            const [a, b] = [item(item(item(dots, g), column), even), item(item(item(dots, g), column), odd)]
            const both =
              factors === undefined ? a.add(b).to('f32') : b.to('f32').fma(item(factors, odd), a.to('f32').mul(item(factors, even)))
            part.set(both.fma(tile.scale(column, half.mul(2).add(late)).splat(width), part.get()))
          }
        })
      })
    }
  })
  sums.forEach((columns, group) => {
    const add = finish(k, tile, format, group)
    columns.forEach((sum, column) => sum.set(add(column, item(item(parts, group), column).get(), sum.get())))
  })
}

/** Takes from the sum of a column what goes with the sums of its activations, and adds the rest to what there is. */
function finish(
  k: LaneScope,
  tile: PackedTile,
  format: Interleaved,
  group: number,
  dotI8: typeof dotAny = dotAny,
): (column: number, total: VectorOf<'f32'>, before: VectorOf<'f32'>) => VectorOf<'f32'> {
  const { offset, unit = 1 } = format
  const d = k.let('d', unit === 1 ? tile.halves(0, group) : tile.halves(0, group).mul(unit))
  const dmin = offset === 'minimums' ? k.let('dmin', tile.halves(32, group)) : undefined
  const scales = allScales(k, tile, format, group)
  return (column, total, before) => {
    const least = dotSums(k, tile, format, column, scales, dotI8).to('f32')
    if (dmin === undefined) return total.sub(least.mul(tile.sumScale(column).mul(Number(offset)).splat(tile.width))).fma(d, before)
    return total.fma(d, before).sub(least.mul(dmin).mul(tile.sumScale(column).splat(tile.width)))
  }
}

/** Products of signed bytes. */
function dotAny(a: VectorOf<'u32'>, b: VectorOf<'u32'>, sum: VectorOf<'i32'>): VectorOf<'i32'> {
  return a.dotI8(b, sum)
}

/** Products of a stretch's quants with every column: [column][sub-block]. */
function dotWide(
  k: LaneScope,
  tile: PackedTile,
  { quantsOf }: Interleaved,
  half: Value<'u32'>,
  first: Value<'u32'>,
  words: number,
  group: number,
): VectorOf<'i32'>[][] {
  const dots = item(tile.sums, group).map(() => Array.from({ length: SUBS }, () => zeros(k, tile.width)))
  for (let t = 0; t < words; t++) {
    const quants = quantsOf(tile, half, first, t, group)
    dots.forEach((subs, column) =>
      quants.forEach((q, sub) => {
        const a = tile.activations(column, half.mul(32).add(first), 8 * sub + t)
        subs[sub] = q.dotU7I8(a.splat(tile.width), item(subs, sub))
      }),
    )
  }
  return dots
}

/** Scales of a stretch in its four sub-blocks; undefined where all weights of the block share one. */
function factorsOf(
  k: LaneScope,
  tile: PackedTile,
  format: Interleaved,
  half: Value<'u32'>,
  stretch: Value<'u32'>,
  group: number,
): VectorOf<'f32'>[] | undefined {
  const { per, scale } = format
  if (scale === undefined) return undefined
  const at = wordsAt(format)
  const top = per === 16 ? 2 : 1 // words of scales of a half block
  const words = Array.from({ length: top }, (_, plus) => {
    const word = tile.words(half.mul(top), plus, at, group)
    // Scales of 16 weights: bytes 0 and 2 are of the first places, 1 and 3 of the others.
    return k.let('scales', per === 16 ? word.shl(earlier(k, stretch, tile.width)) : word)
  })
  return Array.from({ length: SUBS }, (_, sub) => {
    const word = per === 16 ? item(words, sub >> 1) : item(words, 0)
    const place = per === 16 ? 1 + 2 * (sub % 2) : sub // of its byte
    return k.let('factor', byteOf(word, place, scale).to('f32'))
  })
}

/** Bits that bring the byte of the first places where that of the others is. */
function earlier(k: LaneScope, stretch: Value<'u32'>, width: Width): VectorOf<'u32'> {
  return k.const('u32', 8).sub(stretch.and(1).mul(8)).splat(width)
}

function byteOf(word: VectorOf<'u32'>, place: number, scale: NonNullable<Interleaved['scale']>): VectorOf<'i32'> {
  const high = place === 3 ? word : word.shl(24 - 8 * place)
  if (scale === 'signed') return high.as('i32').shr(24)
  const byte = high.shr(24)
  return (scale === 'nibble' ? byte.and(15) : byte).as('i32')
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
  dotI8: typeof dotAny,
): VectorOf<'i32'> {
  const [high, low] = per === 16 ? [SUMS.high16, SUMS.low16] : [SUMS.high32, SUMS.low32]
  const word = (index: number): VectorOf<'u32'> => tile.sums256(column, index).splat(tile.width)
  const start = zeros(k, tile.width)
  const upper = bytes.reduce(
    (sum, four, i) => (scale === 'signed' ? dotI8(word(high + i), four, sum) : four.dotU7I8(word(high + i), sum)),
    start,
  )
  return bytes.reduce(
    (sum, four, i) => (scale === 'signed' ? word(low + i).dotU7I8(four, sum) : four.dotU7I8(word(low + i), sum)),
    upper.shl(SUMS.shift),
  )
}
