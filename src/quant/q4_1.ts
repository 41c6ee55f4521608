// Q4_1: 32 weights in 20 bytes: half d, half m, 16 bytes of nibbles. y = q * d + m.

import { nibbles } from './unaligned.ts'
import { encodeBlocks } from './encode/encode.ts'
import { rangedEncoder } from './encode/blocks-32.ts'
import { NIBBLES, dot32, pairOf32, scaleAndMin, twice } from './dot/blocks-32.ts'
import type { Format } from './format.ts'
import { half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

const encodeBlock = rangedEncoder(4)

export const q4_1: Format<'u32'> = {
  name: 'q4_1',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(5))
    const dm = w.at(block).unpackF16()
    const [d, m] = [k.let('d', dm.lane(0)), k.let('m', dm.lane(1))]
    return nibbles(k, (i) => w.at(block.add(1 + i))).map((q) => q.unpackU8().to('f32').mul(d).add(m))
  },
  packed: packed32({
    quants: copied(4, 4, 4),
    scale: half(0),
    minimum: half(2),
    bias: 0,
    small: true,
    scales: halves,
  }),
  dot: dot32({
    size: 5,
    rows: 4,
    masks: NIBBLES,
    bias: 0,
    read: (k, w, block, side) => ({ words: twice(pairOf32(k, w, block.add(1).add(side.mul(2)))), ...scaleAndMin(k, w, block) }),
  }),
  encode: (values) => encodeBlocks('q4_1', values, encodeBlock),
}
