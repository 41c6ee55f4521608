// Who multiplies f32 matrices and why, as data: what was found out so far. For `ingot doctor`, and to be remembered.

import type { Reason } from '../../open/finding.ts'

/** What was found out about one class of sizes. */
export interface Choice {
  /** the size that was measured, `m x k x n`, and which of the matrices lie transposed: nn, nt, tn or tt */
  readonly size: string
  /** wrong: the library does not give what our kernel gives; slower: it does, but not clearly faster. Only `faster` is used */
  readonly verdict: 'wrong' | 'slower' | 'faster'
  /** how it came out, for people */
  readonly why: string
}

export interface ProductReport {
  /** the library, if there is one to use */
  readonly name?: string
  readonly path?: string
  /** why there is none */
  readonly reason?: Reason
  readonly choices: readonly Choice[]
}
