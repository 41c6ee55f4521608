// What the mat-mats of GPUs share: what they are written for, and reading matrices four elements at a time, whatever the length of rows.

import type { LaneScope, Readable } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import type { Format, Weights } from '../../quant/format.ts'
import type { LinearParams } from './params.ts'

export interface MatmulTraits {
  readonly format: string
  readonly bias: boolean
  /** the last step goes past the end of k */
  readonly ragged: boolean
  /** rows of x and w start at multiples of four elements */
  readonly aligned: boolean
}

/** For kernels that take k in steps of `step`. */
export function traitsOf({ format, bias, k }: LinearParams, step: number): MatmulTraits {
  return { format, bias, ragged: k % step !== 0, aligned: k % 4 === 0 }
}

/** Elements `at`, at + 1... of a row; `aligned` says that rows are multiples of four elements, and `at` always is. */
export interface Place {
  readonly row: Value<'u32'>
  readonly at: Value<'u32'>
  /** length of a row */
  readonly inner: Value<'u32'>
  readonly aligned: boolean
}

/** Four elements of x, which is seen as vectors of four where rows are aligned. Past the end of an aligned row: its last four. */
export function rowFour(k: LaneScope, x: Readable<'f32x4' | 'f32', Uniformity>, { row, at, inner, aligned }: Place): Value<'f32x4'> {
  if (aligned)
    return x.at(
      row
        .mul(inner)
        .add(at.min(inner.sub(4)))
        .shr(2),
    ) as Value<'f32x4'>
  return oneByOne(k, at, inner, (d) => x.at(row.mul(inner).add(d)) as Value<'f32'>)
}

/** Four weights of a format of single elements; past the end of an aligned row: its last four. */
export function weightFour(
  k: LaneScope,
  element: NonNullable<Format['element']>,
  w: Weights,
  { row, at, inner, aligned }: Place,
): Value<'f32x4'> {
  if (aligned) return element.four(w, row.mul(inner).add(at.min(inner.sub(4))))
  return oneByOne(k, at, inner, (d) => element.one(w, row.mul(inner).add(d)))
}

/** Those past the end are 0. */
function oneByOne(k: LaneScope, at: Value<'u32'>, inner: Value<'u32'>, one: (d: Value<'u32'>) => Value<'f32'>): Value<'f32x4'> {
  const element = (i: number): Value<'f32'> => {
    const place = at.add(i)
    return place.lt(inner).select(one(place.min(inner.sub(1))), 0)
  }
  return k.vec(element(0), element(1), element(2), element(3))
}
