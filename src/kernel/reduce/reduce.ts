// Reductions over any axes of an expression's values: sum, mean, max, min, prod, and the number of the largest or smallest one, counted
// over the reduced axes in order. The expression is read as maps read theirs (kernel/map), so that the sum of squares, or of a permuted
// tensor, is one pass over memory. Floats are summed in f32, integers wrap at 32 bits. Max and min of floats are NaN if one of them is
// (fold.ts); for the numbers, NaN loses and ties take the first (pick.ts).
//
// layout.ts decides how memory is walked:
// - rows: along the last reduced axis; a workgroup per result, or several
// - columns: along the last kept axis; a lane per result, or a strip of them
// Where results are few or made of many elements, parts are reduced into scratch memory, which more launches reduce.

import type { Caps } from '../../base/caps.ts'
import type { Register } from '../element.ts'
import { family } from '../family.ts'
import { countOperations, evaluate, typeOf } from '../map/expr.ts'
import { typesOf } from '../map/params.ts'
import { extentOf, placeOf, sizeOf } from '../map/walk.ts'
import { COMMON, REDUCE_CASES, valuesFor } from './case.ts'
import { definedAs, toleranceOf } from './float-row.ts'
import { isFloat } from './fold.ts'
import { layoutOf } from './layout.ts'
import { type ReduceKind, type ReduceParams, axesOf, plainReduce } from './params.ts'
import { reduceWork } from './work.ts'

export { type ReduceKind, type ReduceParams, plainReduce }

export const reduce = family<ReduceParams>({
  name: 'reduce',
  about: 'sum, mean, max, min, prod, argmax or argmin of an expression over any axes',
  // a product is rounded once for each factor
  tolerance: ({ kind, type, shape }) => toleranceOf(type, kind === 'prod' ? Math.max(1e-12, 1e-14 * sizeOf(shape)) : 1e-11),
  cases: REDUCE_CASES,
  buffers: ({ axes, shape, type, inputs }) => [
    ...inputs.flatMap((input, i) =>
      input.counts ? [] : [{ name: `in${i}`, role: 'in', type: input.type, elements: extentOf(shape, input) } as const],
    ),
    { name: 'y', role: 'out', type, elements: sizeOf(axesOf({ axes, shape }).kept.map((axis) => shape[axis] ?? 1)) },
  ],
  inputs: valuesFor,
  forms: (['rows', 'columns'] as const).map((arrangement) => ({
    name: arrangement,
    fits: (caps: Caps, params: ReduceParams) => layoutOf(caps, params).arrangement === arrangement,
    work: reduceWork,
    kernels: (caps: Caps) => COMMON[arrangement].flatMap((params) => reduceWork(caps, params).launches.map(({ kernel }) => kernel)),
  })),
  cost: ({ shape, expr }) => ({ operations: (1 + countOperations(expr)) * sizeOf(shape), arithmetic: 'f32' }),
  define: (arrays, params) => {
    const { kind, expr, type, shape, inputs } = params
    const { kept } = axesOf(params)
    const types = typesOf(inputs)
    const toOutput = shape.map((_, axis) => {
      const inner = kept.slice(kept.indexOf(axis) + 1)
      return kept.includes(axis) ? sizeOf(inner.map((each) => shape[each] ?? 1)) : 0
    })
    const groups: number[][] = Array.from({ length: sizeOf(kept.map((axis) => shape[axis] ?? 1)) }, () => [])
    for (let at = 0; at < sizeOf(shape); at++) {
      const values = inputs.map((input, i) => {
        const place = placeOf(at, shape, input)
        return input.counts ? place : (arrays[`in${i}`]?.[place] ?? Number.NaN)
      })
      groups[placeOf(at, shape, { strides: toOutput })]?.push(evaluate(expr, values, types))
    }
    const y = groups.map((values) => reduceValues(kind, typeOf(expr, types), values))
    return { y: definedAs(type, y) }
  },
})

function reduceValues(kind: ReduceKind, register: Register, values: readonly number[]): number {
  const wrap = (value: number): number => (register === 'i32' ? value | 0 : register === 'u32' ? value >>> 0 : value)
  const multiply = (a: number, b: number): number => (isFloat(register) ? a * b : wrap(Math.imul(a, b)))
  const firstThat = (isBetter: (a: number, b: number) => boolean): number =>
    values.reduce((best, v, i) => {
      const before = values[best] ?? Number.NaN
      return isBetter(v, before) || (Number.isNaN(before) && !Number.isNaN(v)) ? i : best
    }, 0)
  switch (kind) {
    case 'sum':
      return values.reduce((a, b) => wrap(a + b), 0)
    case 'mean':
      return values.reduce((a, b) => a + b, 0) / values.length
    case 'prod':
      return values.reduce(multiply, 1)
    case 'max':
      return values.reduce((a, b) => Math.max(a, b))
    case 'min':
      return values.reduce((a, b) => Math.min(a, b))
    case 'argmax':
      return firstThat((a, b) => a > b)
    case 'argmin':
      return firstThat((a, b) => a < b)
  }
}
