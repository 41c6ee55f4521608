// IQ4_XS: 256 weights in 136 bytes: half d, 16 bits of upper scale bits, 4 bytes of lower ones, 128 bytes of nibbles that choose
// from the table of IQ4_NL. 32 weights share a scale: y = d*(s - 32)*T[q].

import type { Value } from '../ir/value.ts'
import type { Format } from './format.ts'
import { IQ4_TABLE } from './iq4_nl.ts'
import { packedSigned } from './packed/blocks-k.ts'
import type { Field } from './packed/packed.ts'
import { halfOf, nibbles } from './unaligned.ts'

const WORDS = 136 / 4
/** makes the values of the table unsigned */
const BIAS = 128
const VALUES = IQ4_TABLE.map((value) => value + BIAS)
/** byte of a block where its nibbles begin: sixteen of them for each sub-block */
const QUANTS = 8

/** Word w of a pair of sub-blocks: places 4w.. of the even one in the low nibbles, of the odd one in the high ones. */
const pairedNibbles: Field = {
  bytes: 4,
  count: 32,
  write: (_k, read, i) => {
    const [pair, word] = [i.shr(3), i.and(7)]
    const at = pair.mul(32).add(word.and(3).mul(4)).add(QUANTS)
    const [even, odd] = [at, at.add(16)].map((place) => read(place, 4).shr(word.shr(2).mul(4)).and(0x0f0f0f0f)) as [
      Value<'u32'>,
      Value<'u32'>,
    ]
    return even.or(odd.shl(4))
  },
  define: (read, i) => {
    const at = QUANTS + 32 * (i >> 3) + 4 * (i & 3)
    const [even = 0, odd = 0] = [at, at + 16].map((place) => (read(place, 4) >>> (4 * ((i & 7) >> 2))) & 0x0f0f0f0f)
    return (even | (odd << 4)) >>> 0
  },
}

/** The eight scales less 32 as signed bytes, four to a word. */
const signedScales: Field = {
  bytes: 4,
  count: 2,
  write: (_k, read, i) => {
    const low = read(i.mul(0).add(4), 4).shr(i.mul(16))
    const high = read(i.mul(0).add(2), 2).shr(i.mul(8))
    const bytes = [0, 1, 2, 3].map((sub) => {
      const scale = low
        .shr(4 * sub)
        .and(15)
        .or(
          high
            .shr(2 * sub)
            .and(3)
            .shl(4),
        )
      return scale
        .sub(32)
        .and(255)
        .shl(8 * sub)
    })
    return bytes.reduce((a, b) => a.or(b))
  },
  define: (read, i) =>
    [0, 1, 2, 3].reduce((word, sub) => {
      const s = 4 * i + sub
      const scale = ((read(4, 4) >>> (4 * s)) & 15) | (((read(2, 2) >>> (2 * s)) & 3) << 4)
      return (word | (((scale - 32) & 255) << (8 * sub))) >>> 0
    }, 0),
}

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
  packed: packedSigned([pairedNibbles], signedScales, BIAS, (tile, pair, group) => (t) => {
    const q = tile.quants(pair.mul(8), t, group)
    return [q.and(0x0f0f0f0f).lookup16(VALUES), q.shr(4).and(0x0f0f0f0f).lookup16(VALUES)]
  }),
}
