// Q6_K: 256 weights in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed scales, half d.
// y = d*sc*(q - 32). Sub-block j of a half takes nibbles 32*(j & 1) on, high ones for j >= 2, and bits 2j of the upper bytes.

import type { LaneScope, Var } from '../ir/author.ts'
import { roundHalf } from '../ir/interpret/half.ts'
import type { Value } from '../ir/value.ts'
import { byteOf16, halfOf, wordOf16 } from './bytes.ts'
import { type BlockEncoder, clampRound, encodeBlocks, putHalf } from './encode.ts'
import type { Format } from './format.ts'
import { NARROW, dotNarrow, narrowGroups } from './narrow.ts'
import { type Packed, SUMS, type Tile, joinHalves, spread, zeros } from './packed.ts'
import { fitScale } from './search.ts'

const BYTES = 210
/** where the scales of the packed layout begin */
const SCALES = 32

export const q6_k: Format<'u16'> = {
  name: 'q6_k',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(BYTES))
    const [half, j] = [chunk.shr(2).and(1), chunk.and(3)]
    const start = block.shr(1)
    const d = k.let('d', halfOf(w.at(start.add(104))))
    const scales = [0, 1].map((i) => {
      const byte = byteOf16(w, block.add(192).add(half.mul(8)).add(j.mul(2)).add(i))
      return k.let('factor', d.mul(byte.shl(24).as('i32').shr(24).to('f32')))
    })
    const low = start.add(half.mul(32)).add(j.and(1).mul(16))
    const high = start.add(64).add(half.mul(16))
    return Array.from({ length: 8 }, (_, i) => {
      const nibble = wordOf16(w, low.add(2 * i))
        .shr(j.shr(1).mul(4))
        .and(0x0f0f0f0f)
      const upper = wordOf16(w, high.add(2 * i))
        .shr(j.mul(2))
        .and(0x03030303)
        .shl(4)
      return nibble
        .or(upper)
        .unpackU8()
        .to('f32')
        .sub(32)
        .mul(scales[i >> 2]!)
    })
  },
  packed: packedQ6(),
  encode: (values) => encodeBlocks('q6_k', values, encodeBlock),
}

const scales = new Float64Array(16)
const quants = new Uint8Array(256)

/** The scale of greatest size becomes -128, its d the others' unit; each is then chosen among neighbours by the error it leaves. */
const encodeBlock: BlockEncoder = (values, from, out, at) => {
  let greatest = 0
  for (let sub = 0; sub < 16; sub++) {
    scales[sub] = fitScale(values, from + 16 * sub, 16, 32)
    if (Math.abs(scales[sub]!) > Math.abs(greatest)) greatest = scales[sub]!
  }
  putHalf(out, at + 208, greatest / -128)
  const d = roundHalf(greatest / -128)
  for (let sub = 0; sub < 16; sub++) {
    const first = from + 16 * sub
    const near = d === 0 ? 0 : scales[sub]! / d
    let [best, chosen] = [measure(values, first, 0), 0]
    for (let scale = clampRound(near - 1, -128, 127); scale <= Math.min(127, near + 1.5); scale++) {
      const error = measure(values, first, d * scale)
      if (error >= best) continue
      best = error
      chosen = scale
    }
    out[at + 192 + sub] = chosen
    const inverse = d * chosen === 0 ? 0 : 1 / (d * chosen)
    for (let i = 0; i < 16; i++) quants[16 * sub + i] = clampRound(values[first + i]! * inverse, -32, 31) + 32
  }
  for (let half = 0; half < 2; half++) {
    for (let i = 0; i < 32; i++) {
      const [a, b, c, e] = [
        quants[128 * half + i]!,
        quants[128 * half + 32 + i]!,
        quants[128 * half + 64 + i]!,
        quants[128 * half + 96 + i]!,
      ]
      out[at + 64 * half + i] = (a & 15) | ((c & 15) << 4)
      out[at + 64 * half + 32 + i] = (b & 15) | ((e & 15) << 4)
      out[at + 128 + 32 * half + i] = (a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((e >> 4) << 6)
    }
  }
}

function measure(x: Float32Array, from: number, scale: number): number {
  const inverse = scale === 0 ? 0 : 1 / scale
  let error = 0
  for (let i = from; i < from + 16; i++) {
    const off = x[i]! - scale * clampRound(x[i]! * inverse, -32, 31)
    error += off * off
  }
  return error
}

/** Scales: 16 halves d, then the four words of signed scales of each row. Quants: 32 words of low nibbles, 16 of upper bits. */
function packedQ6(): Packed<'u16'> {
  return {
    block: 256,
    quantBytes: 64 * 48,
    scaleBytes: SCALES + 4 * 64,
    run: 2,
    scaled: 256,
    pack(k, w, rows, out) {
      const starts = rows.map((row) => row.mul(BYTES / 2))
      k.for({ name: 'word', to: 48 }, (word) => starts.forEach((start, r) => out.quant(word, r, wordOf16(w, start.add(word.mul(2))))))
      const zero = k.const('u32', 0)
      for (let pair = 0; pair < 8; pair++)
        out.scale(zero, pair, joinHalves(w.at(starts[2 * pair]!.add(104)), w.at(starts[2 * pair + 1]!.add(104))))
      k.for({ name: 'word', to: 4 }, (word) =>
        starts.forEach((start, r) => out.scale(word.mul(16), SCALES / 4 + r, wordOf16(w, start.add(96).add(word.mul(2))))),
      )
    },
    multiply(k, tile) {
      const { width, sums } = tile
      const parts = sums.map((columns) => columns.map(() => k.var('part', k.const('f32', 0).splat(width)) as unknown as Var<'f32x16'>))
      k.for({ name: 'quarter', to: 4 }, (quarter) => {
        // A quarter: 16 of the 32 places of a half block, in all four of its sub-blocks.
        const [half, late] = [quarter.shr(1), quarter.and(1)]
        const passes = width <= NARROW ? narrowGroups(tile, 4, 4) : sums.map((_, group) => [group])
        for (const groups of passes) {
          const dots =
            width <= NARROW
              ? dotNarrow(k, tile, groups, {
                  steps: 4,
                  words: 1,
                  subs: 4,
                  quants: (word, plus, group) => quantsOf(tile, half, late.mul(4).add(word), plus, group),
                  activations: (column, sub, word, plus) =>
                    tile.activations(column, half.mul(32).add(late.mul(4)).add(word), 8 * sub + plus),
                })
              : groups.map((group) => dotWide(k, tile, half, late, group))
          groups.forEach((group, g) => {
            const factors = scalesOf(k, tile, half, late, group)
            parts[group]!.forEach((part, column) => {
              const scaled = dots[g]![column]!.map((dot) => dot.to('f32'))
              for (const late of [0, 1]) {
                const both = scaled[2 * late + 1]!.fma(factors[2 * late + 1]!, scaled[2 * late]!.mul(factors[2 * late]!))
                part.set(both.fma(spread(tile.scale(column, half.mul(2).add(late)), width), part.get()))
              }
            })
          })
        }
      })
      sums.forEach((columns, group) => {
        const d = k.let('d', tile.halves(0, group))
        const scales = [0, 1, 2, 3].map((index) => k.let('scales', tile.words(k.const('u32', 0), index, SCALES, group)))
        columns.forEach((sum, column) => {
          const offset = dotSums(k, tile, column, scales)
            .to('f32')
            .mul(spread(tile.sumScale(column).mul(32), width))
          sum.set(parts[group]![column]!.get().sub(offset).fma(d, sum.get()))
        })
      })
    },
  }
}

/** Products of a quarter's quants with every column: [column][sub-block]. */
function dotWide(k: LaneScope, tile: Tile, half: Value<'u32'>, late: Value<'u32'>, group: number): Value<'i32x16'>[][] {
  const dots = tile.sums[group]!.map(() => [0, 1, 2, 3].map(() => zeros(k, tile.width)))
  for (let t = 0; t < 4; t++) {
    const quants = quantsOf(tile, half, late.mul(4), t, group)
    dots.forEach((subs, column) =>
      quants.forEach((q, sub) => {
        const a = tile.activations(column, half.mul(32).add(late.mul(4)), 8 * sub + t)
        subs[sub] = q.dotU7I8(spread(a, tile.width), subs[sub]!)
      }),
    )
  }
  return dots
}

/** Scales of a quarter in its four sub-blocks: signed bytes 0 and 2, or 1 and 3, of two words. */
function scalesOf(k: LaneScope, tile: Tile, half: Value<'u32'>, late: Value<'u32'>, group: number): Value<'f32x16'>[] {
  const words = [0, 1].map((plus) =>
    k.let('scales', tile.words(half.mul(2), plus, SCALES, group).shl(spread(k.const('u32', 8).sub(late.mul(8)), tile.width))),
  )
  return [0, 1, 2, 3].map((sub) =>
    k.let(
      'factor',
      words[sub >> 1]!.shl(sub % 2 === 0 ? 16 : 0)
        .as('i32')
        .shr(24)
        .to('f32'),
    ),
  )
}

/** Sum of a column's activations times their scales. */
function dotSums(k: LaneScope, tile: Tile, column: number, scales: readonly Value<'u32x16'>[]): Value<'i32x16'> {
  const word = (index: number): Value<'u32x16'> => spread(tile.sums256(column, index), tile.width)
  const high = scales.reduce((sum, four, i) => word(SUMS.high16 + i).dotI8(four, sum), zeros(k, tile.width))
  return scales.reduce((sum, four, i) => word(SUMS.low16 + i).dotU7I8(four, sum), high.shl(SUMS.shift))
}

/** Word `word + plus` (0..7) of a half block, in its four sub-blocks. */
function quantsOf(tile: Tile, half: Value<'u32'>, word: Value<'u32'>, plus: number, group: number): Value<'u32x16'>[] {
  const first = tile.quants(half.mul(16).add(word), plus, group)
  const second = tile.quants(half.mul(16).add(word), 8 + plus, group)
  const upper = tile.quants(half.mul(8).add(word), 32 + plus, group)
  return [
    first.and(0x0f0f0f0f).or(upper.shl(4).and(0x30303030)),
    second.and(0x0f0f0f0f).or(upper.shl(2).and(0x30303030)),
    first.shr(4).and(0x0f0f0f0f).or(upper.and(0x30303030)),
    second.shr(4).and(0x0f0f0f0f).or(upper.shr(2).and(0x30303030)),
  ]
}
