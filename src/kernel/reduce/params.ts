// What a reduction is: an expression over inputs that are walked side by side, as a map has it, and the axes along which its values become
// one. What does not fit together is refused here.

import type { ElementType } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { type Register, registerOf } from '../element.ts'
import { type MapExpr, typeOf } from '../map/expr.ts'
import { type MapInput, checkStrides, typesOf } from '../map/params.ts'
import { contiguous } from '../map/walk.ts'

/** `max` and `min` of bools are whether any or all of them hold. */
export type ReduceKind = FoldKind | 'mean' | PickKind
export type FoldKind = 'sum' | 'max' | 'min' | 'prod'
export type PickKind = 'argmax' | 'argmin'

export interface ReduceParams {
  readonly kind: ReduceKind
  readonly axes: readonly number[]
  /** of what is reduced */
  readonly shape: readonly number[]
  readonly expr: MapExpr
  /** of the result: u32 for argmax and argmin, else one that registers hold like the expression's value */
  readonly type: ElementType
  readonly inputs: readonly MapInput[]
}

/** The elements of a tensor that lies row by row, reduced as they are. */
export function plainReduce(kind: ReduceKind, axes: readonly number[], shape: readonly number[], type: ElementType = 'f32'): ReduceParams {
  const input: MapInput = { type, strides: contiguous(shape) }
  return { kind, axes, shape, expr: { input: 0 }, type: isPick(kind) ? 'u32' : type, inputs: [input] }
}

export function isPick(kind: ReduceKind): kind is PickKind {
  return kind === 'argmax' || kind === 'argmin'
}

/** Axes that stay, and axes that do not. */
export function axesOf({ axes, shape }: Pick<ReduceParams, 'axes' | 'shape'>): { kept: number[]; reduced: number[] } {
  const all = shape.map((_, axis) => axis)
  return { kept: all.filter((axis) => !axes.includes(axis)), reduced: all.filter((axis) => axes.includes(axis)) }
}

/** Which values a kind works on. */
const TAKES: Readonly<Record<ReduceKind, readonly Register[]>> = {
  sum: ['f32', 'f64', 'i32', 'u32'],
  prod: ['f32', 'f64', 'i32', 'u32'],
  mean: ['f32', 'f64'],
  max: ['f32', 'f64', 'i32', 'u32', 'bool'],
  min: ['f32', 'f64', 'i32', 'u32', 'bool'],
  argmax: ['f32', 'f64', 'i32', 'u32', 'bool'],
  argmin: ['f32', 'f64', 'i32', 'u32', 'bool'],
}

/** Gives what registers hold of the expression's value. Throws `bad-argument` for what cannot be reduced. */
export function checkReduce({ kind, axes, shape, expr, type, inputs }: ReduceParams): Register {
  const fail = (what: string, got: unknown, wanted: unknown): never => {
    throw new IngotError('bad-argument', what, { op: 'reduce', got, wanted })
  }
  if (shape.some((size) => size < 1) || axes.some((axis) => shape[axis] === undefined))
    fail('cannot reduce', `axes [${axes.join(',')}] of [${shape.join(',')}]`, 'axes of a tensor with elements')
  checkStrides('reduce', shape, inputs)
  const register = typeOf(expr, typesOf(inputs))
  if (!TAKES[kind].includes(register)) fail(`no ${kind} of ${register}`, register, TAKES[kind])
  const fits = isPick(kind) ? type === 'u32' : registerOf(type) === register
  if (!fits) fail(`${kind} of ${register} does not give ${type}`, type, isPick(kind) ? 'u32' : `a type held as ${register}`)
  return register
}
