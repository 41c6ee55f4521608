// Two normally distributed numbers of two random words (Box and Muller): the first says how far from 0 a point of the plane lies, the
// second in which direction. Logarithm, sine and cosine are written out over exact fractions, since what targets have for them differs too
// much: on GPUs the logarithm of a number near 1 may be off by more than its value. So all devices agree but for the last bits.

import type { LaneScope } from '../../ir/author.ts'
import type { Elements } from '../../ir/value.ts'
import { type Float, polynomial } from '../function.ts'

/** Bits of a word that become a fraction: what an f32 holds exactly. */
export const FRACTION_BITS = 24
const REST = 32 - FRACTION_BITS
const ONE = 2 ** FRACTION_BITS

/** 2 atanh(t) / t in t^2; below 0.172 the next term is less than 2e-9. */
const ATANH = [2, 2 / 3, 2 / 5, 2 / 7, 2 / 9] as const
/** Taylor series of sin(x) / x and cos(x) in x^2, for an eighth of a turn. */
const SIN = [1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880] as const
const COS = [1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800] as const

const ROOT_HALF_BITS = 0x3f3504f3
const MANTISSA = 0x7fffff
const MANTISSA_BITS = 23

type Words = Elements<'u32'>

/** In [0, 1), in steps of 2^-24. */
export function writeUniform(word: Words): Float {
  return word
    .shr(REST)
    .to('f32')
    .mul(1 / ONE)
}

export function writeNormal(k: LaneScope, first: Words, second: Words): [Float, Float] {
  const name = (value: Float): Float => k.let('normal', value)
  const distance = name(
    minusLog(
      first
        .shr(REST)
        .add(1)
        .to('f32')
        .mul(1 / ONE),
      name,
    )
      .mul(2)
      .sqrt(),
  )
  const turn = second.shr(REST)
  const quarters = turn.add(ONE / 8).shr(FRACTION_BITS - 2) // the nearest
  const rest = turn.as('i32').sub(quarters.shl(FRACTION_BITS - 2).as('i32'))
  const angle = name(rest.to('f32').mul((2 * Math.PI) / ONE)) // within an eighth of a turn
  const square = name(angle.mul(angle))
  const [sine, cosine] = [name(angle.mul(polynomial(square, SIN))), name(polynomial(square, COS))]
  const isOdd = quarters.and(1).ne(0)
  const [sin, cos] = [isOdd.select(cosine, sine), isOdd.select(sine, cosine)]
  const isBack = quarters.add(1).and(2).ne(0) // in the second and third quarter the cosine is below 0
  const isDown = quarters.and(2).ne(0)
  return [distance.mul(isBack.select(cos.neg(), cos)), distance.mul(isDown.select(sin.neg(), sin))]
}

/** -log(x) for x in (0, 1]: x is a power of two times a number near 1, whose logarithm is a series. */
function minusLog(x: Float, name: (value: Float) => Float): Float {
  const bits = x.as('u32').sub(ROOT_HALF_BITS)
  const exponent = bits.as('i32').shr(MANTISSA_BITS)
  const near = bits.and(MANTISSA).add(ROOT_HALF_BITS).as('f32') // from the root of a half to that of two
  const above = name(near.sub(1))
  const t = name(above.div(above.add(2)))
  return exponent.to('f32').fma(-Math.LN2, t.mul(polynomial(name(t.mul(t)), ATANH)).neg())
}

// The same in doubles.

export function uniformOf(word: number): number {
  return (word >>> REST) / ONE
}

export function normalOf(first: number, second: number): [number, number] {
  const distance = Math.sqrt(-2 * Math.log(((first >>> REST) + 1) / ONE))
  const angle = 2 * Math.PI * uniformOf(second)
  return [distance * Math.cos(angle), distance * Math.sin(angle)]
}
