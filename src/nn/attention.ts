// Attention of one layer over its cache: the new keys and values are written first, then every row sees all positions up to its own.

import type { Tensor } from '../tensor/tensor.ts'
import type { LayerCache } from './cache.ts'

export interface AttentionOptions {
  readonly heads: number
  readonly scale: number
  /** a row sees only this many of the latest positions; 0: all */
  readonly window?: number
  /** scores become cap * tanh(score / cap); 0: none */
  readonly softcap?: number
}

/** q [n, heads * dim], k and v [n, kvHeads * dim] -> [n, heads * dim] */
export function attend(q: Tensor, k: Tensor, v: Tensor, cache: LayerCache, positions: Tensor, options: AttentionOptions): Tensor {
  const keys = cache.keys.cacheWrite(k, positions)
  const values = cache.values.cacheWrite(v, positions)
  return q.cachedAttention(keys, values, positions, {
    heads: options.heads,
    scale: options.scale,
    window: options.window ?? 0,
    softcap: options.softcap ?? 0,
  })
}
