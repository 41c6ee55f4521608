// Q5_0: 32 weights in 22 bytes: half d, 4 bytes with the fifth bits, 16 bytes of nibbles. y = (q - 16) * d.

import type { LaneScope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { halfOf, nibbles, wordOf16 } from './unaligned.ts'
import { encodeBlocks } from './encode/encode.ts'
import { signedEncoder } from './encode/blocks-32.ts'
import { FIVE, dot32, fiveBits, pairOf16 } from './dot/blocks-32.ts'
import type { Format } from './format.ts'
import { fifthBits, half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

/** Nibbles of a block with bit i of `high` as the fifth bit of weight i: eight vectors of four values 0..31. */
export function withFifthBits(k: LaneScope, high: Value<'u32'>, words: readonly Value<'u32'>[]): Value<'u32x4'>[] {
  return words.map((q, i) => {
    const bits = high.shr(4 * i)
    const fifth = [0, 1, 2, 3].map((lane) => bits.shr(lane).and(1).shl(4))
    return q.unpackU8().or(k.vec(...fifth) as Value<'u32x4'>)
  })
}

const encodeBlock = signedEncoder(5)

export const q5_0: Format<'u16'> = {
  name: 'q5_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(11))
    const d = k.let('d', halfOf(w.at(block)))
    const high = k.let('high', wordOf16(w, block.add(1)))
    const words = nibbles(k, (i) => wordOf16(w, block.add(3 + 2 * i)))
    return withFifthBits(k, high, words).map((q) => q.to('f32').sub(16).mul(d))
  },
  packed: packed32({
    quants: copied(6, 4, 4),
    fifth: fifthBits(2),
    scale: half(0),
    bias: 16,
    small: true,
    scales: halves,
  }),
  dot: dot32({
    size: 11,
    rows: 4,
    masks: FIVE,
    bias: 16,
    read: (k, w, block, side) => ({
      words: fiveBits(k, pairOf16(k, w, block.add(3).add(side.mul(4))), wordOf16(w, block.add(1)), side),
      d: halfOf(w.at(block)),
    }),
  }),
  encode: (values) => encodeBlocks('q5_0', values, encodeBlock),
}
