// Elements of 8 and 16 bits inside 32-bit words, lowest first: taking them out and putting them in. Knows nothing of memories;
// the caller loads and stores the words (narrow.ts).

import { widthOf } from '../../base/dtype.ts'
import type { Builder } from '../build.ts'
import type { Node } from '../node.ts'
import type { Value } from '../value.ts'
import { constantOf } from './constant.ts'
import { u32, valueOf } from './rewrite.ts'
import { concat, part } from './vector.ts'

type U32 = Value<'u32'>

export interface Form {
  readonly bits: 8 | 16
  readonly kind: 'unsigned' | 'signed' | 'half'
}

/** How a memory holds its elements. */
export interface Packing extends Form {
  /** scalars of one element */
  readonly group: number
  /** several elements in a word (true) or each in a word of its own */
  isPacked: boolean
  /** some stores write parts of words */
  isAtomic: boolean
}

/** `count` scalars from number `first` on, which is a multiple of `alignment`. */
export function extract(builder: Builder, packing: Form, word: (index: U32) => U32, first: U32, alignment: number, count: number): Node {
  const each = 32 / packing.bits
  if (count % each === 0 && alignment >= each) {
    const base = first.div(each)
    const words = Array.from({ length: count / each }, (_, at) => unpackWord(builder, packing, word(base.add(at))))
    return concat(builder, words)
  }
  const isInOne = count <= each && alignment >= count
  const lanes = Array.from({ length: count }, (_, lane) => {
    const number = first.add(lane)
    const bits = isInOne ? word(first.div(each)) : word(number.div(each))
    const shift = isInOne
      ? first
          .rem(each)
          .mul(packing.bits)
          .add(lane * packing.bits)
      : number.rem(each).mul(packing.bits)
    return unpackOne(packing, bits, shift).node
  })
  return concat(builder, lanes)
}

/**
 * `count` scalars from number `first` on, one by one. Where they start within a word is not known: words are loaded as they lie,
 * each once, and shifted into place. No word is touched that holds none of the scalars.
 */
export function extractRun(
  builder: Builder,
  packing: Form,
  word: (index: U32) => U32,
  first: U32,
  alignment: number,
  count: number,
): Node[] {
  const { bits } = packing
  const each = 32 / bits
  const base = first.div(each)
  const sure = Math.floor((count - 1) / each)
  const words = Array.from({ length: sure + 1 }, (_, at) => word(base.add(at)))
  const isAligned = alignment >= each
  if (!isAligned && Math.floor((each + count - 2) / each) > sure) words.push(word(first.add(count - 1).div(each)))
  const shift = first.rem(each).mul(bits)
  const placed = words.slice(0, sure + 1).map((low, at) => {
    const high = words[at + 1]
    if (isAligned) return low
    // two shifts, because one by 32 would be none
    const shifted = high === undefined ? low.shr(shift) : low.shr(shift).or(high.shl(bits).shl(u32(builder, 32 - bits).sub(shift)))
    return valueOf<'u32'>(builder, builder.bind('word', shifted.node))
  })
  // the last of them may not be full
  return placed
    .flatMap((bitsOfWord) => Array.from({ length: each }, (_, at) => unpackOne(packing, bitsOfWord, u32(builder, at * bits)).node))
    .slice(0, count)
}

function unpackWord(builder: Builder, { bits, kind }: Form, word: U32): Node {
  if (kind === 'half') return word.unpackF16().node
  if (bits === 8) return kind === 'signed' ? word.unpackI8().node : word.unpackU8().node
  const low = kind === 'signed' ? word.shl(16).as('i32').shr(16) : word.and(0xffff)
  const high = kind === 'signed' ? word.as('i32').shr(16) : word.shr(16)
  return concat(builder, [low.node, high.node])
}

function unpackOne({ bits, kind }: Form, word: U32, shift: U32): Value<'u32'> | Value<'i32'> | Value<'f32'> {
  const known = constantOf(shift.node)
  if (kind === 'half') return known === undefined ? word.shr(shift).unpackF16().lane(0) : word.unpackF16().lane(known / 16)
  const down = word.shr(shift)
  if (kind === 'signed')
    return down
      .shl(32 - bits)
      .as('i32')
      .shr(32 - bits)
  return known === 32 - bits ? down : down.and(2 ** bits - 1)
}

/** How words are written: whole, or the bits under a mask (others of `bits` are zero). */
export interface Store {
  whole(index: U32, bits: U32): void
  partial(index: U32, bits: U32, mask: U32): void
}

/** Puts the elements of `value` in, from number `first` on, which is a multiple of `alignment`. */
export function insert(builder: Builder, packing: Form, first: U32, alignment: number, value: Node, store: Store): void {
  const each = 32 / packing.bits
  const count = widthOf(value.dtype)
  const lanes = Array.from({ length: count }, (_, lane) => part(builder, value, lane, 1))
  if (count % each === 0 && alignment >= each) {
    const base = first.div(each)
    for (let at = 0; at < count / each; at++) {
      store.whole(base.add(at), packWord(builder, packing, lanes.slice(at * each, (at + 1) * each)))
    }
    return
  }
  const together = count <= each && alignment >= count ? count : 1
  for (let lane = 0; lane < count; lane += together) {
    const number = first.add(lane)
    const shift = number.rem(each).mul(packing.bits)
    const mask = u32(builder, 2 ** (packing.bits * together) - 1)
    store.partial(number.div(each), packWord(builder, packing, lanes.slice(lane, lane + together)).shl(shift), mask.shl(shift))
  }
}

/** Some elements, lowest first, the rest of the word zero. */
function packWord(builder: Builder, { bits, kind }: Form, lanes: readonly Node[]): U32 {
  if (kind === 'half') {
    const pair = lanes.length === 1 ? [...lanes, builder.constant(0, 'f32')] : lanes
    return valueOf<'f32x2'>(builder, builder.vec(pair)).packF16()
  }
  if (lanes.length === 4) return valueOf<'u32x4'>(builder, builder.vec(lanes)).packI8()
  const fields = lanes.map((node, lane) =>
    valueOf<'u32'>(builder, node)
      .as('u32')
      .and(2 ** bits - 1)
      .shl(lane * bits),
  )
  return fields.reduce((all, one) => all.or(one))
}
