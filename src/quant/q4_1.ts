// Q4_1: 32 weights in 20 bytes: half d, half m, 16 bytes of nibbles. y = q * d + m.

import { nibbles } from './bytes.ts'
import { encodeBlocks } from './encode.ts'
import { rangedEncoder } from './encode-32.ts'
import type { Format } from './format.ts'

const encodeBlock = rangedEncoder(4)

export const q4_1: Format<'u32'> = {
  name: 'q4_1',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(5))
    const dm = w.at(block).unpackF16()
    const [d, m] = [k.let('d', dm.lane(0)), k.let('m', dm.lane(1))]
    return nibbles(k, (i) => w.at(block.add(1 + i))).map((q) => q.unpackU8().to('f32').mul(d).add(m))
  },
  encode: (values) => encodeBlocks('q4_1', values, encodeBlock),
}
