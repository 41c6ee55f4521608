// IQ4_NL: 32 weights in 18 bytes: half d, 16 bytes of nibbles that choose from a table of 16 values. y = d * T[q].

import { halfOf, nibbles, wordOf16 } from './bytes.ts'
import type { Format } from './format.ts'
import { joinHalves } from './packed.ts'
import { packed32 } from './packed-32.ts'

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
    words: 4,
    scaleBytes: 32,
    bias: 128,
    small: false,
    word: (w, block, index) => wordOf16(w, block.mul(9).add(index.mul(2)).add(1)),
    value: (nibbles) => nibbles.lookup16(IQ4_TABLE.map((value) => value + 128)),
    packScales: (k, w, rows, out) => {
      for (let pair = 0; pair < 8; pair++)
        out.scale(k.const('u32', 0), pair, joinHalves(w.at(rows[2 * pair]!.mul(9)), w.at(rows[2 * pair + 1]!.mul(9))))
    },
    scales: (_k, tile, group) => tile.halves(0, group),
  }),
}
