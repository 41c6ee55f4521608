// Q4_K: 256 weights in 144 bytes: half d, half dmin, 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles.
// Sub-block s (32 weights): y = d*sc[s]*q - dmin*m[s]. Each 32 bytes of nibbles hold sub-block 2g low and 2g+1 high.

import type { Value } from '../ir/value.ts'
import type { Format, Weights } from './format.ts'

const WORDS = 144 / 4

/** The 6-bit scale and minimum of sub-block `sub`, out of three words of packed scales. */
export function scaleAndMin(w: Weights<'u32'>, first: Value<'u32'>, sub: Value<'u32'>): { scale: Value<'u32'>; min: Value<'u32'> } {
  // Bytes 0-3: scales 0-3 in 6 bits, bytes 4-7: minimums 0-3; bytes 8-11: low nibbles of scale and minimum 4-7, whose
  // upper two bits sit in the top of bytes 0-7.
  const shift = sub.and(3).mul(8)
  const byteOf = (word: number): Value<'u32'> => w.at(first.add(word)).shr(shift).and(255)
  const [a, b, c] = [byteOf(0), byteOf(1), byteOf(2)]
  const high = sub.ge(4)
  return {
    scale: high.select(c.and(15).or(a.shr(6).shl(4)), a.and(63)),
    min: high.select(c.shr(4).or(b.shr(6).shl(4)), b.and(63)),
  }
}

export const q4_k: Format<'u32'> = {
  name: 'q4_k',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const d = w.at(block).unpackF16()
    const { scale, min } = scaleAndMin(w, block.add(1), sub)
    const factor = k.let('factor', d.lane(0).mul(scale.to('f32')))
    const offset = k.let('offset', d.lane(1).mul(min.to('f32')))
    const nibble = sub.and(1).mul(4)
    const quants = block.add(4).add(sub.shr(1).mul(8))
    return Array.from({ length: 8 }, (_, i) => {
      const q = w.at(quants.add(i)).shr(nibble).and(0x0f0f0f0f).unpackU8()
      return q.to('f32').mul(factor).sub(offset)
    })
  },
}
