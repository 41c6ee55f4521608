// Q5_1: 32 weights in 24 bytes: half d, half m, 4 bytes with the fifth bits, 16 bytes of nibbles. y = q * d + m.

import { nibbles } from './bytes.ts'
import { encodeBlocks } from './encode.ts'
import { rangedEncoder } from './encode-32.ts'
import type { Format } from './format.ts'
import { withFifthBits } from './q5_0.ts'

const encodeBlock = rangedEncoder(5)

export const q5_1: Format<'u32'> = {
  name: 'q5_1',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(6))
    const dm = w.at(block).unpackF16()
    const [d, m] = [k.let('d', dm.lane(0)), k.let('m', dm.lane(1))]
    const words = nibbles(k, (i) => w.at(block.add(2 + i)))
    return withFifthBits(k, k.let('high', w.at(block.add(1))), words).map((q) => q.to('f32').mul(d).add(m))
  },
  encode: (values) => encodeBlocks('q5_1', values, encodeBlock),
}
