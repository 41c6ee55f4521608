// Q2_K: 256 weights in 84 bytes: 16 bytes of 4-bit scales and minimums, 64 bytes of 2-bit quants, half d, half dmin.
// 16 weights share a scale: y = d*(s & 15)*q - dmin*(s >> 4). Each byte of quants serves weights 32 apart.

import { item } from '../base/list.ts'
import { byteOf32 } from './unaligned.ts'
import type { Format } from './format.ts'
import { interleaved, twoBits } from './packed/interleaved.ts'
import { copied } from './packed/packed.ts'

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
      const { factor, offset } = item(scales, i >> 2)
      return w.at(quants.add(i)).shr(shift).and(0x03030303).unpackU8().to('f32').mul(factor).sub(offset)
    })
  },
  packed: interleaved({
    quants: [copied(16, 4, 16)],
    scales: [copied(80, 2, 1), copied(82, 2, 1), copied(0, 4, 4)],
    per: 16,
    scale: 'nibble',
    offset: 'minimums',
    largest: 3,
    run: 1,
    streamed: true,
    quantsOf: twoBits,
  }),
}
