// What is computed, apart from which registers take part: on integers, on floats, and in a kernel. Integers wrap and floats round
// afterwards; shifts count modulo the width of their type.

import type { Meaning } from '../machine.ts'
import { bitsOf, fuse } from '../type.ts'

const least = <T extends bigint | number>(a: T, b: T): T => (b < a ? b : a)
const most = <T extends bigint | number>(a: T, b: T): T => (b > a ? b : a)
const size = (a: bigint): bigint => (a < 0n ? -a : a)

export const add: Meaning = { integer: (_type, a, b) => a + b, float: (_type, a, b) => a + b, lower: (k, a, b) => k.add(a, b) }
export const subtract: Meaning = { integer: (_type, a, b) => a - b, float: (_type, a, b) => a - b, lower: (k, a, b) => k.subtract(a, b) }
export const multiply: Meaning = { integer: (_type, a, b) => a * b, float: (_type, a, b) => a * b, lower: (k, a, b) => k.multiply(a, b) }
/** Integers by 0 are refused before. */
export const divide: Meaning = {
  integer: (_type, a, b) => (b === 0n ? a : a / b),
  float: (_type, a, b) => a / b,
  lower: (k, a, b) => k.divide(a, b),
}
/** Of a NaN and a number either may come out. */
export const minimum: Meaning = {
  integer: (_type, a, b) => least(a, b),
  float: (_type, a, b) => least(a, b),
  lower: (k, a, b) => k.minimum(a, b),
}
export const maximum: Meaning = {
  integer: (_type, a, b) => most(a, b),
  float: (_type, a, b) => most(a, b),
  lower: (k, a, b) => k.maximum(a, b),
}
/** Rounds the product, then the sum. */
export const multiplyAdd: Meaning = {
  integer: (_type, a, b, c) => a * b + c,
  float: (type, a, b, c) => fuse(type, a, b, 0) + c,
  lower: (k, a, b, c) => k.add(k.multiply(a, b), c),
}
/** Rounds once; a kernel does as its target can. */
export const fused: Meaning = { float: fuse, lower: (k, a, b, c) => k.fuse(a, b, c) }
export const absolute: Meaning = { integer: (_type, a) => size(a), float: (_type, a) => Math.abs(a), lower: (k, a) => k.absolute(a) }
export const negate: Meaning = { integer: (_type, a) => -a, float: (_type, a) => -a, lower: (k, a) => k.negate(a) }

export const and: Meaning = { integer: (_type, a, b) => a & b, lower: (k, a, b) => k.bitwise('and', a, b) }
export const or: Meaning = { integer: (_type, a, b) => a | b, lower: (k, a, b) => k.bitwise('or', a, b) }
export const xor: Meaning = { integer: (_type, a, b) => a ^ b, lower: (k, a, b) => k.bitwise('xor', a, b) }
export const not: Meaning = { integer: (_type, a) => ~a, lower: (k, a) => k.not(a) }
/** The second operand is a u32. */
export const shiftLeft: Meaning = { integer: (type, a, b) => a << (b % BigInt(bitsOf(type))), lower: (k, a, b) => k.shiftLeft(a, b) }
export const shiftRight: Meaning = { integer: (type, a, b) => a >> (b % BigInt(bitsOf(type))), lower: (k, a, b) => k.shiftRight(a, b) }

export const exp: Meaning = { float: (_type, a) => Math.exp(a), lower: (k, a) => k.call('exp', a) }
export const log: Meaning = { float: (_type, a) => Math.log(a), lower: (k, a) => k.call('log', a) }
export const log2: Meaning = { float: (_type, a) => Math.log2(a), lower: (k, a) => k.call('log2', a) }
export const log10: Meaning = {
  float: (_type, a) => Math.log10(a),
  lower: (k, a) => k.multiply(k.call('log2', a), k.constant(a.type, Math.log10(2))),
}
export const sqrt: Meaning = { float: (_type, a) => Math.sqrt(a), lower: (k, a) => k.call('sqrt', a) }
export const rsqrt: Meaning = { float: (_type, a) => 1 / Math.sqrt(a), lower: (k, a) => k.call('rsqrt', a) }
export const sin: Meaning = { float: (_type, a) => Math.sin(a), lower: (k, a) => k.call('sin', a) }
export const cos: Meaning = { float: (_type, a) => Math.cos(a), lower: (k, a) => k.call('cos', a) }
export const tan: Meaning = { float: (_type, a) => Math.tan(a), lower: (k, a) => k.call('tan', a) }
export const tanh: Meaning = { float: (_type, a) => Math.tanh(a), lower: (k, a) => k.call('tanh', a) }
export const sigmoid: Meaning = {
  float: (_type, a) => 1 / (1 + Math.exp(-a)),
  lower: (k, a) => {
    const one = k.constant(a.type, 1)
    return k.divide(one, k.add(one, k.call('exp', k.negate(a))))
  },
}
