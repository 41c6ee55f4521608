// Random numbers on the host: the same that devices draw (kernel/select/random.ts), with more bits. The same seed gives the same numbers
// on every machine.

import { randomWord } from '../kernel/select/random.ts'

/** Tells the words of lower bits from those of higher ones. */
const OTHER = 0x5bd1e995

/** Returns a function that gives numbers in [0, 1) with 53 random bits. */
export function createRandom(seed: number): () => number {
  const [low, high] = [seed >>> 0, Math.floor(seed / 2 ** 32)]
  let n = 0
  return () => {
    const [upper, lower] = [randomWord(low, high, n), randomWord(low ^ OTHER, high, n)]
    n++
    return (upper * 2 ** 21 + Math.floor(lower / 2 ** 11)) / 2 ** 53
  }
}
