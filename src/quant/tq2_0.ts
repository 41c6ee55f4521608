// TQ2_0: 256 ternary weights in 66 bytes: 64 bytes of 2-bit quants, half d. y = (q - 1) * d. Each byte serves weights 32 apart.

import type { Format } from './format.ts'
import { interleaved, twoBits } from './packed/interleaved.ts'
import { copied } from './packed/packed.ts'
import { halfOf, wordOf16 } from './unaligned.ts'

/** Elements of 16 bits in a block: 32 of quants, then d. */
const HALVES = 33

export const tq2_0: Format<'u16'> = {
  name: 'tq2_0',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(HALVES))
    const d = k.let('d', halfOf(w.at(block.add(32))))
    const quants = k.let('quants', block.add(chunk.shr(2).and(1).mul(16)))
    const shift = k.let('shift', chunk.and(3).mul(2))
    return Array.from({ length: 8 }, (_, i) => {
      const q = wordOf16(w, quants.add(2 * i)).shr(shift)
      return q.and(0x03030303).unpackU8().to('f32').sub(1).mul(d)
    })
  },
  packed: interleaved({
    quants: [copied(0, 4, 16)],
    scales: [copied(64, 2, 1)],
    per: 256,
    offset: 1,
    largest: 2,
    run: 2,
    streamed: true,
    quantsOf: twoBits,
  }),
}
