// The mat-vecs of the formats with blocks of 32 weights (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) for one vector, with subgroups. Two lanes share a
// block, so a subgroup of 32 has sixteen in flight; each keeps its 16 activations in registers for a few rows. Quants are masked where
// they lie, as bytes of words. A format is a row of a table: where its words are, what is added to its quants, its scale and minimum.

import type { Caps } from '../base/caps.ts'
import type { Scope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { halfOf, wordOf16 } from '../quant/bytes.ts'
import type { Weights } from '../quant/format.ts'
import type { LinearParams } from './linear-params.ts'
import { maskBytes, matvecRows, scaleBytes } from './matvec-rows.ts'
import type { Work } from './record.ts'

interface Layout<S extends 'u16' | 'u32'> {
  readonly storage: S
  /** elements of a block */
  readonly size: number
  /** rows of a subgroup */
  readonly rows: number
  /** the bits of a quant in its byte, for each four of the lane's weights */
  readonly masks: readonly [number, number, number, number]
  /** weights are d * (quant - bias), or d * quant + m */
  readonly bias: number
  /** for the half `side` of a block: four words with four quants each, and the scales */
  read(k: Scope, w: Weights<S>, block: Value<'u32'>, side: Value<'u32'>): { words: Value<'u32'>[]; d: Value<'f32'>; m?: Value<'f32'> }
}

const NIBBLES = [0x0f, 0x0f, 0xf0, 0xf0] as const
const FIVE = [0x1f, 0x1f, 0x1f, 0x1f] as const

/** The nibbles of a half block in two words, each with low and high ones. */
const nibbles = (words: readonly Value<'u32'>[]): Value<'u32'>[] => [...words, ...words]

/** Bit i of a nibble to bit 4 of byte i: the products with four powers of two do not meet. */
const fifth = (bits: Value<'u32'>): Value<'u32'> => bits.and(15).mul(0x02040810).and(0x10101010)

function withFifthBits(k: Scope, words: readonly Value<'u32'>[], high: Value<'u32'>, side: Value<'u32'>): Value<'u32'>[] {
  const bits = k.let('bits', high.shr(side.mul(8)))
  const five = [words[0]!, words[1]!, words[0]!.shr(4), words[1]!.shr(4)]
  return five.map((word, i) => k.let('five', word.and(0x0f0f0f0f).or(fifth(bits.shr([0, 4, 16, 20][i]!)))))
}

const pairOf16 = (k: Scope, w: Weights<'u16'>, at: Value<'u32'>): Value<'u32'>[] => [0, 2].map((i) => k.let('word', wordOf16(w, at.add(i))))
const pairOf32 = (k: Scope, w: Weights<'u32'>, at: Value<'u32'>): Value<'u32'>[] => [0, 1].map((i) => k.let('word', w.at(at.add(i))))

const q4_0: Layout<'u16'> = {
  storage: 'u16',
  size: 9,
  rows: 4,
  masks: NIBBLES,
  bias: 8,
  read: (k, w, block, side) => ({ words: nibbles(pairOf16(k, w, block.add(1).add(side.mul(4)))), d: halfOf(w.at(block)) }),
}
const q4_1: Layout<'u32'> = {
  storage: 'u32',
  size: 5,
  rows: 4,
  masks: NIBBLES,
  bias: 0,
  read: (k, w, block, side) => ({ words: nibbles(pairOf32(k, w, block.add(1).add(side.mul(2)))), ...scaleAndMin(k, w, block) }),
}
const q5_0: Layout<'u16'> = {
  storage: 'u16',
  size: 11,
  rows: 4,
  masks: FIVE,
  bias: 16,
  read: (k, w, block, side) => ({
    words: withFifthBits(k, pairOf16(k, w, block.add(3).add(side.mul(4))), wordOf16(w, block.add(1)), side),
    d: halfOf(w.at(block)),
  }),
}
const q5_1: Layout<'u32'> = {
  storage: 'u32',
  size: 6,
  rows: 4,
  masks: FIVE,
  bias: 0,
  read: (k, w, block, side) => ({
    words: withFifthBits(k, pairOf32(k, w, block.add(2).add(side.mul(2))), w.at(block.add(1)), side),
    ...scaleAndMin(k, w, block),
  }),
}
const q8_0: Layout<'u16'> = {
  storage: 'u16',
  size: 17,
  rows: 2,
  masks: [0xff, 0xff, 0xff, 0xff],
  bias: 128,
  read: (k, w, block, side) => ({
    // Signed bytes: 128 more makes them unsigned.
    words: [0, 2, 4, 6].map((i) => k.let('word', wordOf16(w, block.add(1 + i).add(side.mul(8))).xor(0x80808080))),
    d: halfOf(w.at(block)),
  }),
}

function scaleAndMin(k: Scope, w: Weights<'u32'>, block: Value<'u32'>): { d: Value<'f32'>; m: Value<'f32'> } {
  const both = k.let('both', w.at(block).unpackF16())
  return { d: both.lane(0), m: both.lane(1) }
}

const LAYOUTS: Readonly<Record<string, Layout<'u16'> | Layout<'u32'>>> = { q4_0, q4_1, q5_0, q5_1, q8_0 }

export const canBlock32 = (caps: Caps, format: string): boolean => caps.subgroup >= 2 && LAYOUTS[format] !== undefined

export function matvecBlock32(caps: Caps, params: LinearParams): Work {
  const layout = LAYOUTS[params.format] as unknown as Layout<'u16'>
  const wide = layout.masks[0] === 0xff // a byte per quant: halves of a block are consecutive weights, not nibbles of the same bytes
  return matvecRows(caps, params, layout.storage, layout.rows, (k, { x, w, inner, each }) => {
    const blocks = k.let('blocks', inner.shr(5))
    const side = k.let('side', k.sublane.and(1))
    const place = k.let('place', side.mul(wide ? 4 : 2))
    k.for({ name: 'b', from: k.sublane.shr(1), to: blocks, step: caps.subgroup / 2 }, (b) => {
      const at = k.let('at', b.mul(8).add(place))
      const activations = (wide ? [0, 1, 2, 3] : [0, 1, 4, 5]).map((i) => k.let('four', x.at(at.add(i))))
      const total = k.let('total', activations.reduce((a, c) => a.add(c)).hsum())
      const ready = activations.map((four, i) => scaleBytes(k, four, layout.masks[i] === 0xf0 ? 4 : 0))
      each((row) => {
        const block = k.let('block', row.mul(blocks).add(b).mul(layout.size))
        const { words, d, m } = layout.read(k, w, block, side)
        const dot = words
          .map((word, i) => maskBytes(k, word, layout.masks[i]!).mul(ready[i]!))
          .reduce((a, c) => a.add(c))
          .hsum()
        if (m !== undefined) return d.mul(dot).add(m.mul(total))
        return d.mul(dot.sub(total.mul(layout.bias)))
      })
    })
  })
}
