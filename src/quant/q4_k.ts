// Q4_K: 256 weights in 144 bytes: half d, half dmin, 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles.
// Sub-block s (32 weights): y = d*sc[s]*q - dmin*m[s]. Each 32 bytes of nibbles hold sub-block 2g low and 2g+1 high.

import type { Width } from '../base/dtype.ts'
import type { LaneScope, Var } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { encodeBlocks } from './encode.ts'
import { rangedSuperEncoder } from './encode-k.ts'
import type { Format, Weights } from './format.ts'
import { NARROW, dotNarrow, narrowGroups } from './narrow.ts'
import { type Packed, type PackedOut, SUMS, type Tile, joinHalves, spread, zeros } from './packed.ts'

const WORDS = 144 / 4

/** The 6-bit scale and minimum of sub-block `sub`, out of three words of packed scales. */
export function scaleAndMin(w: Weights<'u32'>, first: Value<'u32'>, sub: Value<'u32'>): { scale: Value<'u32'>; min: Value<'u32'> } {
  // Bytes 0-3: scales 0-3 in 6 bits, bytes 4-7: minimums 0-3; bytes 8-11: low nibbles of scale and minimum 4-7, whose
  // upper two bits sit in the top of bytes 0-7.
  const shift = sub.and(3).mul(8)
  const byteOf = (word: number): Value<'u32'> => w.at(first.add(word)).shr(shift).and(255)
  const [a, b, c] = [byteOf(0), byteOf(1), byteOf(2)]
  const high = sub.ge(4)
  return {
    scale: high.select(c.and(15).or(a.shr(6).shl(4)), a.and(63)),
    min: high.select(c.shr(4).or(b.shr(6).shl(4)), b.and(63)),
  }
}

export const q4_k: Format<'u32'> = {
  name: 'q4_k',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const d = w.at(block).unpackF16()
    const { scale, min } = scaleAndMin(w, block.add(1), sub)
    const factor = k.let('factor', d.lane(0).mul(scale.to('f32')))
    const offset = k.let('offset', d.lane(1).mul(min.to('f32')))
    const nibble = sub.and(1).mul(4)
    const quants = block.add(4).add(sub.shr(1).mul(8))
    return Array.from({ length: 8 }, (_, i) => {
      const q = w.at(quants.add(i)).shr(nibble).and(0x0f0f0f0f).unpackU8()
      return q.to('f32').mul(factor).sub(offset)
    })
  },
  packed: {
    ...packedK(WORDS, 4, 2048, (tile, pair, word, t, group) => {
      const q = tile.quants(pair.mul(8).add(word), t, group)
      return [q.and(0x0f0f0f0f), q.shr(4).and(0x0f0f0f0f)]
    }),
    streamed: true,
  },
  encode: (values) => encodeBlocks('q4_k', values, encodeBlock),
}

const encodeBlock = rangedSuperEncoder(15, putNibbles)

/** The low four bits of 256 quants. */
export function putNibbles(quants: Uint8Array, out: Uint8Array, at: number): void {
  for (let i = 0; i < 128; i++) {
    const even = ((i >> 5) << 6) + (i & 31)
    out[at + i] = (quants[even]! & 15) | ((quants[even + 32]! & 15) << 4)
  }
}

/** Quants of word `word + t` (0..7) of a pair of sub-blocks: four weights of the even one, and four of the odd one. */
type Quants = (tile: Tile, pair: Value<'u32'>, word: Value<'u32'>, t: number, group: number) => [Value<'u32x16'>, Value<'u32x16'>]

/**
 * The packed layout of Q4_K and Q5_K. Scales: 16 halves d, 16 halves dmin, then the three words of scales and minimums of each row as the
 * file has them. Quants: the words of `qs` as they are, then what the format has besides.
 */
export function packedK(words: number, quantWord: number, quantBytes: number, quants: Quants): Packed<'u32'> {
  return {
    block: 256,
    quantBytes,
    scaleBytes: 64 + 3 * 64,
    run: 1,
    scaled: 256,
    pack(k, w, rows, out) {
      const first = rows.map((row) => k.let('first', row.mul(words)))
      k.for({ name: 'word', to: 32 }, (word) => first.forEach((at, r) => out.quant(word, r, w.at(at.add(word).add(quantWord)))))
      packScales(k, w, first, out)
    },
    multiply(k, tile) {
      const { width, sums } = tile
      const scales = sums.map((_, group) => sixBits(k, tile, group, 0))
      const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width)) as unknown as Part))
      k.for({ name: 'pair', to: 4 }, (pair) => {
        if (width <= NARROW) multiplyFew(k, tile, quants, pair, scales, parts)
        else sums.forEach((_, group) => multiplyPair(k, tile, quants, pair, scales[group]!, parts[group]!, group))
      })
      sums.forEach((columns, group) => {
        const minimums = sixBits(k, tile, group, 1)
        const [d, dmin] = [k.let('d', tile.halves(0, group)), k.let('dmin', tile.halves(32, group))]
        columns.forEach((sum, column) => {
          const least = dotSums(k, tile, column, minimums)
          const total = parts[group]![column]!.get().fma(d, sum.get())
          sum.set(
            total.sub(
              least
                .to('f32')
                .mul(dmin)
                .mul(spread(tile.sumScale(column), width)),
            ),
          )
        })
      })
    },
  }
}

/** A sum over a block without the scales of its rows. */
type Part = Var<'f32x16'>
/** Bytes of eight sub-blocks, in two words. */
type Eight = readonly [Value<'u32x16'>, Value<'u32x16'>]

/** Scales (`which` 0) or minimums (1), which have six bits: four are whole, the upper two bits of the others fill up the bytes of these. */
function sixBits(k: LaneScope, tile: Tile, group: number, which: 0 | 1): Eight {
  const word = (index: number): Value<'u32x16'> => tile.words(k.const('u32', 0), index, 64, group)
  const first = k.let('sixes', word(which))
  const lower = which === 0 ? word(2) : word(2).shr(4)
  return [k.let('early', first.and(0x3f3f3f3f)), k.let('late', lower.and(0x0f0f0f0f).or(first.shr(2).and(0x30303030)))]
}

/** The two scales of a pair of sub-blocks, as unsigned integers. */
function ofPair(k: LaneScope, [early, late]: Eight, pair: Value<'u32'>, width: Width): [Value<'u32x16'>, Value<'u32x16'>] {
  const both = k.let(
    'both',
    pair
      .lt(2)
      .select(early, late)
      .shr(spread(pair.and(1).mul(16), width)),
  )
  return [both.and(255), both.shr(8).and(255)]
}

/** Sum of a column's activations times the minimums of their sub-blocks. */
function dotSums(k: LaneScope, tile: Tile, column: number, minimums: Eight): Value<'i32x16'> {
  const dot = (index: number): Value<'i32x16'> =>
    minimums.reduce((sum, four, i) => four.dotU7I8(spread(tile.sums256(column, index + i), tile.width), sum), zeros(k, tile.width))
  return dot(SUMS.high32).shl(SUMS.shift).add(dot(SUMS.low32))
}

function multiplyPair(
  k: LaneScope,
  tile: Tile,
  quants: Quants,
  pair: Value<'u32'>,
  scales: Eight,
  parts: readonly Part[],
  group: number,
): void {
  const { width } = tile
  const dots = parts.map(() => [zeros(k, width), zeros(k, width)])
  for (let t = 0; t < 8; t++) {
    const [low, high] = quants(tile, pair, k.const('u32', 0), t, group)
    dots.forEach((dot, column) => {
      dot[0] = low.dotU7I8(spread(tile.activations(column, pair.mul(16), t), width), dot[0]!)
      dot[1] = high.dotU7I8(spread(tile.activations(column, pair.mul(16), 8 + t), width), dot[1]!)
    })
  }
  const factors = ofPair(k, scales, pair, width).map((scale) => k.let('factor', scale.as('i32').to('f32')))
  parts.forEach((part, column) => {
    const both = dots[column]![1]!.to('f32').fma(factors[1]!, dots[column]![0]!.to('f32').mul(factors[0]!))
    part.set(both.fma(spread(tile.scale(column, pair), width), part.get()))
  })
}

/** The same for all groups where registers are narrow. */
function multiplyFew(
  k: LaneScope,
  tile: Tile,
  quants: Quants,
  pair: Value<'u32'>,
  scales: readonly Eight[],
  parts: readonly (readonly Part[])[],
): void {
  for (const groups of narrowGroups(tile, 2)) {
    const dots = dotNarrow(k, tile, groups, {
      steps: 8,
      words: 1,
      subs: 2,
      quants: (word, plus, group) => quants(tile, pair, word, plus, group),
      activations: (column, sub, word, plus) => tile.activations(column, pair.mul(16).add(word), 8 * sub + plus),
    })
    groups.forEach((group, g) => {
      const factors = ofPair(k, scales[group]!, pair, tile.width).map((scale) => k.let('factor', scale.as('i32')))
      parts[group]!.forEach((part, column) => {
        const [even, odd] = factors.map((factor, half) => dots[g]![column]![half]!.mul(factor))
        part.set(
          even!
            .add(odd!)
            .to('f32')
            .fma(spread(tile.scale(column, pair), tile.width), part.get()),
        )
      })
    })
  }
}

function packScales(k: LaneScope, w: Weights<'u32'>, first: readonly Value<'u32'>[], out: PackedOut): void {
  const heads = first.map((at) => w.at(at)) // d in the low half, dmin in the high
  const zero = k.const('u32', 0)
  for (let pair = 0; pair < 8; pair++) {
    const [a, b] = [heads[2 * pair]!, heads[2 * pair + 1]!]
    out.scale(zero, pair, joinHalves(a, b))
    out.scale(zero, 8 + pair, joinHalves(a.shr(16), b.shr(16)))
  }
  for (let word = 0; word < 3; word++) first.forEach((at, row) => out.scale(zero, 16 + 16 * word + row, w.at(at.add(1 + word))))
}
