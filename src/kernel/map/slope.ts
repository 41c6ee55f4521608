// How much the result of an operation changes with each operand, as map expressions themselves: the calculus of elementwise functions on
// one page. An expression may use the operands and the result; 0 and 1 stand for themselves.

import { type Term, abs, add, and, cos, div, eq, erf, exp, ge, gt, le, log, lt, min, mul, neg, pow } from './term.ts'
import { reciprocal, rsqrt, sigmoid, sign, sin, square, step, sub, tanh, when } from './term.ts'

/** One for each operand. */
export type Slope = (operands: readonly [Term, Term, Term], result: Term, number: (value: number) => Term) => readonly Partial[]
export type Partial = Term | 0 | 1

const TWO_OVER_ROOT_PI = 2 / Math.sqrt(Math.PI)
const GELU_SCALE = Math.sqrt(2 / Math.PI)
const GELU_CUBE = 0.044715

/** 1 for the one that was taken, a half for each where both are the same. */
const share = (taken: Term, same: Term, number: (value: number) => Term): Term => when(taken, number(1), when(same, number(0.5), number(0)))

export const slopes = {
  add: () => [1, 1],
  sub: (_, __, n) => [1, n(-1)],
  mul: ([a, b]) => [b, a],
  div: ([, b], y) => [reciprocal(b), neg(div(y, b))],
  min: ([a, b], _, n) => [share(lt(a, b), eq(a, b), n), share(lt(b, a), eq(a, b), n)],
  max: ([a, b], _, n) => [share(gt(a, b), eq(a, b), n), share(gt(b, a), eq(a, b), n)],
  pow: ([a, b], y, n) => [
    when(eq(b, n(0)), n(0), mul(b, pow(a, sub(b, n(1))))),
    when(gt(a, n(0)), mul(y, log(a)), n(0)), // at 0 it does not change, below it has no meaning
  ],
  clamp: ([x, low, high], _, n) => {
    const inside = and(ge(x, low), le(x, high))
    return [when(inside, n(1), n(0)), when(lt(x, low), n(1), n(0)), when(gt(x, high), n(1), n(0))]
  },

  neg: (_, __, n) => [n(-1)],
  abs: ([x]) => [sign(x)],
  square: ([x], _, n) => [mul(x, n(2))],
  sqrt: (_, y, n) => [div(n(0.5), y)],
  rsqrt: ([x], y, n) => [div(mul(y, n(-0.5)), x)],
  reciprocal: (_, y) => [neg(mul(y, y))],
  exp: (_, y) => [y],
  log: ([x]) => [reciprocal(x)],
  expm1: ([x]) => [exp(x)],
  log1p: ([x], _, n) => [reciprocal(add(x, n(1)))],
  sin: ([x]) => [cos(x)],
  cos: ([x]) => [neg(sin(x))],
  tan: (_, y, n) => [add(mul(y, y), n(1))],
  asin: ([x], _, n) => [rsqrt(sub(n(1), mul(x, x)))],
  acos: ([x], _, n) => [neg(rsqrt(sub(n(1), mul(x, x))))],
  atan: ([x], _, n) => [reciprocal(add(mul(x, x), n(1)))],
  tanh: (_, y, n) => [sub(n(1), mul(y, y))],

  relu: ([x]) => [step(x)],
  leakyRelu: ([x, slope], _, n) => [when(gt(x, n(0)), n(1), slope), when(lt(x, n(0)), x, n(0))],
  elu: ([x, alpha], y, n) => [when(lt(x, n(0)), add(y, alpha), n(1)), when(lt(x, n(0)), sub(exp(min(x, n(0))), n(1)), n(0))],
  hardSigmoid: ([x, alpha], y, n) => {
    const inside = and(gt(y, n(0)), lt(y, n(1)))
    return [when(inside, alpha, n(0)), when(inside, x, n(0)), when(inside, n(1), n(0))]
  },
  hardSwish: ([x], _, n) => {
    const middle = add(div(x, n(3)), n(0.5))
    return [when(le(x, n(-3)), n(0), when(ge(x, n(3)), n(1), middle))]
  },
  sigmoid: (_, y, n) => [mul(y, sub(n(1), y))],
  silu: ([x], y, n) => {
    const s = sigmoid(x)
    return [add(s, mul(y, sub(n(1), s)))]
  },
  softplus: ([x]) => [sigmoid(x)],
  logSigmoid: ([x]) => [sigmoid(neg(x))],
  softsign: ([x], _, n) => [square(reciprocal(add(abs(x), n(1))))],
  gelu: ([x], _, n) => {
    const xx = mul(x, x)
    const t = tanh(mul(mul(x, n(GELU_SCALE)), add(mul(xx, n(GELU_CUBE)), n(1))))
    const inner = mul(n(GELU_SCALE), add(mul(xx, n(3 * GELU_CUBE)), n(1)))
    const outer = mul(mul(x, n(0.5)), mul(sub(n(1), mul(t, t)), inner))
    return [add(mul(add(t, n(1)), n(0.5)), outer)]
  },
  geluErf: ([x], _, n) => {
    const below = mul(add(erf(mul(x, n(Math.SQRT1_2))), n(1)), n(0.5))
    const density = mul(exp(mul(mul(x, x), n(-0.5))), n(TWO_OVER_ROOT_PI / (2 * Math.SQRT2)))
    return [add(below, mul(x, density))]
  },
  erf: ([x], _, n) => [mul(exp(neg(mul(x, x))), n(TWO_OVER_ROOT_PI))],
  select: ([condition], _, n) => [0, when(condition, n(1), n(0)), when(condition, n(0), n(1))],
} as const satisfies Record<string, Slope>
