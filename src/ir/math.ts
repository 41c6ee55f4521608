// The elementary functions as formulas of basic f32 arithmetic, for targets that have none. Each is within a few units in the
// last place of the true value over its sensible range, keeps NaN, and meets infinities and zeros as mathematics would.
// They work on scalars and vectors alike, need no fused multiply-add, and never rely on min or max, which may lose a NaN.
//
// Polynomials are fits at Chebyshev nodes, lowest power first. A constant in two parts (HIGH, LOW) is a longer one cut so that
// a product of its high part with a small whole number is exact.

import type { DType } from '../base/dtype.ts'
import { Value, type VectorOf } from './value.ts'

/** An f32, or a vector of f32: the formulas do not care. */
export type F32 = Value<'f32'>
type I32 = Value<'i32'>

const LN2_HIGH = 0.693145751953125
const LN2_LOW = 1.428606765330187e-6
const LOG2E = 1.4426950216293335
const LOG2E_LOW = 1.925963033500011e-8
const SMALLEST_NORMAL = 2 ** -126
const SIGN = 0x80000000
/** pi / 2 in four parts: the first three have 8 bits each. */
const HALF_PI_PARTS = [1.5703125, 0.0004825592041015625, 1.2665987014770508e-6, 9.92093629470503e-10]
const HALF_PI = 1.5707963705062866
const HALF_PI_LOW = -4.371138828673793e-8

function polynomial(x: F32, coefficients: readonly number[]): F32 {
  const [highest = 0, next = 0, ...rest] = coefficients.toReversed()
  return rest.reduce((sum, coefficient) => sum.mul(x).add(coefficient), x.mul(highest).add(next))
}

/** `size`, which is not negative, with the sign of `of`. */
export function withSign(size: F32, of: F32): F32 {
  return size.as('u32').or(of.as('u32').and(SIGN)).as('f32')
}

/** Added to a number up to 2^22, it leaves no room for a fraction: the last bits are the nearest whole number. */
const ROUNDER = 1.5 * 2 ** 23
const ROUNDER_BITS = 0x4b400000

/** The nearest whole number, as a float and as an integer. Two additions: to convert a float takes some targets many instructions. */
function nearest(x: F32): { float: F32; whole: I32 } {
  const shifted = x.add(ROUNDER)
  return { float: shifted.sub(ROUNDER), whole: shifted.as('i32').sub(ROUNDER_BITS) }
}

/** value * 2^whole for powers in -252..254; in two steps, so that neither factor overflows before the result does. */
function scale(value: F32, whole: I32): F32 {
  const half = whole.shr(1)
  const two = (exponent: I32): F32 => exponent.add(127).shl(23).as('f32')
  return value.mul(two(half)).mul(two(whole.sub(half)))
}

/** Keeps what is in range as it is, NaN too. */
function limit(x: F32, low: number, high: number): F32 {
  return x.min(high).max(low)
}

/** A number as a value of x's type. */
export function constantLike<D extends DType>(x: Value<D>, value: number): Value<D, 'uniform'> {
  return new Value(x.builder, x.builder.constant(value, x.node.dtype))
}

/** Below these a result would be subnormal. */
const EXP_LOWEST = -87.33654
const EXP2_LOWEST = -126

/** Zero where the result would be subnormal: a softmax makes many such, and some processors take a hundred cycles for each. */
function flushBelow(lowest: number, x: F32, result: F32): F32 {
  return x.lt(lowest).select(constantLike(x, 0), result)
}

/** of e^r = 1 + r + r^2 p(r), for r within half of ln 2 */
const EXP_TERMS = [0.5, 0.1666657658, 0.04166655411, 0.00836324667, 0.001392626805]

export function exp(x: F32): F32 {
  const y = limit(x, EXP_LOWEST, 89)
  const { float: n, whole } = nearest(y.mul(LOG2E))
  const r = y.sub(n.mul(LN2_HIGH)).sub(n.mul(LN2_LOW))
  const p = polynomial(r, EXP_TERMS)
  return flushBelow(EXP_LOWEST, x, scale(r.mul(r).mul(p).add(r).add(1), whole))
}

/**
 * e^x for x up to 0, as a softmax wants it. Nothing overflows, so that the power of two is added to the bits of the exponent: half of the
 * instructions of `exp`, which are most of what a softmax does on a CPU.
 */
export function expBelowZero(x: VectorOf<'f32'>): VectorOf<'f32'> {
  const y = x.max(EXP_LOWEST)
  const shifted = y.mul(LOG2E).add(ROUNDER)
  const n = shifted.sub(ROUNDER)
  const r = n.fma(-LN2_LOW, n.fma(-LN2_HIGH, y))
  const [highest = 0, ...terms] = EXP_TERMS.toReversed()
  const p = terms.reduce<VectorOf<'f32'>>((sum, term) => sum.fma(r, term), constantLike(x, highest))
  const part = p.mul(r).fma(r, r).add(1)
  const scaled = part.as('i32').add(shifted.as('i32').shl(23)).as('f32')
  const result = y.fma(0, scaled) // NaN stays: its bits are no exponent to add to
  return x.lt(EXP_LOWEST).select(constantLike(x, 0), result)
}

export function exp2(x: F32): F32 {
  const y = limit(x, EXP2_LOWEST, 129)
  const { float: n, whole } = nearest(y)
  return flushBelow(EXP2_LOWEST, x, scale(exp2Part(y.sub(n)), whole))
}

/** 2^r for r from -1/2 to 1/2. */
function exp2Part(r: F32): F32 {
  return r.mul(polynomial(r, [0.693147188, 0.2402265076, 0.05550357114, 0.009618082557, 0.001339086336, 0.0001545316294])).add(1)
}

/** x = m * 2^e with m around 1, for x above 0 and finite. */
function split(x: F32): { m: F32; e: F32 } {
  const tiny = x.lt(SMALLEST_NORMAL)
  const bits = tiny.select(x.mul(2 ** 23), x).as('i32')
  const e = bits.sub(0x3f3504f3).shr(23) // below sqrt(2)/2 the next smaller power of two is nearer
  const m = bits.sub(e.shl(23)).as('f32')
  return { m, e: e.to('f32').sub(tiny.select(constantLike(x, 23), 0)) }
}

const LOG_TAIL = [0.6666666654, 0.4000012493, 0.2855060395, 0.2333481605]

/** log(1 + f) for 1 + f between sqrt(2)/2 and sqrt(2). */
function logPart(f: F32): F32 {
  const s = f.div(f.add(2))
  const z = s.mul(s)
  const half = f.mul(f).mul(0.5)
  return f.sub(half.sub(s.mul(half.add(z.mul(polynomial(z, LOG_TAIL))))))
}

/** What a logarithm gives where its argument is no positive number. */
function logEnds(x: F32, inside: F32): F32 {
  const outside = x.eq(0).select(constantLike(x, -Infinity), NaN)
  return x.gt(0).select(x.lt(Infinity).select(inside, x), outside)
}

export function log(x: F32): F32 {
  const { m, e } = split(x)
  return logEnds(x, e.mul(LN2_HIGH).add(logPart(m.sub(1)).add(e.mul(LN2_LOW))))
}

export function log2(x: F32): F32 {
  const { m, e } = split(x)
  const part = logPart(m.sub(1))
  return logEnds(x, e.add(part.mul(LOG2E).add(part.mul(LOG2E_LOW))))
}

/** The leading 12 bits of a number: products of two such are exact. */
function head(x: F32): F32 {
  return x.as('u32').and(0xfffff000).as('f32')
}

/** log2 in two parts, together good to about 35 bits. x above 0 and finite. */
function log2Long(x: F32): { high: F32; low: F32 } {
  const TWO_BY_LN2_HIGH = 2.884765625
  const TWO_BY_LN2_LOW = 0.0006244567921385169
  const { m, e } = split(x)
  const f = m.sub(1)
  const sum = m.add(1)
  const sumHigh = head(sum)
  const sumLow = m.sub(sumHigh.sub(1))
  const s = f.div(sum)
  const sHigh = head(s)
  const sLow = f.sub(sHigh.mul(sumHigh)).sub(sHigh.mul(sumLow)).div(sum)
  const z = s.mul(s)
  const tail = sLow.add(s.mul(z).mul(polynomial(z, LOG_TAIL)).mul(0.5))
  const first = sHigh.mul(TWO_BY_LN2_HIGH)
  const second = sHigh.mul(TWO_BY_LN2_LOW).add(tail.mul(TWO_BY_LN2_HIGH + TWO_BY_LN2_LOW))
  const high = e.add(first)
  const low = first.sub(high.sub(e)).add(second)
  const cut = head(high.add(low))
  return { high: cut, low: high.sub(cut).add(low) }
}

export function pow(a: F32, b: F32): F32 {
  const size = a.abs()
  const { high, low } = log2Long(size)
  const rough = b.mul(logEnds(size, high.add(low)))
  const bHigh = head(b)
  const first = bHigh.mul(high)
  const second = b.sub(bHigh).mul(high).add(b.mul(low))
  // where the result overflows or is no number, the short way says so; the long one would mix infinities
  const usual = rough.abs().lt(200)
  const { float: n, whole } = nearest(limit(usual.select(first.add(second), rough), -151, 129))
  const r = usual.select(limit(first.sub(n).add(second), -1, 1), limit(rough.sub(n), -0.5, 0.5))
  const power = scale(exp2Part(r), whole)
  const isWhole = b.trunc().eq(b)
  const isOdd = isWhole.and(b.mul(0.5).trunc().ne(b.mul(0.5)))
  const negative = isOdd.select(power.neg(), isWhole.select(power, NaN))
  const signed = a.lt(0).select(negative, isOdd.and(a.eq(0)).select(withSign(power, a), power))
  return b.eq(0).select(constantLike(a, 1), signed)
}

/** x = n * pi/2 + r, with r in -pi/4..pi/4. */
function quarter(x: F32): { n: I32; r: F32 } {
  const n = x.mul(2 / Math.PI).rint()
  const r = HALF_PI_PARTS.reduce((rest, piece) => rest.sub(n.mul(piece)), x)
  return { n: n.to('i32'), r }
}

function sinPart(r: F32): F32 {
  const z = r.mul(r)
  return r.add(r.mul(z).mul(polynomial(z, [-0.1666666666, 0.008333331858, -0.0001984008117, 2.724940356e-6])))
}

function cosPart(r: F32): F32 {
  const z = r.mul(r)
  return z
    .mul(z)
    .mul(polynomial(z, [0.04166666416, -0.001388827117, 2.454382208e-5]))
    .sub(z.mul(0.5))
    .add(1)
}

/** sin(r + n * pi/2) */
function turn(n: I32, r: F32): F32 {
  const value = n.and(1).eq(0).select(sinPart(r), cosPart(r))
  return value.as('i32').xor(n.and(2).shl(30)).as('f32')
}

export function sin(x: F32): F32 {
  const { n, r } = quarter(x)
  return turn(n, r)
}

export function cos(x: F32): F32 {
  const { n, r } = quarter(x)
  return turn(n.add(1), r)
}

export function tan(x: F32): F32 {
  const { n, r } = quarter(x)
  return turn(n, r).div(turn(n.add(1), r))
}

/** asin of the size of x if that is small; else asin(sqrt((1 - |x|) / 2)), from which the rest follows. */
function asinPart(x: F32): { isLarge: Value<'bool'>; p: F32 } {
  const size = x.abs()
  const isLarge = size.gt(0.5)
  const z = isLarge.select(size.sub(1).mul(-0.5), size.mul(size))
  const s = isLarge.select(z.sqrt(), size)
  const p = s.mul(z).mul(polynomial(z, [0.1666666625, 0.07500101794, 0.04459777022, 0.03111564842, 0.01708903859, 0.03377873659]))
  return { isLarge, p: s.add(p) }
}

export function asin(x: F32): F32 {
  const { isLarge, p } = asinPart(x)
  return withSign(isLarge.select(p.mul(-2).add(HALF_PI_LOW).add(HALF_PI), p), x)
}

export function acos(x: F32): F32 {
  const { isLarge, p } = asinPart(x)
  const large = x.gt(0).select(
    p.mul(2),
    p
      .mul(-2)
      .add(2 * HALF_PI_LOW)
      .add(2 * HALF_PI),
  )
  return isLarge.select(large, withSign(p, x).neg().add(HALF_PI_LOW).add(HALF_PI))
}

export function atan(x: F32): F32 {
  const size = x.abs()
  const isLarge = size.gt(2.414213562)
  const isMiddle = size.gt(0.4142135624)
  const t = isLarge.select(constantLike(x, -1).div(size), isMiddle.select(size.sub(1).div(size.add(1)), size))
  const z = t.mul(t)
  const p = t.add(t.mul(z).mul(polynomial(z, [-0.3333333134, 0.1999950863, -0.142632952, 0.1073863605, -0.06438789587])))
  const parts = (fraction: number): F32 => p.add(HALF_PI_LOW * fraction).add(HALF_PI * fraction)
  return withSign(isLarge.select(parts(1), isMiddle.select(parts(0.5), p)), x)
}

export function tanh(x: F32): F32 {
  const size = x.abs()
  const z = size.mul(size)
  const small = size.add(
    size.mul(z).mul(polynomial(z, [-0.3333333314, 0.1333330217, -0.0539590637, 0.02176778133, -0.008341050443, 0.002290061513])),
  )
  const large = constantLike(x, 1).sub(constantLike(x, 2).div(exp(size.mul(2)).add(1)))
  return withSign(size.lt(0.625).select(small, large), x)
}
