// MXFP4: 32 weights in 17 bytes: an exponent byte e, 16 bytes of 4-bit floats. y = 2^(e-128) * V[q], V being twice the E2M1 value.

import { nibbles, wordOf8 } from './bytes.ts'
import type { Format } from './format.ts'
import { joinBytes } from './packed.ts'
import { packed32 } from './packed-32.ts'

const VALUES = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const

export const mxfp4: Format<'u8'> = {
  name: 'mxfp4',
  storage: 'u8',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(17))
    const e = k.let('e', w.at(block))
    // Below e = 2 the power of two is subnormal and has no exponent bits.
    const power = e.lt(2).select(k.const('u32', 0x00200000).shl(e), e.sub(1).shl(23))
    const d = k.let('d', power.as('f32'))
    return nibbles(k, (i) => wordOf8(w, block.add(1 + 4 * i))).map((q) => q.lookup16(VALUES).unpackI8().to('f32').mul(d))
  },
  packed: packed32({
    words: 4, scaleBytes: 16, bias: 12, small: true,
    word: (w, block, index) => wordOf8(w, block.mul(17).add(1 + 4 * index)),
    value: (nibbles) => nibbles.lookup16(VALUES.map((value) => value + 12)),
    packScales: (_k, w, rows, out) => {
      for (let four = 0; four < 4; four++) out.scale(four, joinBytes(rows.slice(4 * four, 4 * four + 4).map((row) => w.at(row.mul(17)))))
    },
    // 2^(e - 128) as a product, since the power alone may be subnormal: 2^(e/2 - 64) * 2^(e - e/2 - 64).
    scales: (tile, group) => {
      const e = tile.bytes(0, group).to('u32')
      const power = (exponent: typeof e) => exponent.add(127 - 64).shl(23).as('f32')
      return power(e.shr(1)).mul(power(e.sub(e.shr(1))))
    },
  }),
}
