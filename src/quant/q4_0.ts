// Q4_0: 32 weights in 18 bytes: half d, 16 bytes of nibbles. y = (q - 8) * d; low nibbles are weights 0-15, high 16-31.

import { halfOf, nibbles, wordOf16 } from './bytes.ts'
import { encodeBlocks } from './encode.ts'
import { signedEncoder } from './encode-32.ts'
import type { Format } from './format.ts'
import { joinHalves } from './packed.ts'
import { packed32 } from './packed-32.ts'

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
    words: 4,
    scaleBytes: 32,
    bias: 8,
    small: true,
    word: (w, block, index) => wordOf16(w, block.mul(9).add(index.mul(2)).add(1)),
    packScales: (k, w, rows, out) => {
      for (let pair = 0; pair < 8; pair++)
        out.scale(k.const('u32', 0), pair, joinHalves(w.at(rows[2 * pair]!.mul(9)), w.at(rows[2 * pair + 1]!.mul(9))))
    },
    scales: (_k, tile, group) => tile.halves(0, group),
  }),
  encode: (values) => encodeBlocks('q4_0', values, encodeBlock),
}
