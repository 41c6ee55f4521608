// What rows of a step see of others: the key and value cache of one sequence, two tensors per layer, written in place at the positions of
// each step; or, where nothing is kept from step to step, as in training, each other.

import { IngotError } from '../base/error.ts'
import type { Tensor } from '../tensor/tensor.ts'

export interface LayerCache {
  /** [kvHeads, capacity, dim] */
  readonly keys: Tensor
  readonly values: Tensor
}

/**
 * No cache: rows see only rows of the same step. They come in blocks of this many, which know nothing of each other; within a block, rows
 * of one sequence follow each other, and their positions count from 0: a position of 0 is the border between two.
 */
export interface RowBlocks {
  readonly block: number
  /** what layers compute inside is not kept for gradients but computed again (layer.ts): less memory for more time */
  readonly recompute?: boolean
}

/** What one step of a model is given. `n` tokens, one row each. */
export interface StepInput {
  /** [n] ids */
  readonly tokens: Tensor
  /** [n] places in the sequence */
  readonly positions: Tensor
  readonly cache: readonly LayerCache[] | RowBlocks
}

/** The cache of a layer; a model that needs one says so in its `CacheShape`. */
export function layerCache(cache: StepInput['cache'], layer: number): LayerCache | RowBlocks {
  if ('block' in cache) return cache
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
