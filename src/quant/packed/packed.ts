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
  /** quants of some rows: of some sub-blocks at a word */
  quants(group: number): WordQuants
  activations(sub: number): Fours
  /** the scale of a sub-block in some rows; absent: 1 */
  scale?(group: number, sub: number): VectorOf<'i32'>
}
export type WordQuants = (word: number, subs: readonly number[]) => readonly VectorOf<'u32'>[]

/** Sums over the words of a stretch of products times scales: [group][column][one of `sums`]. */
export function multiplyStretch(k: LaneScope, tile: PackedTile, stretch: Stretch): VectorOf<'f32'>[][][] {
  return tile.width > NARROW ? multiplyWide(k, tile, stretch) : multiplyNarrow(k, tile, stretch)
}

/** Products of some words and sub-blocks, added to what there is: [column][sub]. */
function multiplyWords(
  { small }: Stretch,
  words: readonly (readonly VectorOf<'u32'>[])[],
  fours: (sub: number, word: number, column: number) => VectorOf<'u32'>,
  before: readonly (readonly VectorOf<'i32'>[])[],
): VectorOf<'i32'>[][] {
  const dots = before.map((ofColumn) => [...ofColumn])
  words.forEach((quants, word) =>
    dots.forEach((ofColumn, column) =>
      quants.forEach((four, sub) => {
        const [a, sum] = [fours(sub, word, column), item(ofColumn, sub)]
        ofColumn[sub] = small ? four.dotU7I8(a, sum) : four.dotU8I8(a, sum)
      }),
    ),
  )
  return dots
}

function multiplyWide(k: LaneScope, { width, sums: rows }: PackedTile, stretch: Stretch): VectorOf<'f32'>[][][] {
  const { words, sums, quants, scale } = stretch
  const subs = sums.flat()
  return rows.map((columns, group) => {
    const activations = once((sub) => stretch.activations(sub))
    const scales = once((sub) => k.let('factor', scale?.(group, sub).to('f32') ?? k.const('f32', 1).splat(width)))
    const each = quants(group)
    let dots = columns.map(() => subs.map(() => zeros(k, width)))
    for (let word = 0; word < words; word++) {
      dots = multiplyWords(stretch, [each(word, subs)], (sub, _, column) => activations(sub)(word, column), dots)
    }
    return dots.map((ofColumn) =>
      sums.map(([first = 0, ...others]) => {
        const start = item(ofColumn, first)
        if (scale === undefined) return others.reduce((sum, sub) => sum.add(item(ofColumn, sub)), start).to('f32')
        return others.reduce((sum, sub) => item(ofColumn, sub).to('f32').fma(scales(sub), sum), start.to('f32').mul(scales(first)))
      }),
    )
  })
}

/** In whole numbers, a few words of all rows at a time: each sum is a statement, and what it needs is loaded just before. */
function multiplyNarrow(k: LaneScope, { width, step, sums: rows }: PackedTile, stretch: Stretch): VectorOf<'f32'>[][][] {
  const { words, sums, together = sums, small, scale } = stretch
  const activations = once((sub) => stretch.activations(sub))
  const quants = once((group) => stretch.quants(group))
  const scales = rows.map((_, group) => once((sub) => (scale === undefined ? undefined : k.let('factor', scale(group, sub)))))
  const totals = rows.map((columns) => columns.map(() => sums.map(() => k.var('total', zeros(k, width)))))
  /** Products of some words of `subs`, from `start` on: [column][sub]. */
  const multiply = (group: number, subs: readonly number[], from: number, start: (column: number, sub: number) => VectorOf<'i32'>) => {
    const some = Array.from({ length: Math.min(step, words - from) }, (_, i) => quants(group)(from + i, subs))
    const before = item(rows, group).map((_, column) => subs.map((_, sub) => start(column, sub)))
    return multiplyWords(stretch, some, (sub, word, column) => activations(item(subs, sub))(from + word, column), before)
  }
  const add = (group: number, subs: readonly number[], dots: readonly (readonly VectorOf<'i32'>[])[]): void =>
    item(totals, group).forEach((ofColumn, column) =>
      ofColumn.forEach((total, at) => {
        const products = subs.flatMap((sub, i) => {
          if (!item(sums, at).includes(sub)) return []
          const [dot, factor] = [item(item(dots, column), i), item(scales, group)(sub)]
          return [factor === undefined ? dot : dot.mul(factor)]
        })
        if (products.length > 0) total.set(products.reduce((a, b) => a.add(b), total.get()))
      }),
    )
  for (const subs of together) {
    // sums of bytes that need all their bits take 32 in any case: one multiplication at the end
    const wholes = small ? [] : rows.map((columns) => columns.map(() => subs.map(() => k.var('dot', zeros(k, width)))))
    for (let from = 0; from < words; from += step) {
      rows.forEach((_, group) => {
        const whole = wholes[group]
        if (whole === undefined)
          return add(
            group,
            subs,
            multiply(group, subs, from, () => zeros(k, width)),
          )
        const next = multiply(group, subs, from, (column, sub) => item(item(whole, column), sub).get())
        return whole.forEach((ofColumn, column) => ofColumn.forEach((dot, sub) => dot.set(item(item(next, column), sub))))
      })
    }
    wholes.forEach((whole, group) =>
      add(
        group,
        subs,
        whole.map((ofColumn) => ofColumn.map((dot) => dot.get())),
      ),
    )
  }
  return totals.map((ofGroup) => ofGroup.map((ofColumn) => ofColumn.map((total) => total.get().to('f32'))))
}
