// Q5_1: 32 weights in 24 bytes: half d, half m, 4 bytes with the fifth bits, 16 bytes of nibbles. y = q * d + m.

import { nibbles } from './unaligned.ts'
import { encodeBlocks } from './encode/encode.ts'
import { rangedEncoder } from './encode/blocks-32.ts'
import { FIVE, dot32, fiveBits, pairOf32, scaleAndMin } from './dot/blocks-32.ts'
import type { Format } from './format.ts'
import { fifthBits, half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'
import { withFifthBits } from './q5_0.ts'

const encodeBlock = rangedEncoder(5)

export const q5_1: Format<'u32'> = {
  name: 'q5_1',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(6))
    const dm = w.at(block).unpackF16()
    const [d, m] = [k.let('d', dm.lane(0)), k.let('m', dm.lane(1))]
    const words = nibbles(k, (i) => w.at(block.add(2 + i)))
    return withFifthBits(k, k.let('high', w.at(block.add(1))), words).map((q) => q.to('f32').mul(d).add(m))
  },
  packed: packed32({
    quants: copied(8, 4, 4),
    fifth: fifthBits(4),
    scale: half(0),
    minimum: half(2),
    bias: 0,
    small: true,
    scales: halves,
  }),
  dot: dot32({
    size: 6,
    rows: 4,
    masks: FIVE,
    bias: 0,
    read: (k, w, block, side) => ({
      words: fiveBits(k, pairOf32(k, w, block.add(2).add(side.mul(2))), w.at(block.add(1)), side),
      ...scaleAndMin(k, w, block),
    }),
  }),
  encode: (values) => encodeBlocks('q5_1', values, encodeBlock),
}
