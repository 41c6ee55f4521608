// Q8_0: 32 weights in 34 bytes: half d, 32 signed bytes. y = q * d.

import { halfOf, wordOf16 } from './bytes.ts'
import { encodeBlocks } from './encode.ts'
import { encodeQ8 } from './encode-32.ts'
import type { Format } from './format.ts'
import { joinHalves } from './packed.ts'
import { packed32 } from './packed-32.ts'

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
    words: 8,
    scaleBytes: 32,
    bias: 128,
    small: false,
    word: (w, block, index) => wordOf16(w, block.mul(17).add(index.mul(2)).add(1)).xor(0x80808080),
    packScales: (k, w, rows, out) => {
      for (let pair = 0; pair < 8; pair++)
        out.scale(k.const('u32', 0), pair, joinHalves(w.at(rows[2 * pair]!.mul(17)), w.at(rows[2 * pair + 1]!.mul(17))))
    },
    scales: (_k, tile, group) => tile.halves(0, group),
  }),
  encode: (values) => encodeBlocks('q8_0', values, encodeQ8),
}
