// The key and value cache of one sequence: two tensors per layer, written in place at the positions of each step.

import { IngotError } from '../base/error.ts'
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

/** The cache of a layer; a model that needs one says so in its `CacheShape`. */
export function layerCache(cache: readonly LayerCache[], layer: number): LayerCache {
  const found = cache[layer]
  if (found === undefined)
    throw new IngotError('bad-argument', 'the cache has too few layers', { op: 'cache', got: cache.length, wanted: `more than ${layer}` })
  return found
}

/** Which caches a model needs: layers x heads x dim. */
export interface CacheShape {
  readonly layers: number
  readonly heads: number
  readonly dim: number
}
