// The subgroup products of the formats with blocks of 32 weights. Two lanes share a block, so a subgroup of 32 has sixteen in flight;
// each keeps its 16 activations in registers for a few rows. A format says where its words are, what is added to its quants, its scale
// and minimum.

import { item } from '../../base/list.ts'
import type { Scope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { wordOf16 } from '../unaligned.ts'
import type { WeightStorage, Weights } from '../weight-storage.ts'
import { type SubgroupDot, maskBytes, scaleBytes } from './dot.ts'

export interface Blocks32<S extends WeightStorage> {
  /** elements of a block */
  readonly size: number
  /** rows of a subgroup */
  readonly rows: number
  /** how quants lie in a half block's words: `NIBBLES`, `FIVE` or `BYTES` */
  readonly masks: Masks
  /** weights are d * (quant - bias), or d * quant + m */
  readonly bias: number
  /** for the half `side` of a block: four words with four quants each, and the scales */
  read(k: Scope, w: Weights<S>, block: Value<'u32'>, side: Value<'u32'>): { words: Value<'u32'>[]; d: Value<'f32'>; m?: Value<'f32'> }
}

/** The bits of a quant in its byte, for each four of the lane's weights. */
type Masks = readonly [number, number, number, number]
export const NIBBLES: Masks = [0x0f, 0x0f, 0xf0, 0xf0]
export const FIVE: Masks = [0x1f, 0x1f, 0x1f, 0x1f]
export const BYTES: Masks = [0xff, 0xff, 0xff, 0xff]

/** Words of nibbles serve twice: for their low and for their high ones. */
export function twice(words: readonly Value<'u32'>[]): Value<'u32'>[] {
  return [...words, ...words]
}

/** Bit i of a nibble to bit 4 of byte i: the products with four powers of two do not meet. */
function fifth(bits: Value<'u32'>): Value<'u32'> {
  return bits.and(15).mul(0x02040810).and(0x10101010)
}

/** Quants of five bits, from two words of nibbles and the block's word of fifth bits. */
export function fiveBits(k: Scope, [a, b]: readonly [Value<'u32'>, Value<'u32'>], high: Value<'u32'>, side: Value<'u32'>): Value<'u32'>[] {
  const bits = k.let('bits', high.shr(side.mul(8)))
  const parts = [
    [a, 0],
    [b, 4],
    [a.shr(4), 16],
    [b.shr(4), 20],
  ] as const
  return parts.map(([word, shift]) => k.let('five', word.and(0x0f0f0f0f).or(fifth(bits.shr(shift)))))
}

export function pairOf16(k: Scope, w: Weights<'u16'>, at: Value<'u32'>): [Value<'u32'>, Value<'u32'>] {
  return [k.let('word', wordOf16(w, at)), k.let('word', wordOf16(w, at.add(2)))]
}

export function pairOf32(k: Scope, w: Weights<'u32'>, at: Value<'u32'>): [Value<'u32'>, Value<'u32'>] {
  return [k.let('word', w.at(at)), k.let('word', w.at(at.add(1)))]
}

/** A scale and a minimum in one word. */
export function scaleAndMin(k: Scope, w: Weights<'u32'>, block: Value<'u32'>): { d: Value<'f32'>; m: Value<'f32'> } {
  const both = k.let('both', w.at(block).unpackF16())
  return { d: both.lane(0), m: both.lane(1) }
}

export function dot32<S extends WeightStorage>({ size, rows: count, masks, bias, read }: Blocks32<S>): SubgroupDot<S> {
  const wide = masks === BYTES // halves of a block are consecutive weights, not nibbles of the same bytes
  return {
    rows: count,
    sharing: 2,
    write(k, subgroup, { x, w, inner, each }) {
      const blocks = k.let('blocks', inner.shr(5))
      const side = k.let('side', k.sublane.and(1))
      const place = k.let('place', side.mul(wide ? 4 : 2))
      k.for({ name: 'b', from: k.sublane.shr(1), to: blocks, step: subgroup / 2 }, (b) => {
        const at = k.let('at', b.mul(8).add(place))
        const activations = (wide ? [0, 1, 2, 3] : [0, 1, 4, 5]).map((i) => k.let('four', x.at(at.add(i))))
        const total = k.let('total', activations.reduce((a, c) => a.add(c)).hsum())
        const ready = activations.map((four, i) => scaleBytes(k, four, masks[i] === 0xf0 ? 4 : 0))
        each((row) => {
          const block = k.let('block', row.mul(blocks).add(b).mul(size))
          const { words, d, m } = read(k, w, block, side)
          const dots = words.map((word, i) => maskBytes(k, word, item(masks, i)).mul(item(ready, i)))
          const dot = dots.reduce((a, c) => a.add(c)).hsum()
          return m === undefined ? d.mul(dot.sub(total.mul(bias))) : d.mul(dot).add(m.mul(total))
        })
      })
    },
  }
}
