// Q8_0: 32 weights in 34 bytes: half d, 32 signed bytes. y = q * d.

import { halfOf, wordOf16 } from './bytes.ts'
import type { Format } from './format.ts'

export const q8_0: Format<'u16'> = {
  name: 'q8_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.mul(17))
    const d = k.let('d', halfOf(w.at(block)))
    return Array.from({ length: 8 }, (_, i) => wordOf16(w, block.add(1 + 2 * i)).unpackI8().to('f32').mul(d))
  },
}
