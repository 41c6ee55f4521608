// Map expressions as data: what they are, what they mean in plain numbers and in the kernel language, and whether one is well
// formed. Kernels made of them are in map.ts.

import { IngotError } from '../../base/error.ts'
import type { Vector } from '../../base/dtype.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type MapOp, type Operand, mapOp } from './op.ts'

export type MapExpr = { readonly input: number } | { readonly const: number } | { readonly op: MapOp; readonly args: readonly MapExpr[] }
export type MapType = 'f32' | 'f16' | 'u32'

export interface MapInput {
  readonly type: MapType
  /** elements to step per axis of the result; 0 repeats the input along it */
  readonly strides: readonly number[]
}
export interface MapParams {
  readonly expr: MapExpr
  readonly type: MapType
  readonly shape: readonly number[]
  readonly inputs: readonly MapInput[]
}

/** The expression in doubles. */
export function evaluate(expr: MapExpr, inputs: readonly number[]): number {
  if ('input' in expr) return inputs[expr.input] ?? Number.NaN
  if ('const' in expr) return expr.const
  const [a = 0, b = 0, c = 0] = expr.args.map((arg) => evaluate(arg, inputs))
  return mapOp(expr.op).js(a, b, c)
}

/** The expression in wrapping unsigned integers. */
export function evaluateU32(expr: MapExpr, inputs: readonly number[]): number {
  if ('input' in expr) return inputs[expr.input] ?? 0
  if ('const' in expr) return expr.const
  const [a = 0, b = 0, c = 0] = expr.args.map((arg) => evaluateU32(arg, inputs))
  return (mapOp(expr.op).u32?.(a, b, c) ?? Number.NaN) >>> 0
}

type Number1 = Value<'f32' | 'u32'>
type Numbers = Value<Vector<'f32' | 'u32'>>

/** The expression in the kernel language, over scalars or vectors of `dtype`. */
export function writeExpr(k: LaneScope, expr: MapExpr, inputs: readonly Number1[], dtype: 'f32' | 'u32'): Number1
export function writeExpr(k: LaneScope, expr: MapExpr, inputs: readonly Numbers[], dtype: Vector<'f32' | 'u32'>): Numbers
export function writeExpr(k: LaneScope, expr: MapExpr, inputs: readonly Operand[], dtype: Operand['dtype']): Operand {
  const literal = (value: number): Operand => k.const(dtype, value)
  const write = (one: MapExpr): Operand => {
    if ('const' in one) return literal(one.const)
    if ('input' in one) return inputs[one.input] ?? literal(Number.NaN) // checkMap has refused an input that is not there
    const [a = literal(0), b = a, c = a] = one.args.map(write) // operations look at as many as they have
    return mapOp(one.op).ir([a, b, c], literal)
  }
  return write(expr)
}

/** Whether a map is computed in u32. */
export function isInteger({ type, inputs }: { readonly type: MapType; readonly inputs: readonly MapType[] }): boolean {
  return type === 'u32' && inputs.every((input) => input === 'u32')
}

export function typesOf(inputs: readonly MapInput[]): MapType[] {
  return inputs.map(({ type }) => type)
}

/** Throws `bad-argument` for an expression or inputs that do not fit together. */
export function checkMap(params: MapParams): void {
  const { expr, shape, inputs } = params
  const fail = (what: string, got: unknown, wanted: unknown): never => {
    throw new IngotError('bad-argument', what, { op: 'map', got, wanted })
  }
  if (inputs.some(({ strides }) => strides.length !== shape.length)) {
    fail(
      'strides do not match the shape',
      inputs.map(({ strides }) => strides.length),
      shape.length,
    )
  }
  const integer = isInteger({ type: params.type, inputs: typesOf(inputs) })
  const visit = (one: MapExpr): void => {
    if ('const' in one) return
    if ('input' in one) {
      if (inputs[one.input] === undefined) fail('no such input', one.input, `0 to ${inputs.length - 1}`)
      return
    }
    const { arity, u32 } = mapOp(one.op)
    if (one.args.length !== arity) fail(`wrong number of operands of ${one.op}`, one.args.length, arity)
    if (integer && u32 === undefined) fail(`${one.op} does not work on u32`, 'u32', 'f32')
    one.args.forEach(visit)
  }
  visit(expr)
}
