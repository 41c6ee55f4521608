// What graphs have in common that are computed alike: everything but which memory their leaves are. A signature is a list of numbers, and
// looking for one builds no text: a loop that writes the same graph down in every turn is asked for thousands of times a second.

import { operandsFirst } from './graph.ts'
import { kindOf } from './kind.ts'
import { type TensorNode, operandsOf } from './node.ts'
import type { Storage } from './storage.ts'

/** A graph with its nodes numbered. */
export interface Numbered {
  readonly nodes: readonly TensorNode[]
  readonly numbers: ReadonlyMap<TensorNode, number>
  readonly roots: readonly TensorNode[]
}

export function numberNodes(roots: readonly TensorNode[]): Numbered {
  const numbers = new Map<TensorNode, number>()
  return { nodes: operandsFirst(roots, numbers), roots, numbers }
}

/** What is asked of a graph. */
export interface Asked {
  /** so many of the roots, the first ones, are wanted as they are at the end, whatever is written later */
  readonly reads: number
  /** of those roots: whose bytes come back to the caller, in this order */
  readonly back: readonly number[]
  /** whether a node's value is wanted afterwards, if it is computed at all */
  readonly keep: (node: TensorNode) => boolean
}

export interface Signature {
  readonly words: readonly number[]
  readonly hash: number
}

/** Equal for graphs of which the same is asked, and that are computed alike. */
export function signatureOf({ nodes, numbers, roots }: Numbered, { reads, back, keep }: Asked): Signature {
  const words = [reads, back.length]
  for (const root of back) words.push(root)
  for (const root of roots) words.push(numbers.get(root) ?? -1)
  const storages = new Map<Storage, number>()
  for (const node of nodes) {
    words.push(kindOf(node).number)
    if (node.op === 'leaf') {
      // Two leaves may be the same memory.
      const { storage } = node.attrs
      const known = storages.get(storage) ?? storages.size
      storages.set(storage, known)
      words.push(storage.has('packed') ? -1 - known : known)
      continue
    }
    const operands = operandsOf(node)
    words.push(keep(node) ? -1 - operands.length : operands.length)
    for (const operand of operands) words.push(numbers.get(operand) ?? -1)
  }
  let hash = 0
  for (const word of words) hash = (Math.imul(hash, 31) + word) | 0
  return { words, hash }
}

/** What was learnt of graphs, by their signature; what was longest unused is forgotten first. */
export class SignatureMap<T> {
  readonly #most: number
  readonly #forget: (value: T) => void
  readonly #byHash = new Map<number, Entry<T>[]>()
  #count = 0
  #uses = 0

  constructor(most: number, forget: (value: T) => void) {
    this.#most = most
    this.#forget = forget
  }

  get({ words, hash }: Signature): T | undefined {
    const bucket = this.#byHash.get(hash)
    const found = bucket?.find((entry) => isSame(entry.words, words))
    if (found === undefined) return undefined
    found.used = ++this.#uses
    return found.value
  }

  set({ words, hash }: Signature, value: T): void {
    const bucket = (this.#byHash.get(hash) ?? []).filter((entry) => !isSame(entry.words, words))
    this.#count -= (this.#byHash.get(hash)?.length ?? 0) - bucket.length
    bucket.push({ words, value, used: ++this.#uses })
    this.#byHash.set(hash, bucket)
    this.#count++
    if (this.#count > this.#most) this.#forgetOldest()
  }

  #forgetOldest(): void {
    let oldest: { readonly hash: number; readonly entry: Entry<T> } | undefined
    for (const [hash, bucket] of this.#byHash)
      for (const entry of bucket) if (oldest === undefined || entry.used < oldest.entry.used) oldest = { hash, entry }
    if (oldest === undefined) return
    const { hash, entry } = oldest
    const left = this.#byHash.get(hash)?.filter((each) => each !== entry) ?? []
    if (left.length === 0) this.#byHash.delete(hash)
    else this.#byHash.set(hash, left)
    this.#count--
    this.#forget(entry.value)
  }
}

interface Entry<T> {
  readonly words: readonly number[]
  readonly value: T
  used: number
}

function isSame(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
