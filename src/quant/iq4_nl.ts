// IQ4_NL: 32 weights in 18 bytes: half d, 16 bytes of nibbles that choose from a table of 16 values. y = d * T[q].

import { halfOf, nibbles, wordOf16 } from './unaligned.ts'
import type { Format } from './format.ts'
import { half, halves, packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

export const IQ4_TABLE = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const

export const iq4_nl: Format<'u16'> = {
  name: 'iq4_nl',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(9))
    const d = k.let('d', halfOf(w.at(block)))
    return nibbles(k, (i) => wordOf16(w, block.add(1 + 2 * i))).map((q) => q.lookup16(IQ4_TABLE).unpackI8().to('f32').mul(d))
  },
  packed: packed32({
    quants: copied(2, 4, 4),
    scale: half(0),
    bias: 128,
    small: false,
    value: (nibbles) => nibbles.lookup16(IQ4_TABLE.map((value) => value + 128)),
    scales: halves,
  }),
}
