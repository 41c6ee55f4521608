// The core of SPM and BPE: repeatedly join the best neighbouring pair of symbols, best rank first, leftmost first among
// equals. Symbols are numbers; what they spell is the business of the caller.
//
// Invariant: n log n in the number of symbols. Pairs wait in a binary heap, symbols in a linked list; a pair that no longer
// stands is recognised by its rank when it comes up, never searched for.

/* oxlint-disable typescript/no-non-null-assertion -- slots are masked to the size; links and heap places stay below the reserved count */

/** Which pairs join, how well, and into what. */
export interface Pairs {
  /** the rank of the pair (lower joins first), or -1; leaves the joined symbol in `joined` */
  rank(left: number, right: number): number
  readonly joined: number
}

const EMPTY = -1
/** Marks a slot whose pair is known not to join. */
export const NEVER = -1

/** An open-addressing hash table from pairs of numbers to a rank and a joined symbol. */
export class PairTable {
  #left = new Int32Array(1024).fill(EMPTY)
  #right = new Int32Array(1024)
  #rank = new Int32Array(1024)
  #joined = new Int32Array(1024)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The slot of a pair, or -1. */
  find(left: number, right: number): number {
    const mask = this.#left.length - 1
    for (let slot = hash(left, right) & mask; ; slot = (slot + 1) & mask) {
      const found = this.#left[slot]
      if (found === EMPTY) return -1
      if (found === left && this.#right[slot] === right) return slot
    }
  }

  rankAt(slot: number): number {
    return this.#rank[slot]!
  }

  joinedAt(slot: number): number {
    return this.#joined[slot]!
  }

  /** The first addition of a pair stands. */
  add(left: number, right: number, rank: number, joined: number): void {
    if (this.find(left, right) >= 0) return
    if ((this.#size + 1) * 2 > this.#left.length) this.#grow()
    this.#put(left, right, rank, joined)
    this.#size++
  }

  clear(): void {
    this.#left.fill(EMPTY)
    this.#size = 0
  }

  #put(left: number, right: number, rank: number, joined: number): void {
    const mask = this.#left.length - 1
    let slot = hash(left, right) & mask
    while (this.#left[slot] !== EMPTY) slot = (slot + 1) & mask
    this.#left[slot] = left
    this.#right[slot] = right
    this.#rank[slot] = rank
    this.#joined[slot] = joined
  }

  #grow(): void {
    const [left, right, rank, joined] = [this.#left, this.#right, this.#rank, this.#joined]
    const length = left.length * 2
    this.#left = new Int32Array(length).fill(EMPTY)
    this.#right = new Int32Array(length)
    this.#rank = new Int32Array(length)
    this.#joined = new Int32Array(length)
    for (let i = 0; i < left.length; i++) if (left[i] !== EMPTY) this.#put(left[i]!, right[i]!, rank[i]!, joined[i]!)
  }
}

function hash(left: number, right: number): number {
  const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)
  return (mixed ^ (mixed >>> 15)) >>> 0
}

/** Below this many symbols, looking at every pair each time beats a heap. */
const FEW = 20
/** A heap key is rank * 2^32 + position, exact in a double while ranks stay below 2^21. */
const POSITIONS = 2 ** 32

/** Joins symbols in place. One merger serves one tokenizer; its buffers grow to the longest word and stay. */
export class Merger {
  readonly #pairs: Pairs
  #next = new Int32Array(0)
  #prev = new Int32Array(0)
  #rank = new Int32Array(0)
  #joined = new Int32Array(0)
  #heap = new Float64Array(0)
  #waiting = 0
  /** pairs looked up and heap levels walked, since creation: what tests count */
  operations = 0

  constructor(pairs: Pairs) {
    this.#pairs = pairs
  }

  /** Joins `symbols[0..count)`; returns how many are left, packed at the front. */
  merge(symbols: Int32Array, count: number): number {
    return count <= FEW ? this.#mergeFew(symbols, count) : this.#mergeMany(symbols, count)
  }

  #mergeFew(symbols: Int32Array, count: number): number {
    const pairs = this.#pairs
    while (count > 1) {
      let best = -1
      let at = 0
      let joined = 0
      for (let i = 0; i + 1 < count; i++) {
        const rank = pairs.rank(symbols[i]!, symbols[i + 1]!)
        if (rank >= 0 && (best < 0 || rank < best)) {
          best = rank
          at = i
          joined = pairs.joined
        }
      }
      this.operations += count
      if (best < 0) break
      symbols[at] = joined
      symbols.copyWithin(at + 1, at + 2, count)
      count--
    }
    return count
  }

  #mergeMany(symbols: Int32Array, count: number): number {
    this.#reserve(count)
    const [next, prev, ranks, joins] = [this.#next, this.#prev, this.#rank, this.#joined]
    for (let i = 0; i < count; i++) {
      next[i] = i + 1 < count ? i + 1 : -1
      prev[i] = i - 1
    }
    this.#waiting = 0
    for (let i = 0; i < count; i++) this.#consider(symbols, i)
    while (this.#waiting > 0) {
      const key = this.#pop()
      const rank = Math.floor(key / POSITIONS)
      const at = key - rank * POSITIONS
      if (ranks[at] !== rank) continue
      const right = next[at]!
      const after = next[right]!
      symbols[at] = joins[at]!
      ranks[right] = NEVER
      next[at] = after
      if (after >= 0) prev[after] = at
      const before = prev[at]!
      if (before >= 0) this.#consider(symbols, before)
      this.#consider(symbols, at)
    }
    let kept = 0
    for (let i = 0; i >= 0; i = next[i]!) symbols[kept++] = symbols[i]!
    return kept
  }

  /** Notes the pair that starts at a position, and queues it if it joins. */
  #consider(symbols: Int32Array, at: number): void {
    const right = this.#next[at]!
    const rank = right < 0 ? NEVER : this.#pairs.rank(symbols[at]!, symbols[right]!)
    this.#rank[at] = rank
    this.operations++
    if (rank < 0) return
    this.#joined[at] = this.#pairs.joined
    this.#push(rank * POSITIONS + at)
  }

  #push(key: number): void {
    const heap = this.#heap
    let hole = this.#waiting++
    while (hole > 0) {
      const parent = (hole - 1) >> 1
      if (heap[parent]! <= key) break
      heap[hole] = heap[parent]!
      hole = parent
      this.operations++
    }
    heap[hole] = key
  }

  #pop(): number {
    const heap = this.#heap
    const top = heap[0]!
    const key = heap[--this.#waiting]!
    const count = this.#waiting
    let hole = 0
    for (let child = 1; child < count; child = 2 * hole + 1) {
      if (child + 1 < count && heap[child + 1]! < heap[child]!) child++
      if (heap[child]! >= key) break
      heap[hole] = heap[child]!
      hole = child
      this.operations++
    }
    heap[hole] = key
    return top
  }

  /** Every join queues at most two pairs, so three per symbol always suffice. */
  #reserve(count: number): void {
    if (this.#next.length >= count) return
    const room = Math.max(1024, 2 ** Math.ceil(Math.log2(count)))
    this.#next = new Int32Array(room)
    this.#prev = new Int32Array(room)
    this.#rank = new Int32Array(room)
    this.#joined = new Int32Array(room)
    this.#heap = new Float64Array(3 * room)
  }
}
