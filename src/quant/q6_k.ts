// Q6_K: 256 weights in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed scales, half d.
// y = d*sc*(q - 32). Sub-block j of a half takes nibbles 32*(j & 1) on, high ones for j >= 2, and bits 2j of the upper bytes.

import { byteOf16, halfOf, wordOf16 } from './bytes.ts'
import type { Format } from './format.ts'

const BYTES = 210

export const q6_k: Format<'u16'> = {
  name: 'q6_k',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(BYTES))
    const [half, j] = [chunk.shr(2).and(1), chunk.and(3)]
    const start = block.shr(1)
    const d = k.let('d', halfOf(w.at(start.add(104))))
    const scales = [0, 1].map((i) => {
      const byte = byteOf16(w, block.add(192).add(half.mul(8)).add(j.mul(2)).add(i))
      return k.let('factor', d.mul(byte.shl(24).as('i32').shr(24).to('f32')))
    })
    const low = start.add(half.mul(32)).add(j.and(1).mul(16))
    const high = start.add(64).add(half.mul(16))
    return Array.from({ length: 8 }, (_, i) => {
      const nibble = wordOf16(w, low.add(2 * i)).shr(j.shr(1).mul(4)).and(0x0f0f0f0f)
      const upper = wordOf16(w, high.add(2 * i)).shr(j.mul(2)).and(0x03030303).shl(4)
      return nibble.or(upper).unpackU8().to('f32').sub(32).mul(scales[i >> 2]!)
    })
  },
}
