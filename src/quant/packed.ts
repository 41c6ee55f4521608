// A second layout of weights, for processors that multiply int8 in vectors: sixteen rows side by side, so that the lanes of a
// register are rows and no sum runs across lanes. A word of the quants stream holds four weights of one row, sixteen words
// (64 bytes) the same four places of sixteen rows. The scales of a run of blocks lie before its quants, so that a matrix is read from
// front to back in one stream: where scales had a stream of their own, or lay behind, memory gave a fifth to a third less.
// Activations are int8 too: 32 or 256 with one scale, and their sums, which serve the formats' minimums (kernel/quantize8.ts).
//
// A format brings how a row is taken apart (`pack`) and how a block is multiplied (`multiply`); kernel/ has the loops.

import type { Width } from '../base/dtype.ts'
import type { LaneScope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import type { WeightStorage, Weights } from './weight-storage.ts'

/** rows that lie side by side */
export const PACKED_ROWS = 16
/** The block of weights that activations are made for: 32 with one scale, or 256 with one for each 64 and sums that share one. */
export type Scaled = 32 | 256

export interface Packed<S extends WeightStorage = WeightStorage> {
  /** weights of one row in a block of the layout */
  readonly block: number
  /** bytes of one block of sixteen rows in each stream; quants a multiple of 64 */
  readonly quantBytes: number
  readonly scaleBytes: number
  /** what it is multiplied with */
  readonly scaled: Scaled
  /** blocks whose scales lie together; those of a whole run fill cache lines */
  readonly run: number
  /** its products are so cheap that memory is what they wait for: gains from several streams (Caps) */
  readonly streamed?: true
  /** Writes block `at` of sixteen rows; `rows[r]` is the file's block of row r, counted in blocks. */
  pack(k: LaneScope, w: Weights<S>, rows: readonly Value<'u32'>[], out: PackedOut): void
  /** Adds to every sum the products of this block's rows with the columns' activations. */
  multiply(k: LaneScope, tile: Tile): void
}

export interface PackedOut {
  /** a word of one row's quants */
  quant(word: Value<'u32'>, row: number, value: Value<'u32'>): void
  /** a word of the block's scales */
  scale(at: Value<'u32'>, plus: number, value: Value<'u32'>): void
}

/** One block of weights against some columns of activations, as `multiply` sees them. */
export interface Tile {
  readonly width: Width
  /** sums[group][column]: `width` rows each; 16 / width groups make up sixteen rows, and there are `streams` times sixteen */
  readonly sums: readonly (readonly Sum[])[]
  readonly streams: number
  // Places are a value plus a number known now, apart from each other, so that the number can become part of an address.
  /** `width` rows of a word of the block's quants, from row group * width on */
  quants(at: Value<'u32'>, plus: number, group: number): Value<'u32x16'>
  /** the same rows of sixteen bytes or halves that begin at this byte of the block's scales, as f32 */
  bytes(plus: number, group: number): Value<'f32x16'>
  halves(plus: number, group: number): Value<'f32x16'>
  /** the same rows of word `at + plus` of the block's scales, which is sixteen words, from this byte on */
  words(at: Value<'u32'>, plus: number, byte: number, group: number): Value<'u32x16'>
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

/** A vector of rows being summed. Its width varies with the target; TypeScript is told 16 throughout. */
export interface Sum {
  get(): Value<'f32x16'>
  set(value: Value<'f32x16'>): void
}

/**
 * Sums of each 16 and each 32 of 256 activations, scaled, then as whole numbers of 14 bits, so that bytes can multiply them: sum = 128 * high
 * + low. Words of their bytes.
 */
export const SUMS = { high16: 0, high32: 4, low16: 6, low32: 10, words: 12, shift: 7, largest: 2 ** 13 - 1 } as const
/** scales of 256 activations */
export const QUARTERS = 4

/** Bytes of sixteen rows of `inner` weights, quants and scales, rounded up to whole cache lines. */
export function packedGroupBytes({ block, quantBytes, scaleBytes }: Packed, inner: number): number {
  return Math.ceil(((inner / block) * (quantBytes + scaleBytes)) / 64) * 64
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

/** Four bytes, one from each of four words. */
export function joinBytes(parts: readonly Value<'u32'>[]): Value<'u32'> {
  return parts.map((part, i) => part.and(255).shl(8 * i)).reduce((a, b) => a.or(b))
}

/** Two halves in one word. */
export function joinHalves(low: Value<'u32'>, high: Value<'u32'>): Value<'u32'> {
  return low.and(0xffff).or(high.shl(16))
}

/** A dot product over words of quants with four columns' worth of bytes: starts at zero, one step per word. */
export function zeros(k: LaneScope, width: Width): Value<'i32x16'> {
  return k.const('i32', 0).splat(width) as unknown as Value<'i32x16'>
}

/** A scalar in every lane of a vector as wide as the tile's. */
export function spread<D extends 'u32' | 'f32'>(value: Value<D>, width: Width): Value<`${D}x16`> {
  return value.splat(width as 16) as unknown as Value<`${D}x16`>
}
