// A second layout of weights, for processors that multiply int8 in vectors: sixteen rows side by side, so that the lanes of a
// register are rows and no sum runs across lanes. A word of the quants stream holds four weights of one row, sixteen words
// (64 bytes) the same four places of sixteen rows. The scales of a run of blocks lie before its quants, so that a matrix is read from
// front to back in one stream: where scales had a stream of their own, or lay behind, memory gave a fifth to a third less.
// Activations are int8 too: 32 or 256 with one scale, and their sums, which serve the formats' minimums (kernel/linear/quantize8.ts).
//
// A format says which parts of its blocks make up the streams, and how a block is multiplied (`multiply`); kernel/linear has the loops.

import type { Vector, Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Var } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'

/** Registers of so many rows and less (WebAssembly, NEON) take whole numbers up to the scale of the activations: products are then few. */
export const NARROW = 4
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
  /** vectors of rows that are multiplied together where registers are few (NARROW); 1 if not given */
  readonly together?: number
  /** Adds to every sum the products of this block's rows with the columns' activations. */
  multiply(k: LaneScope, tile: PackedTile): void
}

/** One block of weights against some columns of activations, as `multiply` sees them. */
export interface PackedTile {
  readonly width: Width
  /** words that are multiplied at a time: fewer where registers are few */
  readonly step: number
  /** sums[group][column]: `width` rows each; 16 / width groups make up sixteen rows, of which a tile may have a part */
  readonly sums: readonly (readonly Sum[])[]
  // Places are a value plus a number known now, apart from each other, so that the number can become part of an address.
  /** `width` rows of a word of the block's quants, from row group * width on */
  quants(at: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>
  /** the same rows of sixteen bytes or halves that begin at this byte of the block's scales, as f32 */
  bytes(plus: number, group: number): VectorOf<'f32'>
  halves(plus: number, group: number): VectorOf<'f32'>
  /** the same rows of word `at + plus` of the block's scales, which is sixteen words, from this byte on */
  words(at: Value<'u32'>, plus: number, byte: number, group: number): VectorOf<'u32'>
  /** Activations of words `at + plus` and those after it, counted from the block's start. */
  activations(at: Value<'u32'>, plus: number): Fours
  /** scale of the column's activations in this block of 32, or this quarter of a block of 256 */
  scale(column: number, quarter?: Value<'u32'>): Value<'f32'>
  /** of 32: minus their scaled sum */
  minusSum(column: number): Value<'f32'>
  /** of 256: word `index` of their sums (SUMS), and the scale of these */
  sums256(column: number, index: number): Value<'u32'>
  sumScale(column: number): Value<'f32'>
}

/** Four activations of a column, the same in every lane: of a word of those asked for. */
export type Fours = (word: number, column: number) => VectorOf<'u32'>

/** A vector of rows being summed. */
export type Sum = Var<Vector<'f32'>>

/**
 * Sums of each 16 and each 32 of 256 activations, scaled, then as whole numbers of 14 bits, so that bytes can multiply them:
 * sum = 128 * high + low. Words of their bytes.
 */
export const SUMS = { count: 24, high16: 0, high32: 4, low16: 6, low32: 10, words: 12, shift: 7, largest: 2 ** 13 - 1 } as const
/** scales of 256 activations */
export const QUARTERS = 4

/**
 * The eight words at byte `at`, in which bit s of byte l belongs to weight l of sub-block s, in the order of their use: word 2p + u has bits of
 * places 16u.. of sub-blocks 2p and 2p + 1, bits 2e and 2e + 1 of its byte b those of place 16u + 4e + b.
 */
export function splitBits(at: number): Field {
  const fours = [0, 1, 2, 3]
  return {
    bytes: 4,
    count: 8,
    write: (_k, read, i) => {
      const [pair, first] = [i.shr(1), i.and(1).mul(16).add(at)]
      return fours
        .map((e) =>
          read(first.add(4 * e), 4)
            .shr(pair.mul(2))
            .and(0x03030303)
            .shl(2 * e),
        )
        .reduce((a, b) => a.or(b))
    },
    define: (read, i) =>
      fours.reduce((word, e) => (word | (((read(at + 16 * (i & 1) + 4 * e, 4) >>> (2 * (i >> 1))) & 0x03030303) << (2 * e))) >>> 0, 0),
  }
}

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

/** To the left by so many bits, or to the right by minus so many. */
export function shifted(words: VectorOf<'u32'>, left: number): VectorOf<'u32'> {
  return left === 0 ? words : left > 0 ? words.shl(left) : words.shr(-left)
}

/** One of the four bytes of each lane. */
export function byteOf(words: VectorOf<'u32'>, place: number, signed: boolean): VectorOf<'i32'> {
  if (signed)
    return words
      .shl(24 - 8 * place)
      .as('i32')
      .shr(24)
  return words
    .shr(8 * place)
    .and(255)
    .as('i32')
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

/** What `make` gives for a number, made when it is first asked for. */
export function once<T>(make: (index: number) => T): (index: number) => T {
  const made = new Map<number, T>()
  return (index) => {
    const known = made.get(index) ?? make(index)
    made.set(index, known)
    return known
  }
}

/** Words with one scale in each of some sub-blocks, which lie in the same words. */
export interface Stretch {
  /** words of a sub-block */
  readonly words: number
  /** sub-blocks that are added up, since their activations have one scale: all there are */
  readonly sums: readonly (readonly number[])[]
  /** sub-blocks that are multiplied together where registers are few; as `sums` if not given */
  readonly together?: readonly (readonly number[])[]
  /** quants stay below 128 */
  readonly small: boolean
  /** quants of some sub-blocks at a word */
  quants(word: number, subs: readonly number[]): readonly VectorOf<'u32'>[]
  activations(sub: number): Fours
  /** the scale of a sub-block; absent: 1 */
  scale?(sub: number): VectorOf<'i32'>
}

/** Sums over the words of a stretch of products times scales: [column][one of `sums`]. */
export function multiplyStretch(k: LaneScope, { width, step }: PackedTile, columns: number, stretch: Stretch): VectorOf<'f32'>[][] {
  const { words, sums, together = sums, small, quants, scale } = stretch
  const activations = once((sub) => stretch.activations(sub))
  const factors = once((sub) => (scale === undefined ? undefined : k.let('factor', scale(sub))))
  /** Products of some words and sub-blocks: [column](sub). */
  const multiply = (
    subs: readonly number[],
    from: number,
    to: number,
    before = (_column: number, _at: number): VectorOf<'i32'> => zeros(k, width),
  ): ((sub: number) => VectorOf<'i32'>)[] => {
    const dots = Array.from({ length: columns }, (_, column) => subs.map((_, at) => before(column, at)))
    for (let word = from; word < to; word++) {
      quants(word, subs).forEach((four, at) =>
        dots.forEach((ofColumn, column) => {
          const a = activations(item(subs, at))(word, column)
          ofColumn[at] = small ? four.dotU7I8(a, item(ofColumn, at)) : four.dotU8I8(a, item(ofColumn, at))
        }),
      )
    }
    return dots.map((ofColumn) => (sub) => item(ofColumn, subs.indexOf(sub)))
  }
  if (width > NARROW) {
    const scales = once((sub) => k.let('factor', factors(sub)?.to('f32') ?? k.const('f32', 1).splat(width)))
    return multiply(sums.flat(), 0, words).map((dotOf) =>
      sums.map((subs) => {
        const [first = 0, ...others] = subs
        if (scale === undefined) return others.reduce((sum, sub) => sum.add(dotOf(sub)), dotOf(first)).to('f32')
        return others.reduce((sum, sub) => dotOf(sub).to('f32').fma(scales(sub), sum), dotOf(first).to('f32').mul(scales(first)))
      }),
    )
  }
  // In whole numbers, a few words at a time: each sum is a statement, and what it needs is loaded just before.
  const totals = Array.from({ length: columns }, () => sums.map(() => k.var('total', zeros(k, width))))
  for (const subs of together) {
    if (scale === undefined) {
      for (let from = 0; from < words; from += step) addPlain(subs, from, Math.min(words, from + step))
    } else if (small) {
      for (let from = 0; from < words; from += step) addScaled(subs, multiply(subs, from, Math.min(words, from + step)))
    } else {
      // sums of bytes that need all their bits take 32 in any case: one multiplication at the end
      const dots = Array.from({ length: columns }, () => subs.map(() => k.var('dot', zeros(k, width))))
      for (let from = 0; from < words; from += step) {
        const before = (column: number, at: number): VectorOf<'i32'> => item(item(dots, column), at).get()
        const next = multiply(subs, from, Math.min(words, from + step), before)
        dots.forEach((ofColumn, column) => ofColumn.forEach((dot, at) => dot.set(item(next, column)(item(subs, at)))))
      }
      addScaled(
        subs,
        dots.map((ofColumn) => (sub) => item(ofColumn, subs.indexOf(sub)).get()),
      )
    }
  }
  return totals.map((ofColumn) => ofColumn.map((total) => total.get().to('f32')))

  /** Products without a scale go on in the sums. */
  function addPlain(subs: readonly number[], from: number, to: number): void {
    const all = Array.from({ length: to - from }, (_, i) => quants(from + i, subs))
    totals.forEach((ofColumn, column) =>
      ofColumn.forEach((total, at) => {
        const mine = item(sums, at).filter((sub) => subs.includes(sub))
        const dots = all.flatMap((fours, i) =>
          mine.map((sub) => ({ four: item(fours, subs.indexOf(sub)), a: activations(sub)(from + i, column) })),
        )
        if (mine.length > 0)
          total.set(dots.reduce((sum, { four, a }) => (small ? four.dotU7I8(a, sum) : four.dotU8I8(a, sum)), total.get()))
      }),
    )
  }

  function addScaled(subs: readonly number[], dots: readonly ((sub: number) => VectorOf<'i32'>)[]): void {
    totals.forEach((ofColumn, column) =>
      ofColumn.forEach((total, at) => {
        const mine = item(sums, at).filter((sub) => subs.includes(sub))
        const products = mine.map((sub) => {
          const [dot, factor] = [item(dots, column)(sub), factors(sub)]
          return factor === undefined ? dot : dot.mul(factor)
        })
        if (mine.length > 0) total.set(products.reduce((a, b) => a.add(b), total.get()))
      }),
    )
  }
}
