// Who has which pages of the caches (kernel/attention/pages.ts). A page may belong to several sequences that have it in common; it is free
// again when the last of them gives it back. Pure accounting: knows no device and no tokens.

import { IngotError } from '../../base/error.ts'

export class PagePool {
  /** pages in all, the first one included, which nobody has: rows that only fill up a step are written there */
  readonly size: number
  /** how many sequences have a page */
  readonly #owners: Uint32Array
  /** the lowest last, so that a sequence that grows alone finds its pages one after the other */
  readonly #free: number[]

  constructor(size: number) {
    this.size = size
    this.#owners = new Uint32Array(size)
    this.#free = Array.from({ length: Math.max(0, size - 1) }, (_, i) => size - 1 - i)
  }

  /** pages that nobody has */
  get free(): number {
    return this.#free.length
  }

  /** A page that nobody has; undefined if there is none. */
  take(): number | undefined {
    const page = this.#free.pop()
    if (page !== undefined) this.#owners[page] = 1
    return page
  }

  /** One more has this page. */
  share(page: number): void {
    this.#owners[page] = this.ownersOf(page) + 1
  }

  /** One less has it. */
  release(page: number): void {
    const left = this.ownersOf(page) - 1
    this.#owners[page] = left
    if (left === 0) this.#free.push(page)
  }

  /** How many have a page that somebody has. */
  ownersOf(page: number): number {
    const owners = this.#owners[page] ?? 0
    if (owners > 0) return owners
    throw new IngotError('bad-argument', 'nobody has this page', { op: 'cache', got: page, wanted: `1 to ${this.size - 1}, taken` })
  }
}
