// Random choices, the same for the same seed on every machine.

/**
 * @typedef {object} Choice
 * @property {() => number} next in [0, 1)
 * @property {<T>(list: readonly T[]) => T} pick
 * @property {(share: number) => boolean} chance
 * @property {<T>(list: readonly T[]) => T[]} shuffle
 */

/** @param {number} seed @returns {Choice} */
export function createChoice(seed) {
  let state = (seed ^ 0x9e3779b9) >>> 0
  const next = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const pick = (/** @type {readonly any[]} */ list) => list[Math.floor(next() * list.length)]
  return {
    next,
    pick,
    chance: (share) => next() < share,
    shuffle: (list) => {
      const out = [...list]
      for (let i = out.length - 1; i > 0; i--) {
        const j = Math.floor(next() * (i + 1))
        ;[out[i], out[j]] = [out[j], out[i]]
      }
      return out
    },
  }
}
