// Sequences that have ended and may be gone on with: what a new prompt has in common with one of them is not computed again. The one
// longest unused goes first when others need its pages.

import { PAGE } from '../../kernel/attention/pages.ts'
import type { Sequence } from './sequence.ts'

/** What the keys and values of a sequence depend on beside its tokens: the weights, with their adapters. */
export type Identity = object

interface Kept {
  readonly sequence: Sequence
  readonly identity: Identity
}

/** Sequences that are kept at the most: each is held against every prompt. */
const MOST = 64

export class PrefixStore {
  /** the one longest unused first */
  readonly #kept: Kept[] = []

  /** pages that kept sequences have, those in common counted for each */
  get pages(): number {
    return this.#kept.reduce((sum, { sequence }) => sum + sequence.pages.length, 0)
  }

  /** Keeps a sequence; it belongs to the store from now on. */
  keep(sequence: Sequence, identity: Identity): void {
    sequence.rewind(sequence.length) // what was reserved for more
    // One that this one goes on from is of no use any more.
    for (const [i, other] of [...this.#kept.entries()].toReversed()) {
      if (other.identity === identity && sequence.sharedWith(other.sequence.tokens) === other.sequence.length) this.#drop(i)
    }
    if (sequence.length > 0) this.#kept.push({ sequence, identity })
    while (this.#kept.length > MOST) this.#drop(0)
  }

  /**
   * A sequence for these tokens with as many of the first of them as some kept or `running` one has; undefined if none has any. The last
   * token at least is left to be computed.
   */
  find(tokens: readonly number[], identity: Identity, running: readonly Sequence[]): Sequence | undefined {
    const wanted = tokens.slice(0, -1)
    let best = { index: -1, shared: 0 }
    for (const [index, kept] of this.#kept.entries()) {
      const shared = kept.identity === identity ? kept.sequence.sharedWith(wanted) : 0
      if (shared > best.shared) best = { index, shared }
    }
    // One that runs writes into its last page: only those before it can be shared.
    const whole = (sequence: Sequence): number => PAGE * Math.floor(sequence.sharedWith(wanted) / PAGE)
    const beside = running.toSorted((a, b) => whole(b) - whole(a))[0]
    if (beside !== undefined && whole(beside) > best.shared) return beside.fork(whole(beside))
    const [kept] = best.index < 0 ? [] : this.#kept.splice(best.index, 1)
    if (kept === undefined) return undefined
    const { sequence } = kept
    // What it has beyond is worth less than a page, and going on in place costs no copy.
    if (sequence.length - best.shared < PAGE) {
      sequence.rewind(best.shared)
      return sequence
    }
    this.#kept.push(kept) // the latest now
    return sequence.fork(best.shared)
  }

  /** Lets go of the one longest unused; false if there is none. */
  evict(): boolean {
    if (this.#kept.length === 0) return false
    this.#drop(0)
    return true
  }

  /** Lets go of all. */
  clear(): void {
    while (this.evict());
  }

  #drop(index: number): void {
    this.#kept.splice(index, 1)[0]?.sequence.release()
  }
}
