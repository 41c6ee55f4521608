// The mat-vec of Q6_K weights for one vector, with subgroups. Eight lanes share half a block, 128 weights; each takes the same four places
// in its four sub-blocks, whose quants share their words: 4 low bits of one nibble, 2 high bits of a common byte. Bytes of quants and
// of scales are masked where they lie; only whole words are shifted, once for four weights.

import type { Caps } from '../base/caps.ts'
import type { Value } from '../ir/value.ts'
import type { Weights } from '../quant/format.ts'
import type { LinearParams } from './linear-params.ts'
import { maskBytes, matvecRows, scaleBytes } from './matvec-rows.ts'
import type { Work } from './record.ts'

const ROWS = 2
/** 210 bytes, which are aligned to two only */
const BLOCK_HALVES = 105
/** lanes that share half a block */
const SHARING = 8

export const canQ6K = (caps: Caps): boolean => caps.subgroup >= SHARING

export function matvecQ6K(caps: Caps, params: LinearParams): Work {
  return matvecRows(caps, params, 'u16', ROWS, (k, { x, w, inner, each }) => {
    const blocks = k.let('blocks', inner.shr(8))
    const part = k.let('part', k.sublane.and(SHARING - 1))
    // A scale belongs to 16 weights: to ours, the low or the high byte of four neighbouring elements.
    const late = k.let('late', part.ge(4))
    const [byte, sign] = [
      k.let('byte', late.select(k.const('u32', 0xff00), 0x00ff)),
      k.let('sign', late.select(k.const('u32', 0x8000), 0x0080)),
    ]
    const unit = k.let('unit', late.select(k.const('f32', 1 / 256), 1))

    k.for({ name: 'h', from: k.sublane.div(SHARING), to: blocks.mul(2), step: caps.subgroup / SHARING }, (h) => {
      const [b, half] = [k.let('b', h.shr(1)), k.let('side', h.and(1))]
      const at = k.let('at', h.mul(32).add(part))
      const activations = [0, 8, 16, 24].map((offset) => k.let('four', x.at(at.add(offset))))
      // Quants are stored with 32 added.
      const excess = k.let('excess', (k.vec(...activations.map((four) => four.hsum())) as Value<'f32x4'>).mul(32))
      const ready = activations.map((four) => scaleBytes(k, four))

      each((row) => {
        const block = k.let('block', row.mul(blocks).add(b).mul(BLOCK_HALVES))
        const low = k.let('low', block.add(half.mul(32)).add(part.mul(2)))
        const first = k.let('first', wordAt(w, low))
        const second = k.let('second', wordAt(w, low.add(16)))
        const upper = k.let('upper', wordAt(w, block.add(half.mul(16)).add(part.mul(2)).add(64)))
        const quants = [
          first.and(0x0f0f0f0f).or(upper.and(0x03030303).shl(4)),
          second.and(0x0f0f0f0f).or(upper.and(0x0c0c0c0c).shl(2)),
          first.shr(4).and(0x0f0f0f0f).or(upper.and(0x30303030)),
          second.shr(4).and(0x0f0f0f0f).or(upper.shr(2).and(0x30303030)),
        ].map((quant) => k.let('quant', quant))
        const dots = quants.map((quant, sub) => maskBytes(k, quant, 0x3f).mul(ready[sub]!).hsum())
        // Signed bytes without shifts: 128 more makes them unsigned.
        const bytes = w
          .load(block.add(half.mul(4)).add(96), 4)
          .and(byte)
          .xor(sign)
        const scales = k.let('scales', bytes.to('f32').mul(unit).sub(128))
        const d = k.let('d', w.at(block.add(104)).unpackF16().lane(0))
        return d.mul(scales.mul((k.vec(...dots) as Value<'f32x4'>).sub(excess)).hsum())
      })
    })
  })
}

/** A word at any even byte. */
function wordAt(w: Weights<'u16'>, at: Value<'u32'>): Value<'u32'> {
  const pair = w.load(at, 2)
  return pair.lane(0).or(pair.lane(1).shl(16))
}
