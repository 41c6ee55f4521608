// The operations of map expressions, one record each: how many operands, the meaning in doubles, the same in the kernel
// language, and, where it makes sense for u32 tensors, the meaning in unsigned 32-bit integers.
// Comparisons give 1 or 0. A NaN passes through relu and its kin.

import type { Elements } from '../../ir/value.ts'
import {
  type Float,
  erf,
  erfOf,
  gelu,
  geluErf,
  geluErfOf,
  geluOf,
  power,
  sigmoid,
  sigmoidOf,
  silu,
  sinCos,
  softplus,
  softplusOf,
} from '../function.ts'

/** A value of the type that the expression is computed in: f32 or u32, or a vector of either. */
export type Operand = Elements<'f32' | 'u32'>
type Literal = (value: number) => Operand

export interface MapOpRecord {
  readonly arity: number
  js(a: number, b: number, c: number): number
  /** in u32; absent: floats only */
  readonly u32?: (a: number, b: number, c: number) => number
  ir(operands: readonly [Operand, Operand, Operand], literal: Literal): Operand
}

type Js = (a: number, b: number, c: number) => number
const op = (arity: number, js: Js, ir: MapOpRecord['ir'], u32?: Js): MapOpRecord =>
  u32 === undefined ? { arity, js, ir } : { arity, js, ir, u32 }
/** Floats only: `checkMap` refuses such an operation in a u32 expression. */
const one = (js: (a: number) => number, ir: (a: Float) => Float): MapOpRecord => op(1, js, ([a]) => ir(a as Float))
const compare = (js: (a: number, b: number) => boolean, ir: (a: Operand, b: Operand) => Elements<'bool'>): MapOpRecord => {
  const truth: Js = (a, b) => (js(a, b) ? 1 : 0)
  return op(2, truth, ([a, b], literal) => ir(a, b).select(literal(1), 0), truth)
}

export const MAP_OPS = {
  add: op(
    2,
    (a, b) => a + b,
    ([a, b]) => a.add(b),
    (a, b) => a + b,
  ),
  sub: op(
    2,
    (a, b) => a - b,
    ([a, b]) => a.sub(b),
    (a, b) => a - b,
  ),
  mul: op(
    2,
    (a, b) => a * b,
    ([a, b]) => a.mul(b),
    Math.imul,
  ),
  div: op(
    2,
    (a, b) => a / b,
    ([a, b]) => a.div(b),
    (a, b) => (b === 0 ? a : Math.trunc(a / b)),
  ),
  min: op(
    2,
    (a, b) => Math.min(a, b),
    ([a, b]) => a.min(b),
    (a, b) => Math.min(a, b),
  ),
  max: op(
    2,
    (a, b) => Math.max(a, b),
    ([a, b]) => a.max(b),
    (a, b) => Math.max(a, b),
  ),
  pow: op(
    2,
    (a, b) => a ** b,
    ([a, b]) => power(a as Float, b as Float),
  ),
  neg: op(
    1,
    (a) => -a,
    ([a]) => a.neg(),
    (a) => -a,
  ),
  abs: one(Math.abs, (a) => a.abs()),
  square: op(
    1,
    (a) => a * a,
    ([a]) => a.mul(a),
    (a) => Math.imul(a, a),
  ),
  sqrt: one(Math.sqrt, (a) => a.sqrt()),
  rsqrt: one(
    (a) => 1 / Math.sqrt(a),
    (a) => a.rsqrt(),
  ),
  exp: one(Math.exp, (a) => a.exp()),
  log: one(Math.log, (a) => a.log()),
  sin: one(Math.sin, (a) => sinCos(a).sin),
  cos: one(Math.cos, (a) => sinCos(a).cos),
  tan: one(Math.tan, (a) => {
    const { sin, cos } = sinCos(a)
    return sin.div(cos)
  }),
  tanh: one(Math.tanh, (a) => a.tanh()),
  asin: one(Math.asin, (a) => a.asin()),
  acos: one(Math.acos, (a) => a.acos()),
  atan: one(Math.atan, (a) => a.atan()),
  floor: one(Math.floor, (a) => a.floor()),
  ceil: one(Math.ceil, (a) => a.ceil()),
  /** to the nearest integer, halves to even */
  round: one(
    (a) => (Math.abs(a % 1) === 0.5 ? 2 * Math.round(a / 2) : Math.round(a)),
    (a) => a.rint(),
  ),
  sign: op(
    1,
    (a) => (a > 0 ? 1 : a < 0 ? -1 : 0),
    ([a], literal) => a.gt(0).select(literal(1), a.lt(0).select(literal(-1), 0)),
  ),
  /** 1 above 0 */
  step: op(
    1,
    (a) => (a > 0 ? 1 : 0),
    ([a], literal) => a.gt(0).select(literal(1), 0),
    (a) => (a > 0 ? 1 : 0),
  ),
  relu: op(
    1,
    (a) => (a < 0 ? 0 : a),
    ([a], literal) => a.lt(0).select(literal(0), a),
  ),
  /** x, or slope * x below 0 */
  leakyRelu: op(
    2,
    (a, slope) => (a < 0 ? a * slope : a),
    ([a, slope]) => a.lt(0).select(a.mul(slope), a),
  ),
  /** x * clamp(x / 6 + 1/2, 0, 1): silu without an exponential */
  hardSwish: one(
    (a) => a * Math.min(1, Math.max(0, a / 6 + 0.5)),
    (a) =>
      a.mul(
        a
          .mul(1 / 6)
          .add(0.5)
          .clamp(0, 1),
      ),
  ),
  sigmoid: one(sigmoidOf, sigmoid),
  silu: one((a) => a * sigmoidOf(a), silu),
  softplus: one(softplusOf, softplus),
  /** with tanh, as models mean it */
  gelu: one(geluOf, gelu),
  geluErf: one(geluErfOf, geluErf),
  erf: one(erfOf, erf),
  lt: compare(
    (a, b) => a < b,
    (a, b) => a.lt(b),
  ),
  le: compare(
    (a, b) => a <= b,
    (a, b) => a.le(b),
  ),
  gt: compare(
    (a, b) => a > b,
    (a, b) => a.gt(b),
  ),
  ge: compare(
    (a, b) => a >= b,
    (a, b) => a.ge(b),
  ),
  eq: compare(
    (a, b) => a === b,
    (a, b) => a.eq(b),
  ),
  ne: compare(
    (a, b) => a !== b,
    (a, b) => a.ne(b),
  ),
  /** the second operand where the first is not 0, else the third */
  select: op(
    3,
    (a, b, c) => (a === 0 ? c : b),
    ([a, b, c]) => a.ne(0).select(b, c),
    (a, b, c) => (a === 0 ? c : b),
  ),
} as const satisfies Record<string, MapOpRecord>

export type MapOp = keyof typeof MAP_OPS

export function mapOp(name: MapOp): MapOpRecord {
  return MAP_OPS[name]
}
