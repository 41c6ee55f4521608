// The packed layout that formats with blocks of 32 share: y = d * (q - bias), one scale per row and block. Words of quants as they
// lie in the file; nibble formats hold weights 0-15 in the low nibbles and 16-31 in the high ones.

import type { LaneScope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { type Packed, type PackedOut, type Tile, spread, zeros } from './packed.ts'
import type { WeightStorage, Weights } from './weight-storage.ts'

export interface Packed32<S extends WeightStorage> {
  /** words of quants per row: 4 for nibbles, 8 for bytes */
  readonly words: 4 | 8
  readonly scaleBytes: number
  /** what was added to the quants to make them unsigned */
  readonly bias: number
  /** quants stay below 128 */
  readonly small: boolean
  /** word `index` of a row's quants, given the row's block */
  word(w: Weights<S>, block: Value<'u32'>, index: Value<'u32'>): Value<'u32'>
  packScales(k: LaneScope, w: Weights<S>, rows: readonly Value<'u32'>[], out: PackedOut): void
  /** the scales of `width` rows */
  scales(k: LaneScope, tile: Tile, group: number): Value<'f32x16'>
  /** from the four bits of nibble formats to an unsigned byte */
  value?(nibbles: Value<'u32x16'>): Value<'u32x16'>
}

export function packed32<S extends WeightStorage>(format: Packed32<S>): Packed<S> {
  const { words, scaleBytes, bias, small, value = (nibbles) => nibbles } = format
  return {
    block: 32,
    quantBytes: 64 * words,
    scaleBytes,
    run: 8,
    scaled: 32,
    pack(k, w, rows, out) {
      k.for({ name: 'word', to: words }, (word) => rows.forEach((row, r) => out.quant(word, r, format.word(w, row, word))))
      format.packScales(k, w, rows, out)
    },
    multiply(k, tile) {
      const { width, sums } = tile
      const zero = k.const('u32', 0)
      sums.forEach((columns, group) => {
        const dots = columns.map(() => zeros(k, width))
        const step = (quants: Value<'u32x16'>, word: number): void =>
          columns.forEach((_, column) => {
            const a = spread(tile.activations(column, zero, word), width)
            dots[column] = small ? quants.dotU7I8(a, dots[column]!) : quants.dotU8I8(a, dots[column]!)
          })
        for (let index = 0; index < words; index++) {
          const q = tile.quants(zero, index, group)
          if (words === 8) {
            step(q, index)
          } else {
            step(value(q.and(0x0f0f0f0f)), index)
            step(value(q.shr(4).and(0x0f0f0f0f)), index + 4)
          }
        }
        const d = k.let('d', format.scales(k, tile, group))
        columns.forEach((sum, column) => {
          const offset = tile.minusSum(column).mul(bias)
          const scaled = dots[column]!.to('f32').fma(spread(tile.scale(column), width), spread(offset, width))
          sum.set(scaled.fma(d, sum.get()))
        })
      })
    },
  }
}
