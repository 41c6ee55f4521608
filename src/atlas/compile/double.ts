// The bits of an f64 and an f32 of about the same value, for devices without f64: rounded to the nearest one way, exact the other.

import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'

/** what the exponents of the two formats differ by */
const BIAS = 1023 - 127
/** of an f32, without its sign */
const INFINITY = 0x7f800000
const QUIET_NAN = 0x7fc00000

/** Words of operations on words, all of them u32. */
function speak(b: Builder) {
  return {
    word: (value: number): Node => b.constant(value, 'u32'),
    of: (op: OpName, x: Node, y: Node | number): Node => b.apply(op, [x, typeof y === 'number' ? b.constant(y, 'u32') : y]),
    choose: (condition: Node, yes: Node, no: Node): Node => b.apply('select', [condition, yes, no]),
  }
}

/** The nearest f32 to the f64 of these words, ties to even. */
export function floatOfDouble(b: Builder, low: Node, high: Node): Node {
  const { word, of, choose } = speak(b)
  const sign = of('and', high, 0x80000000)
  const exponent = b.bind('exponent', of('and', of('shr', high, 20), 0x7ff))
  // 23 bits of the mantissa that an f32 has room for, and the 29 that it has not
  const kept = b.bind('kept', of('or', of('shl', of('and', high, 0xfffff), 3), of('shr', low, 29)))
  const rest = b.bind('rest', of('and', low, 0x1fffffff))
  const half = 0x10000000
  const isUp = of('or', of('gt', rest, half), of('and', of('eq', rest, half), of('ne', of('and', kept, 1), 0)))
  const normal = of('add', of('or', of('shl', of('sub', exponent, BIAS), 23), kept), choose(isUp, word(1), word(0)))
  const isNan = of('and', of('eq', exponent, 0x7ff), of('ne', of('or', kept, rest), 0))
  const isLarge = of('gt', exponent, BIAS + 254)
  const isSmall = of('le', exponent, BIAS)
  const size = choose(isSmall, subnormal(b, exponent, kept, rest), choose(isLarge, word(INFINITY), normal))
  return b.apply('bitcast', [of('or', sign, choose(isNan, word(QUIET_NAN), size))], null, 'f32')
}

/** Below the normal numbers: the mantissa with its leading one, moved down and rounded. */
function subnormal(b: Builder, exponent: Node, kept: Node, rest: Node): Node {
  const { word, of, choose } = speak(b)
  const whole = of('or', kept, 0x800000)
  // by 25 nothing is left, not even by rounding
  const by = b.bind('by', of('min', of('sub', word(BIAS + 1), of('min', exponent, BIAS)), 25))
  const quotient = b.bind('quotient', of('shr', whole, by))
  const cut = of('sub', whole, of('shl', quotient, by))
  const half = b.apply('shl', [word(1), of('sub', by, 1)])
  const isOdd = of('or', of('ne', rest, 0), of('ne', of('and', quotient, 1), 0))
  const isUp = of('or', of('gt', cut, half), of('and', of('eq', cut, half), isOdd))
  return of('add', quotient, choose(isUp, word(1), word(0)))
}

/** The words of the f64 that an f32 is. */
export function doubleOfFloat(b: Builder, value: Node): readonly [low: Node, high: Node] {
  const { word, of, choose } = speak(b)
  const bits = b.bind('bits', b.apply('bitcast', [value], null, 'u32'))
  const field = of('and', of('shr', bits, 23), 0xff)
  const mantissa = of('and', bits, 0x7fffff)
  // one below the normal numbers is a whole number of 2^-149: that number as an f32 has the mantissa, and the exponent but for 149
  const isSmall = of('eq', field, 0)
  const scaled = b.bind('scaled', b.apply('bitcast', [b.apply('cast', [mantissa], null, 'f32')], null, 'u32'))
  const isZero = of('eq', of('and', bits, 0x7fffffff), 0)
  const exponent = choose(isSmall, of('sub', of('add', of('shr', scaled, 23), BIAS), 149), of('add', field, BIAS))
  const known = choose(isZero, word(0), choose(of('eq', field, 0xff), word(0x7ff), exponent))
  const digits = b.bind('digits', choose(isSmall, of('and', scaled, 0x7fffff), mantissa))
  const high = of('or', of('and', bits, 0x80000000), of('or', of('shl', known, 20), of('shr', digits, 3)))
  return [of('shl', digits, 29), high]
}
