// Floats as integers of the same order, so that choosing the largest is exact on every target, whatever it does with NaN and
// signed zeros: NaN comes below -Infinity, -0 equals 0. Ties go to the lowest id.

import type { Elements, Value, VectorOf } from '../../ir/value.ts'
import type { Combiner } from '../lanes.ts'

/** Below the key of any value, NaN included: nothing was seen. */
export const NOTHING = -(2 ** 31)
/** The id that goes with NOTHING. */
export const NO_ID = 0xffffffff

const INFINITY_BITS = 0x7f800000
const MAGNITUDE = 0x7fffffff

/** The key of an f32, or keys of a vector of them; `flip` reverses the order, keeping NaN lowest. */
export function orderKey(value: Value<'f32'>, flip?: boolean): Value<'i32'>
export function orderKey(value: VectorOf<'f32'>, flip?: boolean): VectorOf<'i32'>
export function orderKey(value: Elements<'f32'>, flip = false): Elements<'i32'> {
  const bits = value.as('i32')
  const size = bits.and(MAGNITUDE)
  const negative = flip ? bits.ge(0) : bits.lt(0)
  const key = negative.select(size.neg(), size)
  return size.gt(INFINITY_BITS).select(key.mul(0).add(NOTHING + 1), key)
}

/** The same order in JavaScript: ids of the values from the largest to the smallest. */
export function ranking(values: readonly number[]): number[] {
  const compare = (a: number, b: number): number => {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b))
    return a === b ? 0 : b > a ? 1 : -1
  }
  return [...values.entries()].sort(([a, x], [b, y]) => compare(x, y) || a - b).map(([id]) => id)
}

/** The best of all lanes: the largest key, and of several the lowest id. */
export function combineBest(combine: Combiner, key: Value<'i32'>, id: Value<'u32'>): { key: Value<'i32'>; id: Value<'u32'> } {
  const best = combine('max', key)
  return { key: best, id: combine('min', key.eq(best).select(id, NO_ID)) }
}
