// Q4_0: 32 weights in 18 bytes: half d, 16 bytes of nibbles. y = (q - 8) * d; low nibbles are weights 0-15, high 16-31.

import { halfOf, nibbles, wordOf16 } from './bytes.ts'
import type { Format } from './format.ts'

export const q4_0: Format<'u16'> = {
  name: 'q4_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(9))
    const d = k.let('d', halfOf(w.at(block)))
    return nibbles(k, (i) => wordOf16(w, block.add(1 + 2 * i))).map((q) => q.unpackU8().to('f32').sub(8).mul(d))
  },
}
