// Q4_K: 256 weights in 144 bytes: half d, half dmin, 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles.
// Sub-block s (32 weights): y = d*sc[s]*q - dmin*m[s]. Each 32 bytes of nibbles hold sub-block 2g low and 2g+1 high.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { item } from '../base/list.ts'
import type { Value } from '../ir/value.ts'
import { type SubgroupDot, maskBytes, scaleBytes } from './dot/dot.ts'
import { rangedSuperEncoder } from './encode/blocks-k.ts'
import { encodeBlocks } from './encode/encode.ts'
import type { Format, Weights } from './format.ts'
import { packedK } from './packed/blocks-k.ts'
import { copied } from './packed/packed.ts'

const WORDS = 144 / 4
/** lanes that share a block of 256 weights: a subgroup of 32 has four in flight */
const SHARING = 8

/** The 6-bit scale and minimum of sub-block `sub`, out of three words of packed scales. */
export function scaleAndMin(w: Weights<'u32'>, first: Value<'u32'>, sub: Value<'u32'>): { scale: Value<'u32'>; min: Value<'u32'> } {
  // Bytes 0-3: scales 0-3 in 6 bits, bytes 4-7: minimums 0-3; bytes 8-11: low nibbles of scale and minimum 4-7, whose
  // upper two bits sit in the top of bytes 0-7.
  const shift = sub.and(3).mul(8)
  const byteOf = (word: number): Value<'u32'> => w.at(first.add(word)).shr(shift).and(255)
  const [a, b, c] = [byteOf(0), byteOf(1), byteOf(2)]
  const high = sub.ge(4)
  return {
    scale: high.select(c.and(15).or(a.shr(6).shl(4)), a.and(63)),
    min: high.select(c.shr(4).or(b.shr(6).shl(4)), b.and(63)),
  }
}

export const q4_k: Format<'u32'> = {
  name: 'q4_k',
  storage: 'u32',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(WORDS))
    const sub = k.let('sub', chunk.and(7))
    const d = w.at(block).unpackF16()
    const { scale, min } = scaleAndMin(w, block.add(1), sub)
    const factor = k.let('factor', d.lane(0).mul(scale.to('f32')))
    const offset = k.let('offset', d.lane(1).mul(min.to('f32')))
    const nibble = sub.and(1).mul(4)
    const quants = block.add(4).add(sub.shr(1).mul(8))
    return Array.from({ length: 8 }, (_, i) => {
      const q = w.at(quants.add(i)).shr(nibble).and(0x0f0f0f0f).unpackU8()
      return q.to('f32').mul(factor).sub(offset)
    })
  },
  packed: {
    ...packedK([copied(16, 4, 32)], 15, (tile, pair, word, t, group) => {
      const q = tile.quants(pair.mul(8).add(word), t, group)
      return [q.and(0x0f0f0f0f), q.shr(4).and(0x0f0f0f0f)]
    }),
    streamed: true,
  },
  dot: dotQ4K(),
  encode: (values) => encodeBlocks('q4_k', values, encodeBlock),
}

const encodeBlock = rangedSuperEncoder(15, putNibbles)

/** The low four bits of 256 quants. */
export function putNibbles(quants: Uint8Array, out: Uint8Array, at: number): void {
  for (let i = 0; i < 128; i++) {
    const even = ((i >> 5) << 6) + (i & 31)
    out[at + i] = (quants[even]! & 15) | ((quants[even + 32]! & 15) << 4)
  }
}

/** What decoding on GPUs spends its time in. Each lane keeps 32 activations in registers for two rows. */
function dotQ4K(): SubgroupDot<'u32'> {
  return {
    rows: 2,
    sharing: SHARING,
    write(k, subgroup, { x, w, inner, each }) {
      const blocks = k.let('blocks', inner.shr(8))
      // `side` says which 64 of a 128-weight half, `part` which 8 of each 32; all four sub-blocks of that place are ours.
      const part = k.let('part', k.sublane.and(3))
      const side = k.let('side', k.sublane.shr(2).and(1))
      const place = k.let('place', side.mul(16).add(part.mul(2))) // in vectors of four activations
      const word = k.let('word', side.mul(8).add(part.mul(2))) // in words of quants
      const shift = k.let('shift', side.mul(16))

      k.for({ name: 'b', from: k.sublane.div(SHARING), to: blocks, step: subgroup / SHARING }, (b) => {
        // Sub-blocks 2*side, 2*side + 1 and, half a block further, 2*side + 4, 2*side + 5: eight activations of each.
        const at = k.let('at', b.mul(64).add(place))
        const activations = [0, 8, 32, 40].map((offset) => [0, 1].map((i) => k.let('four', x.at(at.add(offset + i)))))
        const totals = k.let('totals', k.vec(...activations.map((pair) => pair.reduce((a, c) => a.add(c)).hsum())) as Value<'f32x4'>)
        const ready = activations.map((pair, sub) => pair.map((four) => scaleBytes(k, four, 4 * (sub % 2))))

        each((row) => {
          const block = k.let('block', row.mul(blocks).add(b).mul(WORDS))
          const d = k.let('d', w.at(block).unpackF16())
          const quants = [0, 16].map((half) => [0, 1].map((i) => k.let('quant', w.at(block.add(4 + half + i).add(word)))))
          const dots = ready.map((pair, sub) =>
            pair
              .map((four, i) => maskBytes(k, item(item(quants, sub >> 1), i), sub % 2 === 0 ? 0x0f : 0xf0).mul(four))
              .reduce((a, c) => a.add(c))
              .hsum(),
          )
          // Bytes of scales and minimums for this side: two 6-bit pairs for the first half, two split 4+2-bit pairs for the second.
          const scaleWord = (index: number): Value<'u32'> => k.let(`s${index}`, w.at(block.add(1 + index)).shr(shift))
          const [s0, s1, s2] = [scaleWord(0), scaleWord(1), scaleWord(2)]
          const bytes = (whole: Value<'u32'>, split: Value<'u32'>): Value<'f32x4'> =>
            whole
              .and(0x3f3f)
              .or(split.and(0x0f0f).or(whole.and(0xc0c0).shr(2)).shl(16))
              .unpackU8()
              .to('f32')
          const scales = k.let('scales', bytes(s0, s2))
          const mins = k.let('mins', bytes(s1, s2.shr(4)))
          const dot = scales.mul(k.vec(...dots) as Value<'f32x4'>).hsum()
          return d
            .lane(0)
            .mul(dot)
            .sub(d.lane(1).mul(mins.mul(totals).hsum()))
        })
      })
    },
  }
}
