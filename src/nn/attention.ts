// Attention of one layer. Over its cache: the new keys and values are written first, then every row sees its sequence up to its position.
// Without one: rows see each other, in products that have gradients.

import { IngotError } from '../base/error.ts'
import { checkpoint } from '../tensor/grad.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { LayerView, RowBlocks } from './cache.ts'

export interface AttentionOptions {
  readonly heads: number
  readonly scale: number
  /** a row sees only this many of the latest positions; 0: all */
  readonly window?: number
  /** scores become cap * tanh(score / cap); 0: none */
  readonly softcap?: number
}

/** q [n, heads * dim], k and v [n, kvHeads * dim] -> [n, heads * dim] */
export function attend(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  cache: LayerView,
  positions: Tensor,
  { heads, scale, window = 0, softcap = 0 }: AttentionOptions,
): Tensor {
  if ('block' in cache) return attendRows(q, k, v, cache, positions, { heads, scale, window, softcap })
  const { slots, table, apart } = cache
  const places = { positions, slots, table }
  const [keys, values] = [cache.keys.cacheWrite(k, places), cache.values.cacheWrite(v, places)]
  const attrs = { heads, scale, window, softcap }
  const [n = 0] = q.shape
  if (apart === 0 || apart === n) return q.cachedAttention(keys, values, places, { ...attrs, apart: apart > 0 })
  // Rows that follow each other share keys, and rows of different sequences do not: other kernels serve them.
  const part = (from: number, count: number): Tensor => {
    const of = (x: Tensor): Tensor => x.narrow(0, from, count)
    return of(q).cachedAttention(keys, values, { positions: of(positions), slots: of(slots), table }, { ...attrs, apart: from > 0 })
  }
  return Tensor.concat([part(0, n - apart), part(n - apart, apart)], 0)
}

/** Attention of rows to the rows of their sequence up to themselves. */
function attendRows(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  { block }: RowBlocks,
  positions: Tensor,
  { heads, scale, window, softcap }: Required<AttentionOptions>,
): Tensor {
  const [n = 1, all = 1] = q.shape
  if (!Number.isInteger(n / block))
    throw new IngotError('bad-argument', 'rows do not fall into blocks', { op: 'attend', got: n, wanted: block })
  const [blocks, dim] = [n / block, all / heads]
  const kvHeads = (k.shape[1] ?? dim) / dim
  const group = heads / kvHeads
  const queries = q.reshape(blocks, block, kvHeads, group, dim).permute(0, 2, 3, 1, 4) // [blocks, kvHeads, group, block, dim]
  const [keys, values] = [k, v].map((x) => x.reshape(blocks, block, kvHeads, 1, dim).permute(0, 2, 3, 1, 4)) as [Tensor, Tensor]
  /** Rows [from, to) of each block. They see none after them. */
  const rows = (from: number, to: number) => (queries: Tensor, keys: Tensor, values: Tensor) => {
    const scores = queries.matmul(keys.transpose()).mul(scale) // [blocks, kvHeads, group, to - from, to]
    const capped = softcap > 0 ? scores.div(softcap).tanh().mul(softcap) : scores
    return visible(positions.reshape(blocks, block), from, to, window).where(capped, -1e30).softmax().matmul(values)
  }
  if (block <= TILE) return rows(0, block)(queries, keys, values).permute(0, 3, 1, 2, 4).reshape(n, all)
  // Scores of all rows would be the largest tensor of a layer: they are there some rows at a time, and computed again for gradients.
  const parts = Array.from({ length: Math.ceil(block / TILE) }, (_, tile) => {
    const [from, to] = [tile * TILE, Math.min(block, (tile + 1) * TILE)]
    const seen = (x: Tensor): Tensor => x.narrow(3, 0, to)
    return checkpoint(rows(from, to))(queries.narrow(3, from, to - from), seen(keys), seen(values))
  })
  return Tensor.concat(parts, 3).permute(0, 3, 1, 2, 4).reshape(n, all)
}

/** Rows of a block whose scores are there at a time. */
const TILE = 256

/** Which columns rows [from, to) of each block see: [blocks, 1, 1, to - from, to]. A sequence began as many rows ago as a position says. */
function visible(positions: Tensor, from: number, to: number, window: number): Tensor {
  const [blocks = 1] = positions.shape
  const [index, column] = [0, 1].map((axis) => Tensor.iota([to - from, to], axis).reshape(1, 1, 1, to - from, to)) as [Tensor, Tensor]
  const row = from === 0 ? index : index.add(from)
  const begun = column.add(positions.narrow(1, from, to - from).reshape(blocks, 1, 1, to - from, 1)).ge(row)
  const past = column.le(row).and(begun)
  return window > 0 ? past.and(column.add(window).gt(row)) : past
}
