// Random weights written straight as blocks of a format, many megabytes a second: random bits for the quants, and scales that give
// the values a wanted spread. Does not encode: no values exist before the blocks do. Knows the layouts by where their scales are.

import { IngotError } from '../../base/error.ts'
import { putHalf } from '../../quant/encode/encode.ts'
import { bf16, f16, f32 } from '../../quant/float.ts'
import { GGML_TYPES, type GgmlType, isGgmlType } from '../../quant/type.ts'

/** Writes the scales of the block at `at` for values of standard deviation `spread`. */
type PutScales = (out: Uint8Array, at: number, spread: number) => void

/** Standard deviation of the whole numbers 0 to n - 1, each equally frequent. */
const deviation = (n: number): number => Math.sqrt((n * n - 1) / 12)

/** One half scales everything: `size` is the deviation of the values when it is 1. */
const oneHalf =
  (offset: number, size: number): PutScales =>
  (out, at, spread) =>
    putHalf(out, at + offset, spread / size)

/** A scale and a minimum, halves side by side: the values lie evenly around zero. `unit` is what multiplies both. */
const twoHalves =
  (offset: number, levels: number, unit: number, minimum: 1 | -1): PutScales =>
  (out, at, spread) => {
    const d = spread / (deviation(levels) * unit)
    putHalf(out, at + offset, d)
    putHalf(out, at + offset + 2, (minimum * d * (levels - 1)) / 2)
  }

/** The 6-bit scales and minimums of Q4_K and Q5_K, all 32. */
const superScales = (levels: number): PutScales => {
  const halves = twoHalves(0, levels, 32, 1)
  return (out, at, spread) => {
    halves(out, at, spread)
    out.fill(0xa0, at + 4, at + 12)
    out.fill(0, at + 12, at + 16)
  }
}

const SCALES: Partial<Record<GgmlType, PutScales>> = {
  q4_0: oneHalf(0, deviation(16)),
  q4_1: twoHalves(0, 16, 1, -1),
  q5_0: oneHalf(0, deviation(32)),
  q5_1: twoHalves(0, 32, 1, -1),
  q8_0: oneHalf(0, deviation(256)),
  q2_k: (out, at, spread) => {
    out.fill(0x88, at, at + 16)
    twoHalves(80, 4, 8, 1)(out, at, spread)
  },
  q3_k: oneHalf(108, deviation(8) * deviation(64)),
  q4_k: superScales(16),
  q5_k: superScales(32),
  q6_k: (out, at, spread) => {
    out.fill(64, at + 192, at + 208)
    putHalf(out, at + 208, spread / (64 * deviation(64)))
  },
  iq4_nl: oneHalf(0, 71.6),
  iq4_xs: oneHalf(0, 71.6 * deviation(64)),
  iq2_xxs: oneHalf(0, 53),
  mxfp4: (out, at, spread) => {
    out[at] = Math.max(0, Math.min(254, Math.round(128 + Math.log2(spread / 5.85))))
  },
}

/** Normally distributed elements are drawn from this many values. */
const NORMAL_VALUES = 4096
const ELEMENTS = [f32, f16, bf16] as const

export const SYNTHETIC: readonly GgmlType[] = [...ELEMENTS.map(({ name }) => name), ...Object.keys(SCALES).filter(isGgmlType)]

/** Fills `out`, whole blocks of `type`, with random weights. The memory must be aligned to words. */
export function fillRandom(type: GgmlType, out: Uint8Array, spread: number, random: RandomWords): void {
  const normal = ELEMENTS.find(({ name }) => name === type)?.encode?.(normalValues(spread))
  if (normal !== undefined) return fillElements(out, normal, GGML_TYPES[type].bytes, random)
  const put = SCALES[type]
  if (put === undefined)
    throw new IngotError('unsupported', 'no random weights of this format', { op: 'synth', got: type, wanted: SYNTHETIC.join(', ') })
  random.fill(out)
  for (let at = 0; at < out.length; at += GGML_TYPES[type].bytes) put(out, at, spread)
}

function fillElements(out: Uint8Array, encoded: Uint8Array, bytes: number, random: RandomWords): void {
  const view = ({ buffer, byteOffset, length }: Uint8Array): Uint32Array | Uint16Array =>
    bytes === 4 ? new Uint32Array(buffer, byteOffset, length / 4) : new Uint16Array(buffer, byteOffset, length / 2)
  const [target, values] = [view(out), view(encoded)]
  for (let i = 0; i < target.length; i++) target[i] = values[random.next() >>> 20] ?? 0 // 12 bits: one of NORMAL_VALUES
}

/** Values at even steps of the normal distribution's cumulative share. */
function normalValues(spread: number): Float32Array {
  return Float32Array.from({ length: NORMAL_VALUES }, (_, i) => {
    // Tukey's lambda with 0.14: the normal quantile to within a hundredth, without its inverse error function.
    const p = (i + 0.5) / NORMAL_VALUES
    return (spread * 0.6745 * (p ** 0.14 - (1 - p) ** 0.14)) / (0.75 ** 0.14 - 0.25 ** 0.14)
  })
}

/** Random words: xorshift128, the same for the same seed on every machine. */
export class RandomWords {
  #a: number
  #b = 0x9e3779b9 | 0
  #c = 0x243f6a88 | 0
  #d = 0xb7e15162 | 0

  constructor(seed: number) {
    this.#a = seed | 0
    for (let i = 0; i < 16; i++) this.next()
  }

  /** The next 32 bits, as a signed integer. */
  next(): number {
    let t = this.#a ^ (this.#a << 11)
    t ^= t >>> 8
    this.#a = this.#b
    this.#b = this.#c
    this.#c = this.#d
    this.#d = this.#d ^ (this.#d >>> 19) ^ t
    return this.#d
  }

  /** Fills memory that is aligned to words. */
  fill(out: Uint8Array): void {
    const words = new Int32Array(out.buffer, out.byteOffset, out.length >> 2)
    let [a, b, c, d] = [this.#a, this.#b, this.#c, this.#d] // local for speed
    for (let i = 0; i < words.length; i++) {
      let t = a ^ (a << 11)
      t ^= t >>> 8
      a = b
      b = c
      c = d
      d = d ^ (d >>> 19) ^ t
      words[i] = d
    }
    ;[this.#a, this.#b, this.#c, this.#d] = [a, b, c, d]
    for (let i = 4 * words.length; i < out.length; i++) out[i] = this.next()
  }
}
