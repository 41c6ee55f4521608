// A small seeded generator: xoshiro128** (Blackman and Vigna, 2018), seeded by splitmix32. Good for sampling, not for
// secrets. The same seed gives the same numbers on every machine.

/** Returns a function that gives numbers in [0, 1) with 53 random bits. */
export function createRandom(seed: number): () => number {
  const state = new Uint32Array(4)
  // both halves of the seed count, so that seeds past 2^32 differ
  let mix = (seed >>> 0) ^ Math.imul(Math.floor(seed / 2 ** 32) >>> 0, 0x85ebca6b)
  for (let i = 0; i < 4; i++) {
    mix = (mix + 0x9e3779b9) | 0
    let z = Math.imul(mix ^ (mix >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    state[i] = z ^ (z >>> 15)
  }

  const next = (): number => {
    const s1 = state[1]!
    const result = Math.imul(rotate(Math.imul(s1, 5), 7), 9) >>> 0
    state[2]! ^= state[0]!
    state[3]! ^= s1
    state[1]! ^= state[2]!
    state[0]! ^= state[3]!
    state[2]! ^= s1 << 9
    state[3] = rotate(state[3]!, 11)
    return result
  }
  return () => (Math.floor(next() / 32) * 2 ** 26 + Math.floor(next() / 64)) / 2 ** 53
}

function rotate(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by))
}
