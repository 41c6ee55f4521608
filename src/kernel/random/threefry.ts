// Threefry-2x32 with 20 rounds: a function that makes two random words of a key and a counter, of two words each. Additions, rotations and
// exclusive ors of 32-bit words are all it takes, so every device gives the same bits. J. K. Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011. Good for simulation and sampling, not for secrets.

import type { LaneScope } from '../../ir/author.ts'
import type { Elements } from '../../ir/value.ts'

const ROUNDS = 20
/** Bits that the second word is rotated by, round after round. */
const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const
/** Makes the third word of the key of the other two. */
const PARITY = 0x1bd11bda
/** The key is added again after so many rounds. */
const INJECTION = 4

/** Words, wherever they are computed. */
interface Arithmetic<W> {
  add(a: W, b: W | number): W
  xor(a: W, b: W | number): W
  rotate(a: W, bits: number): W
}

type Pair<W> = readonly [first: W, second: W]

function encrypt<W>({ add, xor, rotate }: Arithmetic<W>, key: Pair<W>, counter: Pair<W>): [W, W] {
  const words = [...key, xor(xor(key[0], key[1]), PARITY)] as const
  const wordOf = (index: number): W => words[(index % 3) as 0 | 1 | 2]
  let [x, y] = [add(counter[0], key[0]), add(counter[1], key[1])]
  for (let round = 1; round <= ROUNDS; round++) {
    x = add(x, y)
    y = xor(x, rotate(y, ROTATIONS[(round - 1) % ROTATIONS.length] ?? 0))
    if (round % INJECTION !== 0) continue
    const injection = round / INJECTION
    x = add(x, wordOf(injection))
    y = add(add(y, wordOf(injection + 1)), injection)
  }
  return [x, y]
}

const NUMBERS: Arithmetic<number> = {
  add: (a, b) => (a + b) >>> 0,
  xor: (a, b) => (a ^ b) >>> 0,
  rotate: (a, bits) => ((a << bits) | (a >>> (32 - bits))) >>> 0,
}

/** Two random words, in JavaScript. */
export function threefry(key: Pair<number>, counter: Pair<number>): [number, number] {
  return encrypt(NUMBERS, key, counter)
}

type Words = Elements<'u32'>

/** The same in a kernel: the first word of the counter may be a vector, of which each element is one. */
export function writeThreefry(k: LaneScope, key: Pair<Words>, counter: Pair<Words>): [Words, Words] {
  const name = (word: Words): Words => k.let('word', word)
  const words: Arithmetic<Words> = {
    add: (a, b) => name(a.add(b)),
    xor: (a, b) => name(a.xor(b)),
    rotate: (a, bits) => name(a.shl(bits).or(a.shr(32 - bits))),
  }
  return encrypt(words, key, counter)
}
