// Q8_0: 32 weights in 34 bytes: half d, 32 signed bytes. y = q * d.

import { halfOf, wordOf16 } from './unaligned.ts'
import { encodeBlocks } from './encode/encode.ts'
import { encodeQ8 } from './encode/blocks-32.ts'
import { BYTES, dot32 } from './dot/blocks-32.ts'
import type { Format } from './format.ts'
import { half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

export const q8_0: Format<'u16'> = {
  name: 'q8_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(17))
    const d = k.let('d', halfOf(w.at(block)))
    return Array.from({ length: 8 }, (_, i) =>
      wordOf16(w, block.add(1 + 2 * i))
        .unpackI8()
        .to('f32')
        .mul(d),
    )
  },
  packed: packed32({
    quants: copied(2, 4, 8, 0x80808080),
    scale: half(0),
    bias: 128,
    small: false,
    scales: halves,
  }),
  dot: dot32({
    size: 17,
    rows: 2,
    masks: BYTES,
    bias: 128,
    read: (k, w, block, side) => ({
      // Signed bytes: 128 more makes them unsigned.
      words: [0, 2, 4, 6].map((i) => k.let('word', wordOf16(w, block.add(1 + i).add(side.mul(8))).xor(0x80808080))),
      d: halfOf(w.at(block)),
    }),
  }),
  encode: (values) => encodeBlocks('q8_0', values, encodeQ8),
}
