// Q6_K: 256 weights in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed scales, half d.
// y = d*sc*(q - 32). Sub-block j of a half takes nibbles 32*(j & 1) on, high ones for j >= 2, and bits 2j of the upper bytes.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder has whole blocks; lists are indexed by counters of lists as long */

import { roundHalf } from '../base/half.ts'
import type { Value, VectorOf } from '../ir/value.ts'
import { byteOf16, halfOf, wordOf16 } from './unaligned.ts'
import { type BlockEncoder, clampRound, encodeBlocks, putHalf } from './encode/encode.ts'
import { type SubgroupDot, maskBytes, scaleBytes } from './dot/dot.ts'
import type { Format, Weights } from './format.ts'
import { interleaved } from './packed/interleaved.ts'
import { copied } from './packed/packed.ts'
import type { PackedWeights } from './packed/panel.ts'
import { fitScale } from './encode/search.ts'

const BYTES = 210
/** lanes that share half a block, 128 weights */
const SHARING = 8

export const q6_k: Format<'u16'> = {
  name: 'q6_k',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(BYTES))
    const [half, j] = [chunk.shr(2).and(1), chunk.and(3)]
    const start = block.shr(1)
    const d = k.let('d', halfOf(w.at(start.add(104))))
    const scales = [0, 1].map((i) => {
      const byte = byteOf16(w, block.add(192).add(half.mul(8)).add(j.mul(2)).add(i))
      return k.let('factor', d.mul(byte.shl(24).as('i32').shr(24).to('f32')))
    })
    const low = start.add(half.mul(32)).add(j.and(1).mul(16))
    const high = start.add(64).add(half.mul(16))
    return Array.from({ length: 8 }, (_, i) => {
      const nibble = wordOf16(w, low.add(2 * i))
        .shr(j.shr(1).mul(4))
        .and(0x0f0f0f0f)
      const upper = wordOf16(w, high.add(2 * i))
        .shr(j.mul(2))
        .and(0x03030303)
        .shl(4)
      return nibble
        .or(upper)
        .unpackU8()
        .to('f32')
        .sub(32)
        .mul(scales[i >> 2]!)
    })
  },
  packed: interleaved({
    quants: [copied(0, 4, 48)],
    scales: [copied(208, 2, 1), copied(192, 4, 4)],
    per: 16,
    scale: 'signed',
    offset: 32,
    largest: 63,
    run: 2,
    quantsOf,
  }),
  dot: dotQ6K(),
  encode: (values) => encodeBlocks('q6_k', values, encodeBlock),
}

const scales = new Float64Array(16)
const quants = new Uint8Array(256)

/** The scale of greatest size becomes -128, its d the others' unit; each is then chosen among neighbours by the error it leaves. */
const encodeBlock: BlockEncoder = (values, from, out, at) => {
  let greatest = 0
  for (let sub = 0; sub < 16; sub++) {
    scales[sub] = fitScale(values, from + 16 * sub, 16, 32)
    if (Math.abs(scales[sub]!) > Math.abs(greatest)) greatest = scales[sub]!
  }
  putHalf(out, at + 208, greatest / -128)
  const d = roundHalf(greatest / -128)
  for (let sub = 0; sub < 16; sub++) {
    const first = from + 16 * sub
    const near = d === 0 ? 0 : scales[sub]! / d
    let [best, chosen] = [measure(values, first, 0), 0]
    for (let scale = clampRound(near - 1, -128, 127); scale <= Math.min(127, near + 1.5); scale++) {
      const error = measure(values, first, d * scale)
      if (error >= best) continue
      best = error
      chosen = scale
    }
    out[at + 192 + sub] = chosen
    const inverse = d * chosen === 0 ? 0 : 1 / (d * chosen)
    for (let i = 0; i < 16; i++) quants[16 * sub + i] = clampRound(values[first + i]! * inverse, -32, 31) + 32
  }
  for (let half = 0; half < 2; half++) {
    for (let i = 0; i < 32; i++) {
      const [a, b, c, e] = [
        quants[128 * half + i]!,
        quants[128 * half + 32 + i]!,
        quants[128 * half + 64 + i]!,
        quants[128 * half + 96 + i]!,
      ]
      out[at + 64 * half + i] = (a & 15) | ((c & 15) << 4)
      out[at + 64 * half + 32 + i] = (b & 15) | ((e & 15) << 4)
      out[at + 128 + 32 * half + i] = (a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((e >> 4) << 6)
    }
  }
}

function measure(x: Float32Array, from: number, scale: number): number {
  const inverse = scale === 0 ? 0 : 1 / scale
  let error = 0
  for (let i = from; i < from + 16; i++) {
    const off = x[i]! - scale * clampRound(x[i]! * inverse, -32, 31)
    error += off * off
  }
  return error
}

/** Words of low nibbles, of two sub-blocks each, then of upper bits, of four. */
function quantsOf(tile: PackedWeights, half: Value<'u32'>, word: Value<'u32'>, plus: number, group: number): VectorOf<'u32'>[] {
  const first = tile.quants(half.mul(16).add(word), plus, group)
  const second = tile.quants(half.mul(16).add(word), 8 + plus, group)
  const upper = tile.quants(half.mul(8).add(word), 32 + plus, group)
  return [
    first.and(0x0f0f0f0f).or(upper.shl(4).and(0x30303030)),
    second.and(0x0f0f0f0f).or(upper.shl(2).and(0x30303030)),
    first.shr(4).and(0x0f0f0f0f).or(upper.and(0x30303030)),
    second.shr(4).and(0x0f0f0f0f).or(upper.shr(2).and(0x30303030)),
  ]
}

/**
 * Each lane takes the same four places in the four sub-blocks of a half block, whose quants share their words: 4 low bits of one nibble,
 * 2 high bits of a common byte. Bytes are masked where they lie; only whole words are shifted, once for four weights.
 */
function dotQ6K(): SubgroupDot<'u16'> {
  return {
    rows: 2,
    sharing: SHARING,
    write(k, subgroup, { x, w, inner, each }) {
      const blocks = k.let('blocks', inner.shr(8))
      const part = k.let('part', k.sublane.and(SHARING - 1))
      // A scale belongs to 16 weights: to ours, the low or the high byte of four neighbouring elements.
      const late = k.let('late', part.ge(4))
      const byte = k.let('byte', late.select(k.const('u32', 0xff00), 0x00ff))
      const sign = k.let('sign', late.select(k.const('u32', 0x8000), 0x0080))
      const unit = k.let('unit', late.select(k.const('f32', 1 / 256), 1))

      k.for({ name: 'h', from: k.sublane.div(SHARING), to: blocks.mul(2), step: subgroup / SHARING }, (h) => {
        const [b, half] = [k.let('b', h.shr(1)), k.let('side', h.and(1))]
        const at = k.let('at', h.mul(32).add(part))
        const activations = [0, 8, 16, 24].map((offset) => k.let('four', x.at(at.add(offset))))
        // Quants are stored with 32 added.
        const excess = k.let('excess', (k.vec(...activations.map((four) => four.hsum())) as Value<'f32x4'>).mul(32))
        const ready = activations.map((four) => scaleBytes(k, four))

        each((row) => {
          const block = k.let(
            'block',
            row
              .mul(blocks)
              .add(b)
              .mul(BYTES / 2),
          )
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
          const dots = ready.map((four, sub) => maskBytes(k, quants[sub]!, 0x3f).mul(four).hsum())
          // Signed bytes without shifts: 128 more makes them unsigned.
          const scaleBytesOfHalf = w
            .load(block.add(half.mul(4)).add(96), 4)
            .and(byte)
            .xor(sign)
          const scales = k.let('scales', scaleBytesOfHalf.to('f32').mul(unit).sub(128))
          const d = k.let('d', w.at(block.add(104)).unpackF16().lane(0))
          return d.mul(scales.mul((k.vec(...dots) as Value<'f32x4'>).sub(excess)).hsum())
        })
      })
    },
  }
}

/** A word at any even byte. */
function wordAt(w: Weights<'u16'>, at: Value<'u32'>): Value<'u32'> {
  const pair = w.load(at, 2)
  return pair.lane(0).or(pair.lane(1).shl(16))
}
