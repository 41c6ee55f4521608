// Q3_K: 256 weights in 110 bytes: 32 bytes of third bits, 64 bytes of 2-bit quants, 12 bytes of 6-bit scales, half d.
// 16 weights share a scale: y = d*(s - 32)*(q - 4), where the third bit is what saves a weight from the -4.

import { item } from '../base/list.ts'
import { byteOf16, halfOf, wordOf16 } from './unaligned.ts'
import type { Format } from './format.ts'
import { interleaved } from './packed/interleaved.ts'
import { type Field, copied } from './packed/packed.ts'

const BYTES = 110

/** The sixteen scales less 32 as signed bytes: in the file four bits of each lie in the first eight bytes, two in the last four. */
const signedScales: Field = {
  bytes: 4,
  count: 4,
  write: (_k, read, i) => {
    const low = read(i.and(1).mul(4).add(96), 4).shr(i.shr(1).mul(4)).and(0x0f0f0f0f)
    const high = read(i.mul(0).add(104), 4).shr(i.mul(2)).and(0x03030303).shl(4)
    return low.or(high).or(0x80808080).sub(0x20202020).xor(0x80808080)
  },
  define: (read, i) => {
    const low = (read(96 + 4 * (i & 1), 4) >>> (4 * (i >> 1))) & 0x0f0f0f0f
    const high = (read(104, 4) >>> (2 * i)) & 0x03030303
    return ((((low | (high << 4) | 0x80808080) >>> 0) - 0x20202020) ^ 0x80808080) >>> 0
  },
}

export const q3_k: Format<'u16'> = {
  name: 'q3_k',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(BYTES))
    const sub = k.let('sub', chunk.and(7))
    const half16 = block.shr(1)
    const d = k.let('d', halfOf(w.at(half16.add(54))))
    const scales = [0, 1].map((half) => {
      // Scale s: low four bits in byte s%8 (low nibble for s < 8), upper two in byte 8 + s%4.
      const s = sub.mul(2).add(half)
      const low = byteOf16(w, block.add(96).add(s.and(7)))
        .shr(s.shr(3).mul(4))
        .and(15)
      const high = byteOf16(w, block.add(104).add(s.and(3)))
        .shr(s.shr(2).mul(2))
        .and(3)
      return k.let('factor', d.mul(low.or(high.shl(4)).to('i32').sub(32).to('f32')))
    })
    const shift = sub.and(3).mul(2)
    const quants = half16.add(16).add(sub.shr(2).mul(16))
    return Array.from({ length: 8 }, (_, i) => {
      const low = wordOf16(w, quants.add(2 * i))
        .shr(shift)
        .and(0x03030303)
      const third = wordOf16(w, half16.add(2 * i))
        .shr(sub)
        .and(0x01010101)
        .shl(2)
      return low
        .or(third)
        .unpackU8()
        .to('f32')
        .sub(4)
        .mul(item(scales, i >> 2))
    })
  },
  packed: interleaved({
    quants: [copied(32, 4, 16), copied(0, 4, 8)],
    scales: [copied(108, 2, 1), signedScales],
    per: 16,
    scale: 'signed',
    offset: 4,
    largest: 7,
    run: 2,
    quantsOf(tile, half, word, plus, group) {
      const twoBits = tile.quants(half.mul(8).add(word), plus, group)
      const third = tile.quants(word, 16 + plus, group).shr(half.mul(4).splat(tile.width))
      return [0, 1, 2, 3].map((sub) => {
        const bit = sub < 2 ? third.shl(2 - sub) : third.shr(sub - 2)
        return twoBits
          .shr(2 * sub)
          .and(0x03030303)
          .or(bit.and(0x04040404))
      })
    },
  }),
}
