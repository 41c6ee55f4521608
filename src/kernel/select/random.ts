// Random numbers without a state: the n-th of a seed is a function of both, in 32-bit arithmetic. So a device can draw the numbers that
// the host would have drawn, and no step waits for one. The function is that of "squares" in spirit: a Weyl sequence, keyed by the seed
// and mixed three times (multipliers of the lowbias32 family). Good for sampling, not for secrets.

import type { LaneScope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'

const WEYL = 0x9e3779b9
const [FIRST, SECOND, THIRD] = [0x21f0aaad, 0x735a2d97, 0x2c1b3c6d]

/** 32 random bits. `low` and `high` are the words of the seed. */
export function randomWord(low: number, high: number, n: number): number {
  let x = (Math.imul(n, WEYL) + low) | 0
  x = Math.imul(x ^ (x >>> 16), FIRST)
  x = ((x ^ (x >>> 15)) + high) | 0
  x = Math.imul(x ^ (x >>> 16), SECOND)
  x = Math.imul(x ^ (x >>> 15), THIRD)
  return (x ^ (x >>> 16)) >>> 0
}

/** The same in a kernel. */
export function writeRandomWord(k: LaneScope, low: Value<'u32'>, high: Value<'u32'>, n: Value<'u32'>): Value<'u32'> {
  const mixed = (x: Value<'u32'>, shift: number): Value<'u32'> => x.xor(x.shr(shift))
  const a = k.let('random', n.mul(WEYL).add(low))
  const b = k.let('random', mixed(a, 16).mul(FIRST))
  const c = k.let('random', mixed(b, 15).add(high))
  const d = k.let('random', mixed(c, 16).mul(SECOND))
  const e = k.let('random', mixed(d, 15).mul(THIRD))
  return mixed(e, 16)
}
