// Functions that no target has, or that targets compute badly, written in the kernel language for scalars and vectors alike:
// sine and cosine of large angles, erf, and the smooth steps of neural networks. Each is stable for large arguments: nothing
// overflows on the way to a finite result, and a NaN stays one. `define` of the kernels uses the twins in plain doubles.

import type { Elements, Value, VectorOf } from '../ir/value.ts'

/** An f32 or a vector of them; every function here takes either. */
export type Float = Elements<'f32'>

/** c[0] + c[1] t + c[2] t^2 ... */
export function polynomial(t: Float, coefficients: readonly number[]): Float {
  const [last = 0, ...rest] = coefficients.toReversed()
  let sum: Float | undefined
  for (const c of rest) sum = sum === undefined ? t.mul(last).add(c) : sum.fma(t, c)
  return sum ?? t.mul(0).add(last)
}

/** An angle as a sum; the second part is small. */
interface Angle {
  readonly whole: Elements<'i32'>
  readonly part: Float
}

// 710 is nearly 113 turns, and a quarter turn nearly 1647099 / 2^20: the large steps of the reduction are integer arithmetic,
// and what they miss is added in f32. Compilers are free to reorder sums of floats, and Mesa does: subtracting pi in pieces
// of few bits, the usual way, loses everything that the pieces were for.
const STEP = 710
const STEP_REST = 6.028870672810744e-5 // 710 - 226 pi
const QUARTER = 1647099
const QUARTER_SCALE = 2 ** 20
const QUARTER_REST = 3.139164786504813e-7 // pi/2 - QUARTER / 2^20
// Taylor series; on [-pi/4, pi/4] their error is below 3e-8.
const SIN = [1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880] as const
const COS = [1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320] as const

export interface SinCos<T> {
  readonly sin: T
  readonly cos: T
}

/** Whether a value is of 64 bits, whose functions targets compute well themselves. */
function isDouble(value: Float): boolean {
  return value.dtype.startsWith('f64')
}

/** Sine and cosine, accurate to 2e-7 for angles up to 10 million; GPUs promise little even for small ones. */
export function sinCos(angle: Float): SinCos<Float> {
  if (isDouble(angle)) return { sin: angle.sin(), cos: angle.cos() }
  return turn(split(angle))
}

/**
 * Sine and cosine of count * frequency without rounding the angle, for counts below 2^20 and frequencies up to 1: to 4e-6 at
 * worst. As one f32 product the angle would be off by 0.004 at position 100,000, and by how much would depend on whether a
 * compiler fuses it. The high parts have few enough bits that their products are exact.
 */
export function sinCosOfProduct(count: Value<'u32'>, frequency: Value<'f32'>): SinCos<Value<'f32'>>
export function sinCosOfProduct(count: Value<'u32'>, frequency: VectorOf<'f32'>): SinCos<VectorOf<'f32'>>
export function sinCosOfProduct(count: Value<'u32'>, frequency: Float): SinCos<Float> {
  const high = frequency.as('u32').and(0xfffff000).as('f32')
  const parts = [
    split(high.mul(count.and(0xffffff00).to('f32'))),
    split(high.mul(count.and(255).to('f32'))),
    split(frequency.sub(high).mul(count.to('f32'))),
  ]
  return turn(parts.reduce((a, b) => ({ whole: a.whole.add(b.whole), part: a.part.add(b.part) })))
}

function split(angle: Float): Angle {
  const whole = angle.to('i32')
  return { whole, part: angle.sub(whole.to('f32')) }
}

function turn({ whole, part }: Angle): SinCos<Float> {
  const steps = whole
    .to('f32')
    .mul(1 / STEP)
    .rint()
    .to('i32')
  const left = whole.sub(steps.mul(STEP))
  const rest = steps.to('f32').fma(STEP_REST, part)
  const quarter = left
    .to('f32')
    .add(rest)
    .mul(2 / Math.PI)
    .rint()
    .to('i32')
  const near = left.mul(QUARTER_SCALE).sub(quarter.mul(QUARTER))
  const r = near
    .to('f32')
    .mul(1 / QUARTER_SCALE)
    .add(quarter.to('f32').fma(-QUARTER_REST, rest)) // in [-pi/4, pi/4]
  const square = r.mul(r)
  const sine = r.mul(polynomial(square, SIN))
  const cosine = polynomial(square, COS)
  const swap = quarter.and(1).ne(0)
  const sin = swap.select(cosine, sine)
  const cos = swap.select(sine, cosine)
  return {
    sin: quarter.and(2).ne(0).select(sin.neg(), sin),
    cos: quarter.add(1).and(2).ne(0).select(cos.neg(), cos),
  }
}

/** exp(-|x|), the part of the functions below that cannot overflow. */
const decay = (x: Float): Float => x.abs().neg().exp()

/** x / (1 + exp(-s)) for a step s of the same sign as x. */
function gate(x: Float, s: Float): Float {
  const e = decay(s)
  return s.lt(0).select(x.mul(e), x).div(e.add(1))
}

export function sigmoid(x: Float): Float {
  const e = decay(x)
  return x.lt(0).select(e, 1).div(e.add(1))
}

/** x * sigmoid(x) */
export const silu = (x: Float): Float => gate(x, x)

// Near 0 the next functions are series: what rounding takes from a sum can be put back by another one (and is, of doubles), but compilers
// for GPUs take it that the two cancel.
const ATANH = [1, 1 / 3, 1 / 5, 1 / 7] as const // to 2e-8 where the square is below 1 / 49
const EXPM1 = [1, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320] as const // to 2e-8 below 1/2

/** log(1 + x), also where 1 + x is 1 */
export function log1p(x: Float): Float {
  const sum = x.add(1)
  if (isDouble(x)) return sum.eq(1).select(x, sum.eq(Infinity).select(x, x.mul(sum.log()).div(sum.sub(1))))
  const s = x.div(x.add(2)) // log(1 + x) = 2 atanh(s)
  return x
    .abs()
    .lt(0.25)
    .select(s.mul(2).mul(polynomial(s.mul(s), ATANH)), sum.log())
}

/** exp(x) - 1, also where exp(x) is 1 */
export function expm1(x: Float): Float {
  const e = x.exp()
  if (!isDouble(x))
    return x
      .abs()
      .lt(0.5)
      .select(x.mul(polynomial(x, EXPM1)), e.sub(1))
  return e.eq(1).select(x, x.abs().gt(1).select(e.sub(1), e.sub(1).mul(x).div(e.log())))
}

/** log(1 + exp(x)) */
export function softplus(x: Float): Float {
  const e = decay(x)
  const log = isDouble(x) ? log1p(e) : e.lt(1e-4).select(e.sub(e.mul(e).mul(0.5)), e.add(1).log())
  return x.lt(0).select(log, log.add(x))
}

const GELU_SCALE = Math.sqrt(2 / Math.PI)
const GELU_CUBE = 0.044715

/** 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as x * sigmoid of twice the inner part. */
export function gelu(x: Float): Float {
  return gate(
    x,
    x
      .mul(x)
      .mul(GELU_CUBE)
      .add(1)
      .mul(x)
      .mul(2 * GELU_SCALE),
  )
}

// Chebyshev interpolation: (asin(x) / x - 1) / x^2 as a polynomial in x^2 up to 1/2, and the same of atan up to tan(pi / 8).
const ASIN = [0.1666666567, 0.0750009418, 0.0445994027, 0.0311006624, 0.0171492379, 0.0336908475] as const
const ATAN = [-0.3333333135, 0.1999953985, -0.1426395625, 0.1074373126, -0.0645192787] as const

/** asin of a size up to 1/2, which is its square root at most: x + x^3 P(x^2). */
const smallAsin = (x: Float): Float => x.mul(x.mul(x)).fma(polynomial(x.mul(x), ASIN), x)

/** The angle from 0 whose cosine is a size of at most 1; targets promise four digits. */
function turnTo(size: Float): Float {
  const half = smallAsin(size.neg().add(1).mul(0.5).max(0).sqrt()).mul(2) // half the angle has half the distance from 1
  return size.gt(0.5).select(
    half,
    smallAsin(size.min(0.5))
      .neg()
      .add(Math.PI / 2),
  )
}

export function acos(x: Float): Float {
  if (isDouble(x)) return x.acos()
  const angle = turnTo(x.abs())
  return defined(x, x.lt(0).select(angle.neg().add(Math.PI), angle))
}

export function asin(x: Float): Float {
  if (isDouble(x)) return x.asin()
  const size = x.abs()
  const angle = size.gt(0.5).select(
    turnTo(size)
      .neg()
      .add(Math.PI / 2),
    smallAsin(size.min(0.5)),
  )
  return defined(x, x.lt(0).select(angle.neg(), angle))
}

/** A value where |x| is at most 1; elsewhere the root of a negative number, which is no number. */
function defined(x: Float, value: Float): Float {
  return x.abs().le(1).select(value, x.mul(x).neg().sub(1).sqrt())
}

export function atan(x: Float): Float {
  if (isDouble(x)) return x.atan()
  // Angles above 3/8 of a right angle's half are turned back, those above pi / 4 mirrored.
  const size = x.abs()
  const isSteep = size.gt(1)
  const slope = isSteep.select(size.min(0).add(1).div(size), size)
  const isLarge = slope.gt(Math.tan(Math.PI / 8))
  const t = isLarge.select(slope.sub(1).div(slope.add(1)), slope)
  const part = t.mul(t.mul(t)).fma(polynomial(t.mul(t), ATAN), t)
  const angle = isLarge.select(part.add(Math.PI / 4), part)
  const whole = isSteep.select(angle.neg().add(Math.PI / 2), angle)
  return x.lt(0).select(whole.neg(), whole)
}

// Chebyshev interpolation: (erf(x) / x - 1) as a polynomial in x^2 on [0, 1], and -log(erfc(x)) as one in x on [1, 4].
const ERF_NEAR = [0.128379166, -0.37612626, 0.112835944, -0.0268542115, 0.00518908724, -0.00080168643, 7.87587487e-5] as const
const ERFC_FAR = [
  -0.000416329276, 1.1306752, 0.630953014, 0.111055017, -0.0270995237, 0.00506494706, -0.000685836771, 6.22983644e-5, -3.32168588e-6,
  7.58268754e-8,
] as const

/** Within 8e-8 of erf. Past 4 it is 1 in f32. */
export function erf(x: Float): Float {
  if (isDouble(x)) return preciseErf(x)
  const size = x.abs()
  const near = x.mul(polynomial(x.mul(x), ERF_NEAR)).add(x)
  const tail = polynomial(size.min(4), ERFC_FAR).neg().exp().neg().add(1)
  const far = x.lt(0).select(tail.neg(), tail)
  // Written so that a NaN takes the near branch, which keeps it.
  return size.ge(1).select(far, near)
}

/** To 53 bits, as `erfOf` has it. */
function preciseErf(x: Float): Float {
  const terms = Array.from({ length: ERF_TERMS }, (_, n) => 2 / Math.sqrt(Math.PI) / (2 * n + 1))
  for (let n = 1; n < ERF_TERMS; n++) for (let i = n; i < ERF_TERMS; i++) terms[i] = (terms[i] ?? 0) * (-1 / n)
  const near = x.mul(polynomial(x.mul(x), terms))
  const size = x.abs().min(6)
  let fraction = size
  for (let n = ERF_TERMS; n >= 1; n--)
    fraction = size.add(
      fraction
        .mul(0)
        .add(n / 2)
        .div(fraction),
    )
  const tail = size
    .mul(size)
    .neg()
    .exp()
    .div(fraction.mul(Math.sqrt(Math.PI)))
    .neg()
    .add(1)
  return size.lt(2.5).select(near, x.lt(0).select(tail.neg(), tail))
}
/** of the series, and of the continued fraction: either is exact to 53 bits where it is used */
const ERF_TERMS = 60

/** 0.5 x (1 + erf(x / sqrt 2)); far below 0 the sum is what erf lacks to -1, which has digits that 1 + erf has not. */
export function geluErf(x: Float): Float {
  const z = x.mul(Math.SQRT1_2)
  if (isDouble(x)) return x.mul(0.5).mul(erf(z).add(1))
  const size = z.abs()
  const lacking = size.lt(4).select(polynomial(size.min(4), ERFC_FAR).neg().exp(), 0)
  return x.mul(0.5).mul(z.le(-1).select(lacking, erf(z).add(1)))
}

/** x^y with the rules of C for negative x: an integer y keeps the sign of odd powers, any other gives NaN. */
export function power(x: Float, y: Float): Float {
  const size = x.abs().pow(y)
  const whole = y.floor().eq(y)
  const half = y.mul(0.5)
  const odd = whole.and(half.floor().ne(half))
  const signed = whole.select(odd.select(size.neg(), size), x.sqrt()) // the root of a negative number is the NaN
  return y.eq(0).select(y.mul(0).add(1), x.lt(0).select(signed, size))
}

// The same functions in doubles.

/** To the nearest whole number, halves to even. */
export function roundEvenOf(x: number): number {
  return Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)
}

export function sigmoidOf(x: number): number {
  return 1 / (1 + Math.exp(-x))
}
export function softplusOf(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
}
export function geluOf(x: number): number {
  return 0.5 * x * (1 + Math.tanh(GELU_SCALE * (x + GELU_CUBE * x ** 3)))
}
export function geluErfOf(x: number): number {
  return 0.5 * x * (1 + erfOf(x * Math.SQRT1_2))
}

/** erf by its series, and by the continued fraction of erfc where that converges faster. */
export function erfOf(x: number): number {
  const size = Math.abs(x)
  if (Number.isNaN(x)) return x
  if (size > 6) return Math.sign(x)
  if (size < 2.5) {
    let term = x
    let sum = x
    for (let n = 1; n < 60; n++) {
      term *= (-x * x) / n
      sum += term / (2 * n + 1)
    }
    return (2 / Math.sqrt(Math.PI)) * sum
  }
  let fraction = size
  for (let n = 60; n >= 1; n--) fraction = size + n / 2 / fraction
  return Math.sign(x) * (1 - Math.exp(-size * size) / (Math.sqrt(Math.PI) * fraction))
}
