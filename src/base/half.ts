// f16 in JavaScript numbers: rounding to nearest even from any double in one step, and to and from the 16 bits in memory.
// Registers of f16 are Float32Arrays that hold only values f16 can hold.
/* oxlint-disable typescript/no-non-null-assertion -- `float` and `bits` have one element, ROUNDER one for every exponent field of 8 bits */

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** By the exponent field of x as f32: what to add and take away so that a double's own rounding leaves 11 bits of x. */
const ROUNDER = Float64Array.from({ length: 256 }, (_, field) => 1.5 * 2 ** (52 + Math.max(field - 127, -14) - 10))

/** The nearest f16, ties to even; from 65520 on infinity. */
export function roundHalf(x: number): number {
  float[0] = x
  const rounder = ROUNDER[(bits[0]! >>> 23) & 255]!
  const rounded = x + rounder - rounder
  if (rounded === 0) return x < 0 || Object.is(x, -0) ? -0 : 0
  if (rounded > 65504) return Infinity
  return rounded < -65504 ? -Infinity : rounded
}

/** The 16 bits of a number, rounded like roundHalf. */
export function encodeHalf(x: number): number {
  const rounded = roundHalf(x)
  if (Number.isNaN(rounded)) return 0x7e00
  float[0] = rounded
  const sign = (bits[0]! >>> 16) & 0x8000
  const size = Math.abs(rounded)
  if (size === Infinity) return sign | 0x7c00
  if (size < 2 ** -14) return sign | (size * 2 ** 24)
  return sign | (((bits[0]! >>> 13) & 0x3ffff) - (112 << 10))
}

/** The value of 16 bits. */
export function decodeHalf(half: number): number {
  const size = half & 0x7fff
  bits[0] = size << 13
  // moved to its new place, the exponent is 112 too small, also that of subnormals, which are f32 subnormals here
  const value = size < 0x7c00 ? float[0]! * 2 ** 112 : size === 0x7c00 ? Infinity : NaN
  return (half & 0x8000) === 0 ? value : -value
}
