// Elements as unsigned integers of the same order, made of their bits, so that sorting is exact on every target: -0 equals 0, NaN comes
// last, whichever way it goes. A key has as many bits as the element.

import { ELEMENT_BYTES } from '../../base/element.ts'
import type { Value } from '../../ir/value.ts'
import { type Word, wordsOf } from '../move/word.ts'

export const SORT_TYPES = ['f32', 'f16', 'bf16', 'i32', 'u32', 'i8', 'u8'] as const
export type SortType = (typeof SORT_TYPES)[number]

/** x is [rows, cols], y as well. */
export interface ArgsortParams {
  readonly type: SortType
  readonly rows: number
  readonly cols: number
  readonly descending: boolean
}

/** Bits of infinity. */
const INFINITY = { f32: 0x7f800000, f16: 0x7c00, bf16: 0x7f80 } as const

/** Bytes of a key, which is read as one word. */
export function keyBytes(type: SortType): number {
  return ELEMENT_BYTES[type]
}

export function keyWord(type: SortType): Word {
  return wordsOf(type).word
}

/** The bit that has the sign. */
function signOf(type: SortType): number {
  return 2 ** (8 * keyBytes(type) - 1)
}

function isFloat(type: SortType): type is keyof typeof INFINITY {
  return type in INFINITY
}

/** What a kernel is given to sort downwards: the bits to turn over. */
export function flipOf(type: SortType, descending: boolean): number {
  if (!descending) return 0
  return isFloat(type) ? signOf(type) : 2 * signOf(type) - 1
}

/** The key of an element, given its bits. */
export function sortKey(type: SortType, word: Value<'u32'>, flip: Value<'u32'>): Value<'u32'> {
  const sign = signOf(type)
  if (!isFloat(type)) return (type.startsWith('i') ? word.xor(sign) : word).xor(flip)
  const size = word.and(sign - 1)
  const isBelow = word.xor(flip).and(sign).ne(0)
  const key = isBelow.select(size.neg(), size).add(sign)
  return size.gt(INFINITY[type]).select(key.mul(0).add(2 * sign - 1), key)
}

/** In JavaScript: the order that sorts these values, equal ones as they are. */
export function sortingOrder(values: ArrayLike<number>, descending: boolean): Uint32Array {
  const order = Uint32Array.from({ length: values.length }, (_, i) => i)
  const at = (i: number): number => values[i] ?? NaN
  return order.sort((a, b) => {
    const [x, y] = [at(a), at(b)]
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b
    return x === y ? a - b : x < y === descending ? 1 : -1
  })
}
