// Attention over a cache, with grouped heads and a causal mask: row r of q sees keys max(0, p - window + 1) .. p, p being its position.
// Scores are taken a block of keys at a time with a running maximum, so memory does not grow with the context.
// y = softmax(cap(scale * q . k)) . v. Caches are [kvHeads, capacity, headDim] in f32, or in f16 two to a word.

import type { Caps } from '../base/caps.ts'
import { attentionBlock, canBlock } from './attention-block.ts'
import { DECODE_ROWS, attentionDecode, canDecode } from './attention-decode.ts'
import { attentionLanes, queryTile } from './attention-lanes.ts'
import type { AttentionParams } from './attention-params.ts'
import { attentionRow } from './attention-row.ts'
import { attentionSerial } from './attention-serial.ts'
import { attentionTiles, canTile } from './attention-tiles.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

const base = { type: 'f32', rows: 1, heads: 4, kvHeads: 2, headDim: 64, capacity: 128, scale: 0.125, window: 0, softcap: 0 } as const
export const attention: KernelRecord<AttentionParams> = {
  name: 'attention',
  about: 'attention over a key and value cache, with grouped heads, causal mask and sliding window',
  tolerance: 1e-6,
  cases: [
    base,
    { ...base, type: 'f16' },
    { ...base, rows: 7, headDim: 80, capacity: 113, scale: 0.11 },
    { ...base, rows: 3, heads: 8, kvHeads: 1, headDim: 8, type: 'f16' },
    { ...base, rows: 5, window: 9, type: 'f16', heads: 2, headDim: 128 },
    { ...base, rows: 2, softcap: 20, scale: 2, heads: 2 },
    { ...base, rows: 1, heads: 2, kvHeads: 2, headDim: 256, capacity: 300 },
    { ...base, rows: 3, heads: 16, kvHeads: 2, headDim: 64, capacity: 200, type: 'f16' },
    { ...base, rows: 1, heads: 2, kvHeads: 1, headDim: 32, capacity: 700, type: 'f16' },
    { ...base, rows: 2, heads: 2, kvHeads: 1, headDim: 20, capacity: 530, window: 300 },
    { ...base, rows: 19, heads: 2, kvHeads: 1, headDim: 64, capacity: 70, type: 'f16' },
    { ...base, rows: 41, heads: 2, kvHeads: 2, headDim: 16, capacity: 50, window: 11, softcap: 5, scale: 1 },
  ],
  buffers: ({ type, rows, heads, kvHeads, headDim, capacity }) => [
    { name: 'q', role: 'in', type: 'f32', elements: rows * heads * headDim },
    { name: 'keys', role: 'in', type, elements: kvHeads * capacity * headDim },
    { name: 'values', role: 'in', type, elements: kvHeads * capacity * headDim },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'f32', elements: rows * heads * headDim },
  ],
  /** the last rows of the cache, so that every block is walked */
  inputs: ({ rows, capacity }) => ({ positions: Uint32Array.from({ length: rows }, (_, row) => capacity - rows + row) }),
  work,
  define,
}

function work(caps: Caps, params: AttentionParams): Work {
  if (caps.lanes === 1) {
    const tile = queryTile(caps, params)
    return tile === undefined ? attentionSerial(caps, params) : attentionLanes(caps, params, tile)
  }
  if (params.rows <= DECODE_ROWS) return canDecode(caps, params) ? attentionDecode(caps, params) : attentionRow(caps, params)
  if (canTile(caps, params)) return attentionTiles(params)
  return canBlock(caps, params) ? attentionBlock(caps, params) : attentionRow(caps, params)
}

function define(
  { q, keys, values, positions }: Arrays,
  { rows, heads, kvHeads, headDim, capacity, scale, window, softcap }: AttentionParams,
): Arrays {
  const y = new Float32Array(rows * heads * headDim)
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < heads; head++) {
      const at = (row * heads + head) * headDim
      const cache = Math.floor(head / (heads / kvHeads)) * capacity
      const last = positions![row]!
      const first = window > 0 ? Math.max(0, last - window + 1) : 0
      const scores = Array.from({ length: last - first + 1 }, (_, j) => {
        let dot = 0
        for (let d = 0; d < headDim; d++) dot += q![at + d]! * keys![(cache + first + j) * headDim + d]!
        return softcap > 0 ? softcap * Math.tanh((dot * scale) / softcap) : dot * scale
      })
      const top = Math.max(...scores)
      const weights = scores.map((score) => Math.exp(score - top))
      const sum = weights.reduce((a, b) => a + b, 0)
      for (let d = 0; d < headDim; d++) {
        y[at + d] = weights.reduce((total, weight, j) => total + weight * values![(cache + first + j) * headDim + d]!, 0) / sum
      }
    }
  }
  return { y }
}
