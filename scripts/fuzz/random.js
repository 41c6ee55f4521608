// Choices of the fuzzer: a seed and the number of a case give the same ones on every machine.

import { RandomWords } from '../../dist/weights/synth/block.js'

export class Random {
  #words

  constructor(/** @type {number} */ seed, /** @type {number} */ number) {
    this.#words = new RandomWords(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b))
  }

  /** A whole number from 0 to `count` - 1. */
  below(/** @type {number} */ count) {
    return Math.floor(((this.#words.next() >>> 0) / 2 ** 32) * count)
  }

  /** True so often. */
  chance(/** @type {number} */ share) {
    return this.below(1 << 20) < share * (1 << 20)
  }

  /** One of them. @template T @param {readonly T[]} items @returns {T} */
  pick(items) {
    if (items.length === 0) throw new Error('nothing to pick from')
    return items[this.below(items.length)]
  }
}
