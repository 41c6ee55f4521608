// Encoders of the formats with blocks of 32 and a plain rounding rule, byte for byte what ggml writes. Every step is rounded to
// f32 as there: where in doubt, the order of the operations is the specification.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { type BlockEncoder, putHalf } from './encode.ts'

const f32 = Math.fround
/** the 32 quants of the block at hand */
const quants = new Uint8Array(32)

/** Q4_0 and Q5_0: the value of greatest size becomes the lowest quant, -2^(bits-1). */
export function signedEncoder(bits: 4 | 5): BlockEncoder {
  const half = 1 << (bits - 1)
  const most = 2 * half - 1
  return (values, from, out, at) => {
    const d = f32(largest(values, from) / -half)
    const inverse = d === 0 ? 0 : f32(1 / d)
    for (let i = 0; i < 32; i++) {
      const q = f32(f32(values[from + i]! * inverse) + (half + 0.5)) | 0
      quants[i] = q < most ? q : most
    }
    putHalf(out, at, d)
    putQuants(out, at + 2, bits)
  }
}

/** Q4_1 and Q5_1: from the least value to the greatest in equal steps. */
export function rangedEncoder(bits: 4 | 5): BlockEncoder {
  const most = (1 << bits) - 1
  return (values, from, out, at) => {
    let [least, greatest] = [3.4028234663852886e38, -3.4028234663852886e38]
    for (let i = 0; i < 32; i++) {
      const value = values[from + i]!
      if (value < least) least = value
      if (value > greatest) greatest = value
    }
    const d = f32(f32(greatest - least) / most)
    const inverse = d === 0 ? 0 : f32(1 / d)
    for (let i = 0; i < 32; i++) {
      const q = f32(f32(f32(values[from + i]! - least) * inverse) + 0.5) | 0
      quants[i] = q < most ? q : most
    }
    putHalf(out, at, d)
    putHalf(out, at + 2, least)
    putQuants(out, at + 4, bits)
  }
}

/** Q8_0: whole numbers to 127, halves away from zero. */
export const encodeQ8: BlockEncoder = (values, from, out, at) => {
  const d = f32(Math.abs(largest(values, from)) / 127)
  const inverse = d === 0 ? 0 : f32(1 / d)
  putHalf(out, at, d)
  for (let i = 0; i < 32; i++) {
    const scaled = f32(values[from + i]! * inverse)
    out[at + 2 + i] = scaled < 0 ? -((0.5 - scaled) | 0) : (scaled + 0.5) | 0
  }
}

/** The value of greatest size, the first of equals, with its sign. */
export function largest(values: Float32Array, from: number): number {
  let [size, found] = [0, 0]
  for (let i = 0; i < 32; i++) {
    const value = values[from + i]!
    const own = value < 0 ? -value : value
    if (own > size) {
      size = own
      found = value
    }
  }
  return found
}

/** A word of fifth bits, if there are any, then weights 0-15 in the low nibbles and 16-31 in the high ones. */
function putQuants(out: Uint8Array, at: number, bits: 4 | 5): void {
  let nibbles = at
  if (bits === 5) {
    nibbles = at + 4
    let high = 0
    for (let i = 0; i < 32; i++) high |= (quants[i]! >> 4) << i
    for (let byte = 0; byte < 4; byte++) out[at + byte] = high >>> (8 * byte)
  }
  for (let i = 0; i < 16; i++) out[nibbles + i] = (quants[i]! & 15) | ((quants[i + 16]! & 15) << 4)
}
