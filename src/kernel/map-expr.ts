// Map expressions as data: what they are, what they mean in plain numbers and in the kernel language, and whether one is well
// formed. Kernels made of them are in map.ts.

import { IngotError } from '../base/error.ts'
import type { LaneScope } from '../ir/author.ts'
import { type MapOp, type Operand, mapOp } from './map-op.ts'

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
  if ('input' in expr) return inputs[expr.input]!
  if ('const' in expr) return expr.const
  const [a = 0, b = 0, c = 0] = expr.args.map((arg) => evaluate(arg, inputs))
  return mapOp(expr.op).js(a, b, c)
}

/** The expression in wrapping unsigned integers. */
export function evaluateU32(expr: MapExpr, inputs: readonly number[]): number {
  if ('input' in expr) return inputs[expr.input]!
  if ('const' in expr) return expr.const
  const [a = 0, b = 0, c = 0] = expr.args.map((arg) => evaluateU32(arg, inputs))
  return (mapOp(expr.op).u32?.(a, b, c) ?? Number.NaN) >>> 0
}

/** The expression in the kernel language, over scalars or vectors of `dtype`. */
export function writeExpr(
  k: LaneScope,
  expr: MapExpr,
  inputs: readonly Operand[],
  dtype: 'f32' | 'u32' | `${'f32' | 'u32'}x${2 | 4 | 8 | 16}`,
): Operand {
  const literal = (value: number): Operand => k.const(dtype, value) as unknown as Operand
  if ('input' in expr) return inputs[expr.input]!
  if ('const' in expr) return literal(expr.const)
  const args = expr.args.map((arg) => writeExpr(k, arg, inputs, dtype))
  return mapOp(expr.op).ir(args as unknown as readonly [Operand, Operand, Operand], literal)
}

/** Whether a map is computed in u32. */
export function isInteger({ type, inputs }: MapParams): boolean {
  return type === 'u32' && inputs.every((input) => input.type === 'u32')
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
  const integer = isInteger(params)
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
