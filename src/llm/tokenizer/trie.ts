// A set of texts with an id each, asked for the longest one that begins at a place. Knows nothing of tokens.

import { NEVER, PairTable } from './merge.ts'

export class Trie {
  /** (node, UTF-16 unit) -> next node; ranks are unused */
  readonly #edges = new PairTable()
  readonly #ids: number[] = [-1]
  readonly #first = new Uint8Array(0x10000)
  #matched = 0

  add(text: string, id: number): void {
    if (text.length === 0) return
    this.#first[text.charCodeAt(0)] = 1
    let node = 0
    for (let i = 0; i < text.length; i++) {
      const slot = this.#edges.find(node, text.charCodeAt(i))
      if (slot >= 0) {
        node = this.#edges.joinedAt(slot)
        continue
      }
      this.#edges.add(node, text.charCodeAt(i), NEVER, this.#ids.length)
      node = this.#ids.push(-1) - 1
    }
    this.#ids[node] = id
  }

  /** How long the text of the last match is, in UTF-16 units. */
  get matched(): number {
    return this.#matched
  }

  /** The id of the longest text that begins at `from`, or -1; its length is left in `matched`. */
  longest(text: string, from: number): number {
    let best = -1
    if (this.#first[text.charCodeAt(from)] !== 1) return best
    let node = 0
    for (let i = from; i < text.length; i++) {
      const slot = this.#edges.find(node, text.charCodeAt(i))
      if (slot < 0) break
      node = this.#edges.joinedAt(slot)
      const id = this.#ids[node] ?? -1
      if (id < 0) continue
      best = id
      this.#matched = i + 1 - from
    }
    return best
  }
}
