// The packed layout that formats with blocks of 32 share: y = d * (q - bias), or d * q + m. Words of quants as they lie in the file;
// nibble formats hold weights 0-15 in the low nibbles and 16-31 in the high ones. Fifth bits are one more word: bit t of its byte b
// belongs to weight 4t + b.

import { item } from '../../base/list.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { VectorOf } from '../../ir/value.ts'
import { type Field, type Packed, type PackedTile, copied, spreadNibble, zeros } from './packed.ts'
import { type PackedWeights, type Panel, dotPanel } from './panel.ts'

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
  /** the greatest of them, if not what four or five bits hold */
  readonly largest?: number
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
    panel: panel32(format),
  }
}

/** Bytes from 128 on become signed, by taking away their bias, which is 128. */
function panel32(format: Packed32): Panel {
  const { small, fifth, largest = fifth === undefined ? 15 : 31 } = format
  const panel: Panel = {
    words: BYTE_WORDS,
    signed: !small,
    largest: small ? largest : 128,
    quants(k, weights, group, put) {
      for (const { word, bytes } of quantWords(k, weights, format, group).flat())
        put(k.const('u32', 0), word, small ? bytes : bytes.xor(0x80808080))
    },
    multiply(k, tile) {
      const dots = dotPanel(k, tile, panel, k.const('u32', 0), BYTE_WORDS)
      dots.forEach((columns, group) => addDots(k, tile, small ? format : { ...format, bias: 0 }, group, columns))
    },
  }
  return panel
}

function multiplyGroup(k: LaneScope, tile: PackedTile, format: Packed32, group: number): void {
  const { width } = tile
  const { small } = format
  const columns = item(tile.sums, group)
  const zero = k.const('u32', 0)
  const dots = columns.map(() => zeros(k, width))
  quantWords(k, tile, format, group).forEach((words) => {
    for (const { word, bytes } of words) {
      columns.forEach((_, column) => {
        const a = tile.activations(column, zero, word).splat(width)
        dots[column] = small ? bytes.dotU7I8(a, item(dots, column)) : bytes.dotU8I8(a, item(dots, column))
      })
    }
  })
  addDots(k, tile, format, group, dots)
}

/** Adds the products of a block, one for each column, with all that they are multiplied with. */
function addDots(
  k: LaneScope,
  tile: PackedTile,
  { bias, minimum, scales }: Pick<Packed32, 'bias' | 'minimum' | 'scales'>,
  group: number,
  dots: readonly VectorOf<'i32'>[],
): void {
  const { width } = tile
  const d = k.let('d', scales(k, tile, group))
  const m = minimum === undefined ? undefined : k.let('m', tile.halves(32, group))
  item(tile.sums, group).forEach((sum, column) => {
    const scale = tile.scale(column).splat(width)
    const dot = item(dots, column).to('f32')
    if (m === undefined && bias === 0) sum.set(dot.mul(scale).fma(d, sum.get()))
    else if (m === undefined) {
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

/** The quants of some rows, as unsigned bytes; words of nibbles give two each. */
function quantWords(
  k: LaneScope,
  tile: PackedWeights,
  { quants, fifth, value = (nibbles) => nibbles }: Packed32,
  group: number,
): QuantWord[][] {
  const zero = k.const('u32', 0)
  const high = fifth === undefined ? undefined : k.let('fifth', tile.quants(zero, NIBBLE_WORDS, group))
  const withFifth = (nibbles: VectorOf<'u32'>, t: number): VectorOf<'u32'> => {
    if (high === undefined) return value(nibbles)
    const bit = t < 4 ? high.shl(4 - t) : high.shr(t - 4)
    return nibbles.or(bit.and(0x10101010))
  }
  return Array.from({ length: quants.count }, (_, index) => {
    const q = tile.quants(zero, index, group)
    if (quants.count === BYTE_WORDS) return [{ word: index, bytes: q }]
    return [
      { word: index, bytes: withFifth(q.and(0x0f0f0f0f), index) },
      { word: index + NIBBLE_WORDS, bytes: withFifth(q.shr(4).and(0x0f0f0f0f), index + NIBBLE_WORDS) },
    ]
  })
}
