// The key and value cache of one sequence: two tensors per layer, written in place at the positions of each step.

import type { Tensor } from '../tensor/tensor.ts'

export interface LayerCache {
  /** [kvHeads, capacity, dim] */
  readonly keys: Tensor
  readonly values: Tensor
}

/** What one step of a model is given. `n` tokens, one row each. */
export interface StepInput {
  /** [n] ids */
  readonly tokens: Tensor
  /** [n] places in the sequence */
  readonly positions: Tensor
  readonly cache: readonly LayerCache[]
}

/** Which caches a model needs: layers x heads x dim. */
export interface CacheShape {
  readonly layers: number
  readonly heads: number
  readonly dim: number
}
