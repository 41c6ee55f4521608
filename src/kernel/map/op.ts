// The operations of map expressions, one record each: operands, types, the meaning in doubles (and in whole numbers, where integers may be
// computed with it), the same in the kernel language, and the slopes: how much the result changes with each operand.
// A NaN passes through relu and its kin. Slopes at kinks are PyTorch's: 0 for abs and relu, a half each where two are equally large.

import type { Elements } from '../../ir/value.ts'
import type { Register } from '../element.ts'
import {
  type Float,
  acos,
  asin,
  atan,
  erf,
  erfOf,
  expm1,
  gelu,
  geluErf,
  geluErfOf,
  geluOf,
  log1p,
  power,
  roundEvenOf,
  sigmoid,
  sigmoidOf,
  silu,
  sinCos,
  softplus,
  softplusOf,
} from '../function.ts'
import { type Slope, slopes as d } from './slope.ts'

/** A value of the type that an operation is computed in, or a vector of such. */
export type Operand = Elements<Register>
/** A constant of the same type as the operands. */
type Literal = (value: number) => Operand
type Js = (a: number, b: number, c: number) => number

/** What operands may be: all of one type. `select` is the exception: its first is a bool. */
export type Takes = 'float' | 'number' | 'integer' | 'bool' | 'any'

export interface MapOpRecord {
  /** one line for the table of operations */
  readonly about: string
  readonly arity: 1 | 2 | 3
  readonly takes: Takes
  /** the type of the result; default: that of the operands */
  readonly gives?: 'bool'
  /** in doubles */
  js(a: number, b: number, c: number): number
  /** in 32-bit integers, before wrapping; default: as in doubles */
  readonly whole?: Js
  ir(operands: readonly [Operand, Operand, Operand], literal: Literal): Operand
  /** how much the result changes with each operand; absent: it does not, or only in jumps */
  readonly slope?: Slope
}

type Rest = Partial<Pick<MapOpRecord, 'whole' | 'slope'>>
type Binary = (a: Operand, b: Operand, literal: Literal) => Operand

const one = (about: string, js: (a: number) => number, ir: (a: Float) => Float, slope?: Slope): MapOpRecord => ({
  about,
  arity: 1,
  takes: 'float',
  js,
  ir: ([a]) => ir(a as Float),
  ...(slope && { slope }),
})
const two = (about: string, takes: Takes, js: Js, ir: Binary, rest: Rest = {}): MapOpRecord => ({
  about,
  arity: 2,
  takes,
  js,
  ir: ([a, b], literal) => ir(a, b, literal),
  ...rest,
})
const compare = (about: string, js: (a: number, b: number) => boolean, ir: (a: Operand, b: Operand) => Elements<'bool'>): MapOpRecord => ({
  about,
  arity: 2,
  takes: 'any',
  gives: 'bool',
  js: (a, b) => (js(a, b) ? 1 : 0),
  ir: ([a, b]) => ir(a, b),
})
const logic = (about: string, js: Js, ir: (a: Elements<'bool'>, b: Elements<'bool'>) => Operand): MapOpRecord =>
  two(about, 'bool', js, (a, b) => ir(a as Elements<'bool'>, b as Elements<'bool'>))
const bits = (about: string, js: Js, ir: (a: Elements<'i32' | 'u32'>, b: Elements<'i32' | 'u32'>) => Operand): MapOpRecord =>
  two(about, 'integer', js, (a, b) => ir(a as Elements<'u32'>, b as Elements<'u32'>))

/** Comparisons know no bools; as numbers they are in order. */
const comparable = (value: Operand): Elements<'f32' | 'i32' | 'u32'> =>
  value.dtype.startsWith('bool') ? value.to('u32') : (value as Elements<'f32' | 'i32' | 'u32'>)

export const MAP_OPS = {
  add: two(
    'a + b',
    'number',
    (a, b) => a + b,
    (a, b) => a.add(b),
    { slope: d.add },
  ),
  sub: two(
    'a - b',
    'number',
    (a, b) => a - b,
    (a, b) => a.sub(b),
    { slope: d.sub },
  ),
  mul: two(
    'a * b',
    'number',
    (a, b) => a * b,
    (a, b) => a.mul(b),
    { whole: Math.imul, slope: d.mul },
  ),
  div: two(
    'a / b',
    'float',
    (a, b) => a / b,
    (a, b) => a.div(b),
    { slope: d.div },
  ),
  quotient: two(
    'a / b of integers, cut towards zero; a if b is 0',
    'integer',
    (a, b) => (b === 0 ? a : Math.trunc(a / b)),
    (a, b) => a.div(b),
  ),
  remainder: two(
    'what the quotient leaves, with the sign of a; 0 if b is 0',
    'integer',
    (a, b) => (b === 0 ? 0 : a % b),
    (a, b) => a.rem(b),
  ),
  min: two(
    'the smaller one',
    'number',
    (a, b) => Math.min(a, b),
    (a, b) => a.min(b),
    { slope: d.min },
  ),
  max: two(
    'the larger one',
    'number',
    (a, b) => Math.max(a, b),
    (a, b) => a.max(b),
    { slope: d.max },
  ),
  pow: two(
    'a to the power of b',
    'float',
    (a, b) => a ** b,
    (a, b) => power(a as Float, b as Float),
    { slope: d.pow },
  ),
  clamp: {
    about: 'x between two bounds',
    arity: 3,
    takes: 'number',
    js: (x, low, high) => Math.min(Math.max(x, low), high),
    ir: ([x, low, high]) => x.max(low).min(high),
    slope: d.clamp,
  },

  neg: { about: '-x', arity: 1, takes: 'number', js: (a) => -a, ir: ([a]) => a.neg(), slope: d.neg },
  abs: { about: '|x|', arity: 1, takes: 'number', js: Math.abs, ir: ([a]) => (isUnsigned(a) ? a : a.abs()), slope: d.abs },
  square: {
    about: 'x * x',
    arity: 1,
    takes: 'number',
    js: (a) => a * a,
    whole: (a) => Math.imul(a, a),
    ir: ([a]) => a.mul(a),
    slope: d.square,
  },
  sqrt: one('square root', Math.sqrt, (a) => a.sqrt(), d.sqrt),
  rsqrt: one(
    '1 / square root',
    (a) => 1 / Math.sqrt(a),
    (a) => a.rsqrt(),
    d.rsqrt,
  ),
  reciprocal: {
    ...one(
      '1 / x',
      (a) => 1 / a,
      (a) => a,
      d.reciprocal,
    ),
    ir: ([a], literal) => literal(1).div(a),
  },
  exp: one('e to the power of x', Math.exp, (a) => a.exp(), d.exp),
  log: one('natural logarithm', Math.log, (a) => a.log(), d.log),
  expm1: one('exp(x) - 1, exact near 0', Math.expm1, expm1, d.expm1),
  log1p: one('log(1 + x), exact near 0', Math.log1p, log1p, d.log1p),
  sin: one('sine', Math.sin, (a) => sinCos(a).sin, d.sin),
  cos: one('cosine', Math.cos, (a) => sinCos(a).cos, d.cos),
  tan: one('tangent', Math.tan, tangent, d.tan),
  asin: one('inverse sine', Math.asin, asin, d.asin),
  acos: one('inverse cosine', Math.acos, acos, d.acos),
  atan: one('inverse tangent', Math.atan, atan, d.atan),
  tanh: one('hyperbolic tangent', Math.tanh, (a) => a.tanh(), d.tanh),
  floor: one('the next lower whole number', Math.floor, (a) => a.floor()),
  ceil: one('the next higher whole number', Math.ceil, (a) => a.ceil()),
  round: one('the nearest whole number, halves to even', roundEvenOf, (a) => a.rint()),
  trunc: one('the next whole number towards zero', Math.trunc, (a) => a.trunc()),
  sign: {
    about: '-1, 0 or 1',
    arity: 1,
    takes: 'number',
    js: (a) => (a > 0 ? 1 : a < 0 ? -1 : 0),
    ir: ([a], literal) => a.gt(0).select(literal(1), isUnsigned(a) ? literal(0) : a.lt(0).select(literal(-1), literal(0))),
  },
  /** as a factor: what comparisons give is a bool */
  step: {
    about: '1 above 0, else 0',
    arity: 1,
    takes: 'number',
    js: (a) => (a > 0 ? 1 : 0),
    ir: ([a], literal) => a.gt(0).select(literal(1), literal(0)),
  },
  relu: {
    about: 'x, or 0 below 0',
    arity: 1,
    takes: 'number',
    js: (a) => (a < 0 ? 0 : a),
    ir: ([a], literal) => (isUnsigned(a) ? a : a.lt(0).select(literal(0), a)),
    slope: d.relu,
  },
  leakyRelu: two(
    'x, or b * x below 0',
    'float',
    (a, slope) => (a < 0 ? a * slope : a),
    (a, slope) => a.lt(0).select(a.mul(slope), a),
    { slope: d.leakyRelu },
  ),
  elu: two(
    'x, or b * (exp(x) - 1) below 0',
    'float',
    (a, alpha) => (a < 0 ? alpha * Math.expm1(a) : a),
    (a, alpha) => a.lt(0).select(expm1((a as Float).min(0)).mul(alpha as Float), a as Float),
    { slope: d.elu },
  ),
  hardSigmoid: {
    about: 'b * x + c between 0 and 1',
    arity: 3,
    takes: 'float',
    js: (a, alpha, beta) => Math.min(1, Math.max(0, alpha * a + beta)),
    ir: ([a, alpha, beta], literal) => a.mul(alpha).add(beta).max(literal(0)).min(literal(1)),
    slope: d.hardSigmoid,
  },
  hardSwish: one(
    'silu without an exponential: x * clamp(x / 6 + 1/2, 0, 1)',
    (a) => a * Math.min(1, Math.max(0, a / 6 + 0.5)),
    (a) =>
      a.mul(
        a
          .mul(1 / 6)
          .add(0.5)
          .clamp(0, 1),
      ),
    d.hardSwish,
  ),
  sigmoid: one('1 / (1 + exp(-x))', sigmoidOf, sigmoid, d.sigmoid),
  silu: one('x * sigmoid(x)', (a) => a * sigmoidOf(a), silu, d.silu),
  softplus: one('log(1 + exp(x))', softplusOf, softplus, d.softplus),
  logSigmoid: one(
    'the logarithm of sigmoid(x), also far below 0',
    (a) => -softplusOf(-a),
    (a) => softplus(a.neg()).neg(),
    d.logSigmoid,
  ),
  softsign: one(
    'x / (1 + |x|)',
    (a) => a / (1 + Math.abs(a)),
    (a) => a.div(a.abs().add(1)),
    d.softsign,
  ),
  gelu: one('x * normal distribution, approximated with tanh, as models mean it', geluOf, gelu, d.gelu),
  geluErf: one('x * normal distribution', geluErfOf, geluErf, d.geluErf),
  erf: one('error function', erfOf, erf, d.erf),

  lt: compare(
    'a < b',
    (a, b) => a < b,
    (a, b) => comparable(a).lt(comparable(b)),
  ),
  le: compare(
    'a <= b',
    (a, b) => a <= b,
    (a, b) => comparable(a).le(comparable(b)),
  ),
  gt: compare(
    'a > b',
    (a, b) => a > b,
    (a, b) => comparable(a).gt(comparable(b)),
  ),
  ge: compare(
    'a >= b',
    (a, b) => a >= b,
    (a, b) => comparable(a).ge(comparable(b)),
  ),
  eq: compare(
    'a = b',
    (a, b) => a === b,
    (a, b) => comparable(a).eq(comparable(b)),
  ),
  ne: compare(
    'a differs from b',
    (a, b) => a !== b,
    (a, b) => comparable(a).ne(comparable(b)),
  ),
  isNaN: {
    ...one(
      'whether it is no number',
      (a) => (Number.isNaN(a) ? 1 : 0),
      (a) => a,
    ),
    gives: 'bool',
    // by its bits: compilers for GPUs, which have no f64, take it that a number is equal to itself
    ir: ([a]) => (a.dtype.startsWith('f64') ? a.ne(a) : (a as Float).as('u32').and(0x7fffffff).gt(0x7f800000)),
  },
  isInfinite: {
    ...one(
      'whether it is infinite',
      (a) => (Math.abs(a) === Infinity ? 1 : 0),
      (a) => a,
    ),
    gives: 'bool',
    ir: ([a], literal) => a.abs().eq(literal(Infinity)),
  },
  and: logic(
    'both',
    (a, b) => a & b,
    (a, b) => a.and(b),
  ),
  or: logic(
    'at least one',
    (a, b) => a | b,
    (a, b) => a.or(b),
  ),
  xor: logic(
    'just one',
    (a, b) => a ^ b,
    (a, b) => a.xor(b),
  ),
  not: { about: 'the opposite', arity: 1, takes: 'bool', js: (a) => 1 - a, ir: ([a]) => (a as Elements<'bool'>).not() },

  bitAnd: bits(
    'bits that both have',
    (a, b) => a & b,
    (a, b) => a.and(b),
  ),
  bitOr: bits(
    'bits that one has',
    (a, b) => a | b,
    (a, b) => a.or(b),
  ),
  bitXor: bits(
    'bits that just one has',
    (a, b) => a ^ b,
    (a, b) => a.xor(b),
  ),
  shiftLeft: bits(
    'bits moved up, by b modulo 32',
    (a, b) => a << (b & 31),
    (a, b) => a.shl(b),
  ),
  shiftRight: {
    ...bits(
      'bits moved down, by b modulo 32',
      (a, b) => a / 2 ** (b & 31),
      (a, b) => a.shr(b),
    ),
    whole: (a, b) => Math.floor(a / 2 ** (b & 31)),
  },

  /** the first operand is a bool, the others have one type */
  select: {
    about: 'a where the condition holds, else b',
    arity: 3,
    takes: 'any',
    js: (a, b, c) => (a === 0 ? c : b),
    ir: ([a, b, c]) => (a as Elements<'bool'>).select(b, c),
    slope: d.select,
  },
} as const satisfies Record<string, MapOpRecord>

export type MapOp = keyof typeof MAP_OPS

export function mapOp(name: MapOp): MapOpRecord {
  return MAP_OPS[name]
}

function isUnsigned(value: Operand): boolean {
  return value.dtype.startsWith('u32')
}

function tangent(a: Float): Float {
  const { sin, cos } = sinCos(a)
  return sin.div(cos)
}
