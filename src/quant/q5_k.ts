// Q5_K: 256 weights in 176 bytes: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit s of byte l belongs to weight l of
// sub-block s.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { encodeBlocks } from './encode/encode.ts'
import { rangedSuperEncoder } from './encode/blocks-k.ts'
import type { Format } from './format.ts'
import { packedK } from './packed/blocks-k.ts'
import { copied } from './packed/packed.ts'
import { putNibbles, scaleAndMin } from './q4_k.ts'

const WORDS = 176 / 4

export const q5_k: Format<'u32'> = {
  name: 'q5_k',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const d = w.at(block).unpackF16()
    const { scale, min } = scaleAndMin(w, block.add(1), sub)
    const factor = k.let('factor', d.lane(0).mul(scale.to('f32')))
    const offset = k.let('offset', d.lane(1).mul(min.to('f32')))
    const nibble = sub.and(1).mul(4)
    const quants = block.add(12).add(sub.shr(1).mul(8))
    return Array.from({ length: 8 }, (_, i) => {
      const low = w.at(quants.add(i)).shr(nibble).and(0x0f0f0f0f)
      const fifth = w
        .at(block.add(4 + i))
        .shr(sub)
        .and(0x01010101)
        .shl(4)
      return low.or(fifth).unpackU8().to('f32').mul(factor).sub(offset)
    })
  },
  // the eight words of fifth bits follow the nibbles
  packed: packedK([copied(48, 4, 32), copied(16, 4, 8)], 31, (tile, pair, word, t, group) => {
    const q = tile.quants(pair.mul(8).add(word), t, group)
    const fifth = tile.quants(word, 32 + t, group).shr(pair.mul(2).splat(tile.width))
    return [q.and(0x0f0f0f0f).or(fifth.and(0x01010101).shl(4)), q.shr(4).and(0x0f0f0f0f).or(fifth.and(0x02020202).shl(3))]
  }),
  encode: (values) => encodeBlocks('q5_k', values, encodeBlock),
}

const encodeBlock = rangedSuperEncoder(31, (quants, out, at) => {
  for (let i = 0; i < 256; i++) out[at + (i & 31)]! |= (quants[i]! >> 4) << (i >> 5)
  putNibbles(quants, out, at + 32)
})
