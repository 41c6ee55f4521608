// MXFP4: 32 weights in 17 bytes: an exponent byte e, 16 bytes of 4-bit floats. y = 2^(e-128) * V[q], V being twice the E2M1 value.

import { nibbles, wordOf8 } from './bytes.ts'
import type { Format } from './format.ts'

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
}
