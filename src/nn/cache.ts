// What rows of a step see of others: the key and value caches of their sequences, two tensors per layer, written in place at the positions
// of each step; or, where nothing is kept from step to step, as in training, each other.

import { IngotError } from '../base/error.ts'
import type { Tensor } from '../tensor/tensor.ts'

/** The key and value cache of a layer: pages that all sequences share (kernel/attention/pages.ts). */
export interface LayerCache {
  /** [kvHeads, pages * 64, dim] */
  readonly keys: Tensor
  readonly values: Tensor
}

/** The caches of all layers, and where the rows of a step lie in them. */
export interface PagedCache {
  readonly layers: readonly LayerCache[]
  /** [n]: which row of the table a row's sequence has */
  readonly slots: Tensor
  /** [slots, pages of a sequence] */
  readonly table: Tensor
  /** so many of the last rows are each the only one of its sequence; those before them follow each other in theirs */
  readonly apart: number
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
  readonly cache: PagedCache | RowBlocks
}

/** What attention of one layer sees. */
export type LayerView = (LayerCache & Omit<PagedCache, 'layers'>) | RowBlocks

/** The cache of a layer; a model that needs one says so in its `StateShape`. */
export function layerCache(cache: StepInput['cache'], layer: number): LayerView {
  if ('block' in cache) return cache
  const { layers, ...rows } = cache
  const found = layers[layer]
  if (found === undefined)
    throw new IngotError('bad-argument', 'the cache has too few layers', { op: 'cache', got: layers.length, wanted: `more than ${layer}` })
  return { ...found, ...rows }
}

/** The keys, and the values, that a layer keeps of a position. */
export interface CacheShape {
  readonly heads: number
  readonly dim: number
}

/** What a model keeps of a sequence from step to step. */
export interface StateShape {
  /** caches, one for each layer that has any */
  readonly caches: readonly CacheShape[]
}

/** The state of a model all of whose layers have caches of one shape. */
export function cachesOf(layers: number, shape: CacheShape): StateShape {
  return { caches: Array.from({ length: layers }, () => shape) }
}
