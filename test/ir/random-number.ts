// Random numbers for random kernels and their data: the same for a seed on every run.

import type { Scalar } from '../../src/base/dtype.ts'

export class Random {
  #state: number
  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995
  }
  /** from 0, below 1 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let x = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
  below(count: number): number {
    return Math.floor(this.next() * count)
  }
  chance(part: number): boolean {
    return this.next() < part
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }
  word(): number {
    return this.chance(0.3) ? this.pick([0, 1, 2, 31, 32, 255, 2 ** 31, 2 ** 31 - 1, 2 ** 32 - 1]) : this.below(2 ** 32)
  }
}

/** What random floats of a type lie on, in memory and as constants: f64 have more bits than any f32. */
export const gridOf = (scalar: Scalar): number => (scalar === 'f64' ? 29 : 4)

/** A float within 4 on the grid of its type. */
export function randomFloat(random: Random, scalar: Scalar): number {
  return scalar === 'f64' ? (random.below(2 ** 32) - 2 ** 31) / 2 ** 29 : (random.below(129) - 64) / 16
}
