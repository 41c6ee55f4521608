// MXFP4: 32 weights in 17 bytes: an exponent byte e, 16 bytes of 4-bit floats. y = 2^(e-128) * V[q], V being twice the E2M1 value.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { nibbles, wordOf8 } from './unaligned.ts'
import { type BlockEncoder, encodeBlocks } from './encode/encode.ts'
import { largest } from './encode/blocks-32.ts'
import type { Format } from './format.ts'
import { packed32 } from './packed/blocks-32.ts'
import { copied } from './packed/packed.ts'

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
    quants: copied(1, 4, 4),
    scale: copied(0, 1, 1),
    bias: 12,
    small: true,
    largest: 24,
    value: (nibbles) => nibbles.lookup16(VALUES.map((value) => value + 12)),
    // 2^(e - 128) as a product, since the power alone may be subnormal: 2^(e/2 - 64) * 2^(e - e/2 - 64).
    scales: (_k, tile, group) => {
      const e = tile.bytes(0, group).to('u32')
      const power = (exponent: typeof e) =>
        exponent
          .add(127 - 64)
          .shl(23)
          .as('f32')
      return power(e.shr(1)).mul(power(e.sub(e.shr(1))))
    },
  }),
  encode: (values) => encodeBlocks('mxfp4', values, encodeBlock),
}

/** Limits between neighbouring values of the positive half: halfway, and there to the nearer to zero. */
const LIMITS = [0.5, 1.5, 2.5, 3.5, 5, 7, 10] as const

/** The exponent makes the greatest size lie in the top octave, 4 to 8 as E2M1; what is past 6 rounds down to it. */
const encodeBlock: BlockEncoder = (values, from, out, at) => {
  const size = Math.abs(largest(values, from))
  const e = size > 0 ? Math.min(254, Math.max(0, exponentOf(size) - 2 + 127)) : 0
  const d = 2 ** (e - 128)
  out[at] = e
  for (let i = 0; i < 16; i++) out[at + 1 + i] = nearest(values[from + i]! / d) | (nearest(values[from + i + 16]! / d) << 4)
}

function nearest(value: number): number {
  const size = Math.abs(value)
  let q = 0
  while (q < 7 && size > LIMITS[q]!) q++
  return value < 0 && q > 0 ? q | 8 : q
}

/** floor(log2(size)), exactly */
function exponentOf(size: number): number {
  const guess = Math.floor(Math.log2(size))
  if (2 ** guess > size) return guess - 1
  return 2 ** (guess + 1) <= size ? guess + 1 : guess
}
