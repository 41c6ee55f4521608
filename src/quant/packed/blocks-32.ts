// The packed layout that formats with blocks of 32 share: y = d * (q - bias), or d * q + m. Words of quants as they lie in the file;
// nibble formats hold weights 0-15 in the low nibbles and 16-31 in the high ones. Fifth bits are one more word: bit t of its byte b
// belongs to weight 4t + b.

import { item } from '../../base/list.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { VectorOf } from '../../ir/value.ts'
import { type Field, NARROW, type Packed, type PackedTile, copied, shifted, spreadNibble, zeros } from './packed.ts'

export interface Packed32 {
  /** four words of nibbles, or eight of bytes */
  readonly quants: Field
  /** of nibble formats with five bits */
  readonly fifth?: Field
  readonly scale: Field
  /** halves; instead of a bias */
  readonly minimum?: Field
  /** what was added to the quants to make them unsigned */
  readonly bias: number
  /** quants stay below 128 */
  readonly small: boolean
  /** the scales of `width` rows */
  scales(k: LaneScope, tile: PackedTile, group: number): VectorOf<'f32'>
  /** from the four bits of nibble formats to an unsigned byte */
  value?(nibbles: VectorOf<'u32'>): VectorOf<'u32'>
}

/** Scales that are halves. */
export function halves(_k: LaneScope, tile: PackedTile, group: number): VectorOf<'f32'> {
  return tile.halves(0, group)
}

/** A half at this byte of the block. */
export function half(at: number): Field {
  return copied(at, 2, 1)
}

/** The word of fifth bits at byte `at`, in which bit i belongs to weight i. */
export function fifthBits(at: number): Field {
  const eights = [0, 1, 2, 3, 4, 5, 6, 7]
  return {
    bytes: 4,
    count: 1,
    write: (_k, read, i) => {
      const bits = read(i.add(at), 4)
      return eights.map((t) => spreadNibble(bits.shr(4 * t).and(15)).shl(t)).reduce((a, b) => a.or(b))
    },
    define: (read) => {
      const bits = read(at, 4)
      return eights.reduce(
        (all, t) => [0, 1, 2, 3].reduce((word, b) => (word | (((bits >>> (4 * t + b)) & 1) << (8 * b + t))) >>> 0, all),
        0,
      )
    },
  }
}

/** Words of quants in a row's block whose values are bytes; half as many hold nibbles. */
const BYTE_WORDS = 8
const NIBBLE_WORDS = 4

export function packed32(format: Packed32): Packed {
  const { quants, fifth, scale, minimum } = format
  return {
    block: 32,
    quants: fifth === undefined ? [quants] : [quants, fifth],
    scales: minimum === undefined ? [scale] : [scale, minimum],
    run: 8,
    scaled: 32,
    multiply(k, tile) {
      tile.sums.forEach((_, group) => multiplyGroup(k, tile, format, group))
    },
  }
}

function multiplyGroup(k: LaneScope, tile: PackedTile, format: Packed32, group: number): void {
  const { width } = tile
  const { bias, small, minimum } = format
  const columns = item(tile.sums, group)
  const zero = k.const('u32', 0)
  const activations = tile.activations(zero, 0)
  const multiply = (dots: readonly VectorOf<'i32'>[], words: readonly QuantWord[]): VectorOf<'i32'>[] =>
    dots.map((dot, column) =>
      words.reduce((sum, { word, bytes }) => {
        const a = activations(word, column)
        return small ? bytes.dotU7I8(a, sum) : bytes.dotU8I8(a, sum)
      }, dot),
    )
  const words = quantWords(k, tile, format, group)
  const count = format.quants.count
  let dots = columns.map(() => zeros(k, width))
  if (width <= NARROW && tile.step < count) {
    // a few words at a time: each sum is a statement, and what it needs is loaded just before
    const sums = dots.map((dot) => k.var('dot', dot))
    for (let from = 0; from < count; from += tile.step) {
      const some = Array.from({ length: tile.step }, (_, i) => words(from + i)).flat()
      const before = sums.map((sum) => sum.get())
      multiply(before, some).forEach((dot, column) => item(sums, column).set(dot))
    }
    dots = sums.map((sum) => sum.get())
  } else {
    for (let index = 0; index < count; index++) dots = multiply(dots, words(index))
  }
  const d = k.let('d', format.scales(k, tile, group))
  const m = minimum === undefined ? undefined : k.let('m', tile.halves(32, group))
  columns.forEach((sum, column) => {
    const scale = tile.scale(column).splat(width)
    const dot = item(dots, column).to('f32')
    if (m === undefined) {
      const offset = tile.minusSum(column).mul(bias)
      sum.set(dot.fma(scale, offset.splat(width)).fma(d, sum.get()))
    } else {
      sum.set(
        dot
          .mul(scale)
          .fma(d, sum.get())
          .sub(m.mul(tile.minusSum(column).splat(width))),
      )
    }
  })
}

interface QuantWord {
  /** of the activations that it is multiplied with */
  readonly word: number
  readonly bytes: VectorOf<'u32'>
}

/** The quants of some rows in each word, as unsigned bytes; words of nibbles give two each. */
function quantWords(
  k: LaneScope,
  tile: PackedTile,
  { quants, fifth, value = (nibbles) => nibbles }: Packed32,
  group: number,
): (index: number) => QuantWord[] {
  const zero = k.const('u32', 0)
  const high = fifth === undefined ? undefined : k.let('fifth', tile.quants(zero, NIBBLE_WORDS, group))
  const withFifth = (nibbles: VectorOf<'u32'>, t: number): VectorOf<'u32'> =>
    high === undefined ? value(nibbles) : nibbles.or(shifted(high, 4 - t).and(0x10101010))
  return (index) => {
    const q = tile.quants(zero, index, group)
    if (quants.count === BYTE_WORDS) return [{ word: index, bytes: q }]
    return [
      { word: index, bytes: withFifth(q.and(0x0f0f0f0f), index) },
      { word: index + NIBBLE_WORDS, bytes: withFifth(q.shr(4).and(0x0f0f0f0f), index + NIBBLE_WORDS) },
    ]
  }
}
