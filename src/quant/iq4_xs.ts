// IQ4_XS: 256 weights in 136 bytes: half d, 16 bits of upper scale bits, 4 bytes of lower ones, 128 bytes of nibbles that choose
// from the table of IQ4_NL. 32 weights share a scale: y = d*(s - 32)*T[q].

import { halfOf, nibbles } from './bytes.ts'
import type { Format } from './format.ts'
import { IQ4_TABLE } from './iq4_nl.ts'

const WORDS = 136 / 4

export const iq4_xs: Format<'u32'> = {
  name: 'iq4_xs',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const head = k.let('head', w.at(block))
    const low = w.at(block.add(1)).shr(sub.mul(4)).and(15)
    const high = head.shr(16).shr(sub.mul(2)).and(3)
    const factor = k.let('factor', halfOf(head).mul(low.or(high.shl(4)).to('i32').sub(32).to('f32')))
    const quants = block.add(2).add(sub.mul(4))
    return nibbles(k, (i) => w.at(quants.add(i))).map((q) => q.lookup16(IQ4_TABLE).unpackI8().to('f32').mul(factor))
  },
}
