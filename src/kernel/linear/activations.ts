// Activations as int8: how they lie in memory, and what they mean. Blocks of 32 have one scale, and minus their scaled sum; blocks of 256
// have a scale for each 64, and the sums of each 16 and 32 as whole numbers with a scale of their own (SUMS). Rows of x lie side by side
// in tiles of `columns`, so that a kernel that takes so many at a time finds what it needs next to each other. Streams follow each other,
// each [tile][block][words of the block][columns].

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { QUARTERS, SUMS, type Scaled } from '../../quant/packed/packed.ts'

export interface ActivationShape {
  /** rows of x */
  readonly n: number
  readonly k: number
  /** the block that they are made for */
  readonly scaled: Scaled
  /** rows side by side in a tile */
  readonly columns: number
}

/** A stream: words of it in a block, and words of the streams before it. */
export interface Stream {
  readonly each: number
  readonly before: number
}
export interface Streams {
  readonly quants: Stream
  readonly scales: Stream
  /** of 32: minus the scaled sum; of 256: the scale of `sums` */
  readonly sum: Stream
  /** of 256 only */
  readonly sums: Stream
}

function streams(quants: number, scales: number, sum: number, sums: number): Streams {
  return {
    quants: { each: quants, before: 0 },
    scales: { each: scales, before: quants },
    sum: { each: sum, before: quants + scales },
    sums: { each: sums, before: quants + scales + sum },
  }
}

const STREAMS: Readonly<Record<Scaled, Streams>> = { 32: streams(8, 1, 1, 0), 256: streams(64, QUARTERS, 1, SUMS.words) }

export function streamsOf(scaled: Scaled): Streams {
  return STREAMS[scaled]
}

/** columns that a product takes at a time, by the width of a register: what its register file holds */
const COLUMNS: Readonly<Record<Width, readonly number[]>> = { 2: [1], 4: [1, 2, 4], 8: [1, 2, 4], 16: [1, 2, 4, 8] }
const MOST_COLUMNS = 8

/** The sizes that tiles may have. */
export function tileSizes({ width }: Caps): readonly number[] {
  return COLUMNS[width]
}

/** The tile that serves n rows of x. */
export function tileColumns(caps: Caps, n: number): number {
  const sizes = tileSizes(caps)
  return sizes.find((size) => size >= n) ?? sizes.at(-1) ?? 1
}

/** Words that hold n quantised rows of k on any device. */
export function quantizedWords(n: number, k: number, scaled: Scaled): number {
  const columns = n === 1 ? 1 : Math.ceil(n / MOST_COLUMNS) * MOST_COLUMNS
  const { sums } = streamsOf(scaled)
  return columns * (k / scaled) * (sums.before + sums.each)
}

/** Where word i of a block of a row is. */
function wordAt({ n, k, scaled, columns }: ActivationShape, { each, before }: Stream, row: number, block: number, i: number): number {
  const blocks = k / scaled
  const all = Math.ceil(n / columns) * blocks * columns
  return all * before + ((Math.floor(row / columns) * blocks + block) * each + i) * columns + (row % columns)
}

/** The words of rows of floats. */
export function quantize(x: Float32Array, shape: ActivationShape): Uint32Array {
  const { n, k, scaled } = shape
  const words = new Uint32Array(quantizedWords(n, k, scaled))
  const [bytes, floats] = [new Int8Array(words.buffer), new Float32Array(words.buffer)]
  const { quants, scales, sum, sums } = streamsOf(scaled)
  const each = scaled / scales.each // values that share a scale
  for (let row = 0; row < n; row++) {
    for (let block = 0; block < k / scaled; block++) {
      const at = (stream: Stream, i: number): number => wordAt(shape, stream, row, block, i)
      const first = row * k + block * scaled
      const scaledSums: number[] = [] // of each sixteen
      for (let part = 0; part < scales.each; part++) {
        const { scale, whole } = wholeNumbers(x.subarray(first + part * each, first + (part + 1) * each), 127)
        floats[at(scales, part)] = scale
        whole.forEach((value, i) => {
          const place = part * each + i
          bytes[4 * at(quants, place >> 2) + (place & 3)] = value
        })
        for (let i = 0; i < each; i += 16) {
          scaledSums.push(Math.fround(whole.slice(i, i + 16).reduce((total, value) => total + value, 0) * scale))
        }
        if (scaled === 32) floats[at(sum, 0)] = -Math.fround(whole.reduce((total, value) => total + value, 0) * scale)
      }
      if (scaled === 32) continue
      const pairs = scaledSums.flatMap((value, i) => (i % 2 === 0 ? [Math.fround(value + (scaledSums[i + 1] ?? 0))] : []))
      const { scale, whole } = wholeNumbers([...scaledSums, ...pairs], SUMS.largest)
      floats[at(sum, 0)] = scale
      whole.forEach((value, i) => {
        bytes[4 * at(sums, SUMS.high16 + (i >> 2)) + (i & 3)] = value >> SUMS.shift
        bytes[4 * at(sums, SUMS.low16 + (i >> 2)) + (i & 3)] = value & (2 ** SUMS.shift - 1)
      })
    }
  }
  return words
}

/** The floats that such words stand for. */
export function dequantized(words: Uint32Array, shape: ActivationShape): Float64Array {
  const { n, k, scaled } = shape
  const [bytes, floats] = [new Int8Array(words.buffer, words.byteOffset), new Float32Array(words.buffer, words.byteOffset)]
  const { quants, scales } = streamsOf(scaled)
  const each = scaled / scales.each
  return Float64Array.from({ length: n * k }, (_, index) => {
    const [row, column] = [Math.floor(index / k), index % k]
    const [block, place] = [Math.floor(column / scaled), column % scaled]
    const quant = bytes[4 * wordAt(shape, quants, row, block, place >> 2) + (place & 3)] ?? 0
    return quant * (floats[wordAt(shape, scales, row, block, Math.floor(place / each))] ?? 0)
  })
}

/** The sums that such words hold: of each 32, or of each 16 and each 32 of a block of 256. */
export function sumsOf(words: Uint32Array, shape: ActivationShape): Float64Array {
  const { n, k, scaled } = shape
  const [bytes, floats] = [new Int8Array(words.buffer, words.byteOffset), new Float32Array(words.buffer, words.byteOffset)]
  const { sum, sums } = streamsOf(scaled)
  const each = scaled === 32 ? 1 : SUMS.count
  const blocks = k / scaled
  return Float64Array.from({ length: n * blocks * each }, (_, index) => {
    const [row, block, i] = [Math.floor(index / (blocks * each)), Math.floor(index / each) % blocks, index % each]
    const factor = floats[wordAt(shape, sum, row, block, 0)] ?? 0
    if (scaled === 32) return -factor
    const byte = (from: number): number => bytes[4 * wordAt(shape, sums, row, block, from + (i >> 2)) + (i & 3)] ?? 0
    return (byte(SUMS.high16) * 2 ** SUMS.shift + byte(SUMS.low16)) * factor
  })
}

/** Values as whole numbers up to `most`, and what one of these stands for. */
export function wholeNumbers(values: ArrayLike<number>, most: number): { scale: number; whole: number[] } {
  const all = Array.from(values)
  const top = Math.max(...all.map(Math.abs))
  const inverse = top > 0 ? Math.fround(most / top) : 0
  return { scale: Math.fround(top / most), whole: all.map((value) => roundEven(Math.fround(value * inverse))) }
}

function roundEven(value: number): number {
  const near = Math.round(value)
  return Math.abs(near - value) === 0.5 && near % 2 !== 0 ? near - 1 : near
}
