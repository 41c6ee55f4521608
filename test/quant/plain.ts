// Every weight format decoded value by value in plain JavaScript, straight from its description: what kernels are compared with. Each step
// is rounded to f32, in the order that ggml computes. Shares nothing with src/quant but the grid of IQ2_XXS, whose hash is checked.

import { decodeHalf } from '../../src/base/half.ts'
import { gridOf } from '../../src/quant/iq2_xxs.ts'
import { GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'

const IQ2_XXS_GRID = gridOf()

const f = Math.fround

/** One block, byte by byte. */
class Block {
  readonly #bytes: Uint8Array
  readonly #start: number

  constructor(bytes: Uint8Array, start: number) {
    this.#bytes = bytes
    this.#start = start
  }

  u8(at: number): number {
    return this.#bytes[this.#start + at]!
  }
  i8(at: number): number {
    return (this.u8(at) << 24) >> 24
  }
  u16(at: number): number {
    return this.u8(at) | (this.u8(at + 1) << 8)
  }
  u32(at: number): number {
    return (this.u16(at) | (this.u16(at + 2) << 16)) >>> 0
  }
  half(at: number): number {
    return decodeHalf(this.u16(at))
  }
}

/** Gives value `i` of a block. */
type Decode = (b: Block, i: number) => number

/** The nibble of value i in sixteen bytes: low ones first. */
const nibble = (b: Block, at: number, i: number): number => (i < 16 ? b.u8(at + i) & 15 : b.u8(at + i - 16) >> 4)
const bit = (word: number, i: number): number => (word >>> i) & 1
const IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
const E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]

/** Scale and minimum j of the twelve bytes that Q4_K and Q5_K have. */
function k4(b: Block, at: number, j: number): [scale: number, min: number] {
  const s = (i: number): number => b.u8(at + i)
  return j < 4 ? [s(j) & 63, s(j + 4) & 63] : [(s(j + 4) & 15) | ((s(j - 4) >> 6) << 4), (s(j + 4) >> 4) | ((s(j) >> 6) << 4)]
}

function superBlock(b: Block, i: number, quants: number, fifth: number | undefined): number {
  const [sub, l] = [i >> 5, i & 31]
  const [scale, min] = k4(b, 4, sub)
  const byte = b.u8(quants + 32 * (sub >> 1) + l)
  const low = sub % 2 === 0 ? byte & 15 : byte >> 4
  const q = low + (fifth === undefined ? 0 : 16 * bit(b.u8(fifth + l), sub))
  return f(f(f(b.half(0) * scale) * q) - f(b.half(2) * min))
}

const DECODERS: Partial<Record<GgmlType, Decode>> = {
  f32: (b) => new Float32Array(Uint32Array.of(b.u32(0)).buffer)[0]!,
  f16: (b) => b.half(0),
  bf16: (b) => new Float32Array(Uint32Array.of((b.u16(0) << 16) >>> 0).buffer)[0]!,
  q4_0: (b, i) => f((nibble(b, 2, i) - 8) * b.half(0)),
  q4_1: (b, i) => f(f(nibble(b, 4, i) * b.half(0)) + b.half(2)),
  q5_0: (b, i) => f((nibble(b, 6, i) + 16 * bit(b.u32(2), i) - 16) * b.half(0)),
  q5_1: (b, i) => f(f((nibble(b, 8, i) + 16 * bit(b.u32(4), i)) * b.half(0)) + b.half(2)),
  q8_0: (b, i) => f(b.i8(2 + i) * b.half(0)),
  iq4_nl: (b, i) => f(b.half(0) * IQ4[nibble(b, 2, i)]!),
  mxfp4: (b, i) => f(2 ** (b.u8(0) - 128) * E2M1[nibble(b, 1, i)]!),
  tq2_0: (b, i) => f((((b.u8(32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3) - 1) * b.half(64)),
  q2_k: (b, i) => {
    const [half, j, l] = [i >> 7, (i >> 5) & 3, i & 31]
    const s = b.u8(8 * half + 2 * j + (l >> 4))
    const q = (b.u8(16 + 32 * half + l) >> (2 * j)) & 3
    return f(f(f(b.half(80) * (s & 15)) * q) - f(b.half(82) * (s >> 4)))
  },
  q3_k: (b, i) => {
    const [half, j, l] = [i >> 7, (i >> 5) & 3, i & 31]
    const s = 8 * half + 2 * j + (l >> 4)
    const low = (b.u8(96 + (s & 7)) >> (s < 8 ? 0 : 4)) & 15
    const scale = (low | (((b.u8(104 + (s & 3)) >> (2 * (s >> 2))) & 3) << 4)) - 32
    const q = ((b.u8(32 + 32 * half + l) >> (2 * j)) & 3) - (bit(b.u8(l), 4 * half + j) === 1 ? 0 : 4)
    return f(f(b.half(108) * scale) * q)
  },
  q4_k: (b, i) => superBlock(b, i, 16, undefined),
  q5_k: (b, i) => superBlock(b, i, 48, 16),
  q6_k: (b, i) => {
    const [half, j, l] = [i >> 7, (i >> 5) & 3, i & 31]
    const byte = b.u8(64 * half + 32 * (j & 1) + l)
    const low = j < 2 ? byte & 15 : byte >> 4
    const q = (low | (((b.u8(128 + 32 * half + l) >> (2 * j)) & 3) << 4)) - 32
    return f(f(b.half(208) * b.i8(192 + 8 * half + 2 * j + (l >> 4))) * q)
  },
  iq4_xs: (b, i) => {
    const [sub, l] = [i >> 5, i & 31]
    const scale = ((b.u8(4 + (sub >> 1)) >> (4 * (sub & 1))) & 15) | (((b.u16(2) >> (2 * sub)) & 3) << 4)
    return f(f(b.half(0) * (scale - 32)) * IQ4[nibble(b, 8 + 16 * sub, l)]!)
  },
  iq2_xxs: (b, i) => {
    const [sub, l, j] = [i >> 5, (i >> 3) & 3, i & 7]
    const [choice, signs] = [b.u32(2 + 8 * sub), b.u32(6 + 8 * sub)]
    const seven = (signs >>> (7 * l)) & 127
    const parity = [0, 1, 2, 3, 4, 5, 6].reduce((sum, at) => sum ^ bit(seven, at), 0)
    const sign = bit(seven | (parity << 7), j) === 1 ? -1 : 1
    const scale = f(f(b.half(0) * f(0.5 + (signs >>> 28))) * 0.25)
    return f(f(scale * IQ2_XXS_GRID[(choice >>> (8 * l)) & 255]![j]!) * sign)
  },
}

/** The values of a weight's bytes. */
export function decodePlain(format: GgmlType, bytes: Uint8Array, elements: number): Float32Array {
  const decode = DECODERS[format]
  if (decode === undefined) throw new Error(`no plain decoder for ${format}`)
  const { block, bytes: size } = GGML_TYPES[format]
  return Float32Array.from({ length: elements }, (_, i) => decode(new Block(bytes, Math.floor(i / block) * size), i % block))
}
