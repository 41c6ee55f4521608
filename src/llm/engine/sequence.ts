// A sequence of tokens whose keys and values lie in the caches: which tokens, in which pages. Two sequences that begin alike may have pages
// in common; one that writes into such a page gets its own copy first. Knows accounting only; who computes tells the device.

import { PAGE, pagesFor } from '../../kernel/attention/pages.ts'
import type { PagePool } from './page-pool.ts'

/** A page whose contents another must get before it is written to. */
export interface PageCopy {
  readonly from: number
  readonly to: number
}

export class Sequence {
  readonly #pool: PagePool
  /** whose keys and values are there, by position */
  readonly #tokens: number[] = []
  readonly #pages: number[] = []

  constructor(pool: PagePool) {
    this.#pool = pool
  }

  get tokens(): readonly number[] {
    return this.#tokens
  }
  /** the pages it has, in order; more than its tokens need where some are reserved */
  get pages(): readonly number[] {
    return this.#pages
  }
  get length(): number {
    return this.#tokens.length
  }

  /** These tokens are computed now, after those that are. There must be room. */
  push(...tokens: readonly number[]): void {
    for (const token of tokens) this.#tokens.push(token)
  }

  /** How many tokens this has in common with others at the beginning. */
  sharedWith(tokens: readonly number[]): number {
    const most = Math.min(tokens.length, this.#tokens.length)
    let shared = 0
    while (shared < most && this.#tokens[shared] === tokens[shared]) shared++
    return shared
  }

  /** Keeps the first `length` tokens and the pages that they lie in. */
  rewind(length: number): void {
    this.#tokens.length = Math.min(length, this.#tokens.length)
    for (const page of this.#pages.splice(pagesFor(this.#tokens.length))) this.#pool.release(page)
  }

  /** Gives back all pages; nothing of it is left. */
  release(): void {
    this.rewind(0)
  }

  /** Another one with the first `length` tokens of this, in the same pages. */
  fork(length = this.#tokens.length): Sequence {
    const twin = new Sequence(this.#pool)
    twin.push(...this.#tokens.slice(0, length))
    for (const page of this.#pages.slice(0, pagesFor(twin.length))) {
      this.#pool.share(page)
      twin.#pages.push(page)
    }
    return twin
  }

  /**
   * Makes room for `length` tokens: takes the pages that are missing, and a page of its own in place of one that would be written to and is
   * shared, which has to be copied. Undefined where the pool has too few; nothing has changed then.
   */
  reserve(length: number): PageCopy[] | undefined {
    const missing = Math.max(0, pagesFor(length) - this.#pages.length)
    const last = Math.floor(this.#tokens.length / PAGE) // the page that the next token goes into
    const begun = this.#pages[last]
    const copies = begun !== undefined && length > this.#tokens.length && this.#pool.ownersOf(begun) > 1
    if (this.#pool.free < missing + (copies ? 1 : 0)) return undefined
    const done: PageCopy[] = []
    if (copies) {
      const own = this.#take()
      done.push({ from: begun, to: own })
      this.#pool.release(begun)
      this.#pages[last] = own
    }
    for (let i = 0; i < missing; i++) this.#pages.push(this.#take())
    return done
  }

  #take(): number {
    const page = this.#pool.take()
    if (page === undefined) throw new RangeError('a page that was counted is not there')
    return page
  }
}
