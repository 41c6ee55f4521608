// A second layout of weights, for processors that multiply int8 in vectors: sixteen rows side by side, so that the lanes of a
// register are rows and no sum runs across lanes. A word of the quants stream holds four weights of one row, sixteen words
// (64 bytes) the same four places of sixteen rows. The scales of a run of blocks lie before its quants, so that a matrix is read from
// front to back in one stream: where scales had a stream of their own, or lay behind, memory gave a fifth to a third less.
// Activations are int8 too: 32 or 256 with one scale, and their sums, which serve the formats' minimums (kernel/linear/quantize8.ts).
//
// A format says which parts of its blocks make up the streams, and how a block is multiplied (`multiply`); kernel/linear has the loops.

import type { Vector, Width } from '../../base/dtype.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import type { Panel } from './panel.ts'

/** rows that lie side by side */
export const PACKED_ROWS = 16

/** The shape of a matrix [rows, columns] of floats whose rows lie as those of packed weights: sixteen side by side, and filled up. */
export function sideBySide(rows: number, columns: number): readonly [sixteens: number, columns: number, rows: number] {
  return [Math.ceil(rows / PACKED_ROWS), columns, PACKED_ROWS]
}
/** The block of weights that activations are made for: 32 with one scale, or 256 with one for each 64 and sums that share one. */
export type Scaled = 32 | 256

/** Reads a block of one row in the file: 1, 2 or 4 bytes from a byte of it on, as an unsigned integer. */
export type ReadBlock<N> = (at: N, bytes: 1 | 2 | 4) => N

/** Elements of one size of a stream of the layout, taken from a block of the file: the same twice, as a kernel and in numbers. */
export interface Field {
  readonly bytes: 1 | 2 | 4
  readonly count: number
  /** element i */
  write(k: LaneScope, read: ReadBlock<Value<'u32'>>, i: Value<'u32'>): Value<'u32'>
  define(read: ReadBlock<number>, i: number): number
}

/** Neighbouring elements as they lie in the file, from byte `at` of the block on; `xor` makes signed bytes unsigned. */
export function copied(at: number, bytes: 1 | 2 | 4, count: number, xor = 0): Field {
  return {
    bytes,
    count,
    write: (_k, read, i) => (xor === 0 ? read(i.mul(bytes).add(at), bytes) : read(i.mul(bytes).add(at), bytes).xor(xor)),
    define: (read, i) => (read(at + bytes * i, bytes) ^ xor) >>> 0,
  }
}

export interface Packed {
  /** weights of one row in a block */
  readonly block: number
  /** words of quants: of each field in turn, each word of sixteen rows side by side */
  readonly quants: readonly Field[]
  /** the same for scales, in elements of any size */
  readonly scales: readonly Field[]
  /** what it is multiplied with */
  readonly scaled: Scaled
  /** blocks whose scales lie together; those of a whole run fill cache lines */
  readonly run: number
  /** its products are so cheap that memory is what they wait for: gains from several streams (Caps) */
  readonly streamed?: true
  /** Adds to every sum the products of this block's rows with the columns' activations. */
  multiply(k: LaneScope, tile: PackedTile): void
  /** the same in two steps, for many columns where `Caps.pairs` */
  readonly panel: Panel
}

/** One block of weights against some columns of activations, as `multiply` sees them. */
export interface PackedTile {
  readonly width: Width
  /** sums[group][column]: `width` rows each; 16 / width groups make up sixteen rows, and there are `streams` times sixteen */
  readonly sums: readonly (readonly Sum[])[]
  readonly streams: number
  // Places are a value plus a number known now, apart from each other, so that the number can become part of an address.
  /** `width` rows of a word of the block's quants, from row group * width on */
  quants(at: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>
  /** the same rows of sixteen bytes or halves that begin at this byte of the block's scales, as f32 */
  bytes(plus: number, group: number): VectorOf<'f32'>
  halves(plus: number, group: number): VectorOf<'f32'>
  /** the same rows of word `at + plus` of the block's scales, which is sixteen words, from this byte on */
  words(at: Value<'u32'>, plus: number, byte: number, group: number): VectorOf<'u32'>
  /** four activations of a column, counted in words from the block's start */
  activations(column: number, at: Value<'u32'>, plus: number): Value<'u32'>
  /** scale of the column's activations in this block of 32, or this quarter of a block of 256 */
  scale(column: number, quarter?: Value<'u32'>): Value<'f32'>
  /** of 32: minus their scaled sum */
  minusSum(column: number): Value<'f32'>
  /** of 256: word `index` of their sums (SUMS), and the scale of these */
  sums256(column: number, index: number): Value<'u32'>
  sumScale(column: number): Value<'f32'>
}

/** A vector of rows being summed. */
export type Sum = Var<Vector<'f32'>>

/**
 * Sums of each 16 and each 32 of 256 activations, scaled, then as whole numbers of 14 bits, so that bytes can multiply them:
 * sum = 128 * high + low. Words of their bytes.
 */
export const SUMS = { count: 24, high16: 0, high32: 4, low16: 6, low32: 10, words: 12, shift: 7, largest: 2 ** 13 - 1 } as const
/** scales of 256 activations */
export const QUARTERS = 4

/** Bytes of one block of sixteen rows in each stream; quants are a multiple of 64. */
export function packedBlock({ quants, scales }: Packed): { quantBytes: number; scaleBytes: number } {
  const total = (fields: readonly Field[]): number => fields.reduce((sum, { bytes, count }) => sum + PACKED_ROWS * bytes * count, 0)
  return { quantBytes: total(quants), scaleBytes: total(scales) }
}

/** Bytes of sixteen rows of `inner` weights, quants and scales, rounded up to whole cache lines. */
export function packedGroupBytes(packed: Packed, inner: number): number {
  const { quantBytes, scaleBytes } = packedBlock(packed)
  return Math.ceil(((inner / packed.block) * (quantBytes + scaleBytes)) / 64) * 64
}

/** Bit i of four bits to bit 0 of byte i: the products with four powers of two do not meet there. */
export function spreadNibble(bits: Value<'u32'>): Value<'u32'> {
  return bits.mul(0x00204081).and(0x01010101)
}

/** The first block of run `index` of a row of `blocks`, and how many it has: the last one may be short. */
export function runOf(
  k: LaneScope,
  { run }: Packed,
  index: Value<'u32'>,
  blocks: Value<'u32'>,
): { begin: Value<'u32'>; count: Value<'u32'> } {
  const begin = k.let('begin', index.mul(run))
  return { begin, count: run === 1 ? k.const('u32', 1) : k.let('count', blocks.sub(begin).min(run)) }
}

/** A dot product over words of quants with four columns' worth of bytes: starts at zero, one step per word. */
export function zeros(k: LaneScope, width: Width): VectorOf<'i32'> {
  return k.const('i32', 0).splat(width)
}
