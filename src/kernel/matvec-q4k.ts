// The mat-vec that decoding spends its time in: Q4_K weights, one vector, subgroups. Eight lanes share a block of 256 weights, so a
// subgroup of 32 has four blocks in flight; each takes two rows and keeps its 32 activations in registers for both. Quants are masked
// where they lie and never shifted: the activations carry the missing powers of two.

import type { Caps } from '../base/caps.ts'
import type { Value } from '../ir/value.ts'
import type { LinearParams } from './linear-params.ts'
import { maskBytes, matvecRows, scaleBytes } from './matvec-rows.ts'
import type { Work } from './record.ts'

const ROWS = 2
const BLOCK_WORDS = 144 / 4
/** lanes that share a block */
const SHARING = 8

export const canQ4K = (caps: Caps): boolean => caps.subgroup >= SHARING

export function matvecQ4K(caps: Caps, params: LinearParams): Work {
  return matvecRows(caps, params, 'u32', ROWS, (k, { x, w, inner, each }) => {
    const blocks = k.let('blocks', inner.shr(8))
    // Lane plan: `side` says which 64 of a 128-weight half, `part` which 8 of each 32; all four sub-blocks of that place are ours.
    const part = k.let('part', k.sublane.and(3))
    const side = k.let('side', k.sublane.shr(2).and(1))
    const place = k.let('place', side.mul(16).add(part.mul(2))) // in vectors of four activations
    const word = k.let('word', side.mul(8).add(part.mul(2))) // in words of quants
    const shift = k.let('shift', side.mul(16))

    k.for({ name: 'b', from: k.sublane.div(SHARING), to: blocks, step: caps.subgroup / SHARING }, (b) => {
      // Sub-blocks 2*side, 2*side + 1 and, half a block further, 2*side + 4, 2*side + 5: eight activations of each.
      const at = k.let('at', b.mul(64).add(place))
      const activations = [0, 8, 32, 40].map((offset) => [0, 1].map((i) => k.let('four', x.at(at.add(offset + i)))))
      const totals = k.let('totals', k.vec(...activations.map((pair) => pair[0]!.add(pair[1]!).hsum())) as Value<'f32x4'>)
      const ready = activations.map((pair, sub) => pair.map((four) => scaleBytes(k, four, 4 * (sub % 2))))

      each((row) => {
        const block = k.let('block', row.mul(blocks).add(b).mul(BLOCK_WORDS))
        const d = k.let('d', w.at(block).unpackF16())
        const quants = [0, 16].map((half) => [0, 1].map((i) => k.let('quant', w.at(block.add(4 + half + i).add(word)))))
        const dots = ready.map((pair, sub) =>
          pair
            .map((four, i) => maskBytes(k, quants[sub >> 1]![i]!, sub % 2 === 0 ? 0x0f : 0xf0).mul(four))
            .reduce((a, c) => a.add(c))
            .hsum(),
        )

        // Bytes of scales and minimums for this side: two 6-bit pairs for the first half, two split 4+2-bit pairs for the second.
        const [s0, s1, s2] = [1, 2, 3].map((i) => k.let(`s${i - 1}`, w.at(block.add(i)).shr(shift))) as [
          Value<'u32'>,
          Value<'u32'>,
          Value<'u32'>,
        ]
        const scales = k.let(
          'scales',
          s0
            .and(0x3f3f)
            .or(s2.and(0x0f0f).or(s0.and(0xc0c0).shr(2)).shl(16))
            .unpackU8()
            .to('f32'),
        )
        const mins = k.let(
          'mins',
          s1
            .and(0x3f3f)
            .or(s2.shr(4).and(0x0f0f).or(s1.and(0xc0c0).shr(2)).shl(16))
            .unpackU8()
            .to('f32'),
        )
        return d
          .lane(0)
          .mul(scales.mul(k.vec(...dots) as Value<'f32x4'>).hsum())
          .sub(d.lane(1).mul(mins.mul(totals).hsum()))
      })
    })
  })
}
