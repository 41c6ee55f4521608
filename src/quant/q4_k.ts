// Q4_K: 256 weights in 144 bytes: half d, half dmin, 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles.
// Sub-block s (32 weights): y = d*sc[s]*q - dmin*m[s]. Each 32 bytes of nibbles hold sub-block 2g low and 2g+1 high.

import type { LaneScope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { encodeBlocks } from './encode.ts'
import { rangedSuperEncoder } from './encode-k.ts'
import type { Format, Weights } from './format.ts'
import { NARROW, bytesOf, dotNarrow, narrowGroups } from './narrow.ts'
import { type Packed, type PackedOut, type Tile, joinBytes, joinHalves, spread, zeros } from './packed.ts'

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

/** The same where registers are narrow. */
function multiplyFew(k: LaneScope, tile: Tile, quants: Quants): void {
  const { width, sums } = tile
  const heads = sums.map((_, group) => [0, 32].map((plus) => k.let('d', tile.halves(plus, group))))
  k.for({ name: 'pair', to: 4 }, (pair) => {
    for (const groups of narrowGroups(tile, 2)) {
      const dots = dotNarrow(k, tile, groups, {
        steps: 8, words: 1, subs: 2,
        quants: (word, plus, group) => quants(tile, pair, word, plus, group),
        activations: (column, sub, word, plus) => tile.activations(column, pair.mul(16).add(word), 8 * sub + plus),
      })
      const streams = [...new Set(groups.map(({ stream }) => stream))]
      const wordsAt = (plus: number) => new Map(streams.map((stream) => [stream, tile.scaleWords(pair.mul(16), plus, stream)]))
      const [scales, minimums] = [[16, 24].map(wordsAt), [20, 28].map(wordsAt)]
      const columns = sums[0]!.map((_, column) => [0, 1].map((half) => ({
        scale: k.let('scale', spread(tile.scale(column, pair.mul(2), half), width)),
        minusSum: k.let('minusSum', spread(tile.minusSum(column, pair.mul(2), half), width)),
      })))
      groups.forEach((place, g) => {
        const { group, stream } = place
        const factors = scales.map((words) => k.let('factor', bytesOf(words.get(stream)!, place).as('i32')))
        const offsets = minimums.map((words) => k.let('minimum', bytesOf(words.get(stream)!, place).as('i32').to('f32')))
        columns.forEach((halves, column) => {
          const [even, odd] = halves.map((_, half) => dots[g]![column]![half]!.mul(factors[half]!).to('f32'))
          const product = odd!.fma(halves[1]!.scale, even!.mul(halves[0]!.scale))
          const offset = offsets[1]!.fma(halves[1]!.minusSum, offsets[0]!.mul(halves[0]!.minusSum))
          const sum = sums[group]![column]!
          sum.set(product.fma(heads[group]![0]!, offset.fma(heads[group]![1]!, sum.get())))
        })
      })
    }
  })
}

/** Quants of word `word + t` (0..7) of a pair of sub-blocks: four weights of the even one, and four of the odd one. */
type Quants = (tile: Tile, pair: Value<'u32'>, word: Value<'u32'>, t: number, group: number) => [Value<'u32x16'>, Value<'u32x16'>]

/**
 * The packed layout of Q4_K and Q5_K. Scales stream: 16 halves d, 16 halves dmin, then for each sub-block 16 scale bytes and 16
 * minimum bytes. Quants stream: the words of `qs` as they are, then what the format has besides.
 */
export function packedK(words: number, quantWord: number, quantBytes: number, quants: Quants): Packed<'u32'> {
  return {
    block: 256,
    quantBytes,
    scaleBytes: 320,
    run: 1,
    pack(k, w, rows, out) {
      const first = rows.map((row) => k.let('first', row.mul(words)))
      k.for({ name: 'word', to: 32 }, (word) => first.forEach((at, r) => out.quant(word, r, w.at(at.add(word).add(quantWord)))))
      packScales(k, w, first, out)
    },
    multiply(k, tile) {
      const { width, sums } = tile
      if (width <= NARROW) return multiplyFew(k, tile, quants)
      k.for({ name: 'pair', to: 4 }, (pair) => {
        sums.forEach((columns, group) => {
          const dots = columns.map(() => [zeros(k, width), zeros(k, width)])
          for (let t = 0; t < 8; t++) {
            const [low, high] = quants(tile, pair, k.const('u32', 0), t, group)
            columns.forEach((_, column) => {
              const dot = dots[column]!
              dot[0] = low.dotU7I8(spread(tile.activations(column, pair.mul(16), t), width), dot[0]!)
              dot[1] = high.dotU7I8(spread(tile.activations(column, pair.mul(16), 8 + t), width), dot[1]!)
            })
          }
          const [d, dmin] = [tile.halves(0, group), tile.halves(32, group)]
          const factors = [64, 96].map((plus) => k.let('factor', tile.bytes(pair.mul(64), plus, group).mul(d)))
          const minimums = [80, 112].map((plus) => k.let('minimum', tile.bytes(pair.mul(64), plus, group).mul(dmin)))
          columns.forEach((sum, column) => {
            let total = sum.get()
            for (const half of [0, 1]) {
              const scaled = dots[column]![half]!.to('f32').mul(factors[half]!)
              total = scaled.fma(spread(tile.scale(column, pair.mul(2), half), width), total)
              total = minimums[half]!.fma(spread(tile.minusSum(column, pair.mul(2), half), width), total)
            }
            sum.set(total)
          })
        })
      })
    },
  }
}

function packScales(k: LaneScope, w: Weights<'u32'>, first: readonly Value<'u32'>[], out: PackedOut): void {
  const heads = first.map((at) => w.at(at)) // d in the low half, dmin in the high
  for (let pair = 0; pair < 8; pair++) {
    const [a, b] = [heads[2 * pair]!, heads[2 * pair + 1]!]
    const zero = k.const('u32', 0)
    out.scale(zero, pair, joinHalves(a, b))
    out.scale(zero, 8 + pair, joinHalves(a.shr(16), b.shr(16)))
  }
  k.for({ name: 'sub', to: 8 }, (sub) => {
    const parts = first.map((at) => scaleAndMin(w, at.add(1), sub))
    for (let four = 0; four < 4; four++) {
      const rows = parts.slice(4 * four, 4 * four + 4)
      out.scale(sub.mul(8), 16 + four, joinBytes(rows.map(({ scale }) => scale)))
      out.scale(sub.mul(8), 20 + four, joinBytes(rows.map(({ min }) => min)))
    }
  })
}
