// Q2_K: 256 weights in 84 bytes: 16 bytes of 4-bit scales and minimums, 64 bytes of 2-bit quants, half d, half dmin.
// 16 weights share a scale: y = d*(s & 15)*q - dmin*(s >> 4). Each byte of quants serves weights 32 apart.

import { byteOf32 } from './bytes.ts'
import type { Format } from './format.ts'

const WORDS = 84 / 4

export const q2_k: Format<'u32'> = {
  name: 'q2_k',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const d = w.at(block.add(20)).unpackF16()
    const scales = [0, 1].map((half) => {
      const s = k.let('scale', byteOf32(w, block.mul(4).add(sub.mul(2)).add(half)))
      return { factor: k.let('factor', d.lane(0).mul(s.and(15).to('f32'))), offset: k.let('offset', d.lane(1).mul(s.shr(4).to('f32'))) }
    })
    const shift = sub.and(3).mul(2)
    const quants = block.add(4).add(sub.shr(2).mul(8))
    return Array.from({ length: 8 }, (_, i) => {
      const { factor, offset } = scales[i >> 2]!
      return w.at(quants.add(i)).shr(shift).and(0x03030303).unpackU8().to('f32').mul(factor).sub(offset)
    })
  },
}
