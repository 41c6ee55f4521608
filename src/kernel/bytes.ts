// Values as whole numbers with a scale, and bytes packed to words: what quantises activations and caches.

import { type Vector, widthOf } from '../base/dtype.ts'
import type { LaneScope } from '../ir/author.ts'
import type { Value, VectorOf } from '../ir/value.ts'

/** The largest absolute value. */
export function largest(k: LaneScope, values: readonly VectorOf<'f32'>[]): Value<'f32'> {
  return k.let(
    'top',
    values
      .map((some) => some.abs())
      .reduce((a, c) => a.max(c))
      .hmax(),
  )
}

/** What makes whole numbers up to `most` of values up to `top`. */
export function scaleOf(k: LaneScope, top: Value<'f32'>, most: number): { scale: Value<'f32'>; inverse: Value<'f32'> } {
  const inverse = top.gt(0).select(k.const('f32', most).div(top), k.const('f32', 0))
  return { scale: k.let('scale', top.div(most)), inverse: k.let('inverse', inverse) }
}

/** Values that share a scale, as bytes. */
export function toBytes(k: LaneScope, values: readonly VectorOf<'f32'>[]): { scale: Value<'f32'>; quants: VectorOf<'i32'>[] } {
  const { scale, inverse } = scaleOf(k, largest(k, values), 127)
  return { scale, quants: values.map((some) => k.let('quants', some.mul(inverse).rint().to('i32'))) }
}

/** The fours that a vector of any width is made of. */
export function fours(vector: Value<Vector<'i32'>>): Value<'i32x4'>[] {
  const width = widthOf(vector.dtype)
  return width === 4 ? [vector as Value<'i32x4'>] : Array.from({ length: width / 4 }, (_, i) => vector.slice(4 * i, 4))
}
