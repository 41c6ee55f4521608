// Q4_0: 32 weights in 18 bytes: half d, 16 bytes of nibbles. y = (q - 8) * d; low nibbles are weights 0-15, high 16-31.

import { halfOf, nibbles, wordOf16 } from './unaligned.ts'
import { encodeBlocks } from './encode/encode.ts'
import { signedEncoder } from './encode/blocks-32.ts'
import { NIBBLES, dot32, pairOf16, twice } from './dot/blocks-32.ts'
import type { Format } from './format.ts'
import { half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

const encodeBlock = signedEncoder(4)

export const q4_0: Format<'u16'> = {
  name: 'q4_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(9))
    const d = k.let('d', halfOf(w.at(block)))
    return nibbles(k, (i) => wordOf16(w, block.add(1 + 2 * i))).map((q) => q.unpackU8().to('f32').sub(8).mul(d))
  },
  packed: packed32({
    quants: copied(2, 4, 4),
    scale: half(0),
    bias: 8,
    small: true,
    scales: halves,
  }),
  dot: dot32({
    size: 9,
    rows: 4,
    masks: NIBBLES,
    bias: 8,
    read: (k, w, block, side) => ({ words: twice(pairOf16(k, w, block.add(1).add(side.mul(4)))), d: halfOf(w.at(block)) }),
  }),
  encode: (values) => encodeBlocks('q4_0', values, encodeBlock),
}
