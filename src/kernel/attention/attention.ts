// Attention over a cache, with grouped heads and a causal mask: row r of q sees keys max(0, p - window + 1) .. p, p being its position.
// Scores are taken a block of keys at a time with a running maximum, so memory does not grow with the context.
// y = softmax(cap(scale * q . k)) . v. Caches are [kvHeads, capacity, headDim] in one of the types of cache-type.ts.

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import { type Arrays, family } from '../family.ts'
import { attentionBlock } from './block.ts'
import { attentionDecode } from './decode.ts'
import { cacheShape, cachedValues, randomCache } from './cache-type.ts'
import type { AttentionParams } from './params.ts'
import { attentionLanes } from './queries-as-lanes.ts'
import { attentionRow } from './row.ts'
import { attentionSerial } from './serial.ts'
import { attentionTiles } from './tiles.ts'

/** Every kernel that CPUs with two threads use, whatever the width of their vectors: these run on other devices too. */
const CPU_CASES = (['f16', 'f32'] as const).flatMap((type): AttentionParams[] => {
  const some = { type, rows: 1, heads: 4, kvHeads: 4, headDim: 16, capacity: 48, scale: 0.2, window: 0, softcap: 0 } as const
  const lanes = [4, 8, 16, 40].map((rows) => ({ ...some, rows }))
  const dims = [272, 8, 4] // for vectors of 16, 8 and 4
  const together = dims.flatMap((headDim) => [1, 2, 4, 8].map((group) => ({ ...some, heads: 4 * group, headDim, capacity: 20 })))
  const split = [16, 8, 4].map((headDim) => ({ ...some, heads: 1, kvHeads: 1, headDim, capacity: 600 }))
  return [...lanes, ...together, ...split]
})

const base = { type: 'f32', rows: 1, heads: 4, kvHeads: 2, headDim: 64, capacity: 128, scale: 0.125, window: 0, softcap: 0 } as const
/** Caches of bytes: many rows and one, with each number of heads to a key head, split and whole. */
const QUANTIZED_CASES: readonly AttentionParams[] = [
  { ...base, type: 'q8_0' },
  { ...base, type: 'q8_0', rows: 41, capacity: 70, window: 13 },
  { ...base, type: 'q8_0', rows: 9, heads: 8, kvHeads: 1, headDim: 96, capacity: 40, softcap: 8 },
  { ...base, type: 'q8_0', heads: 1, kvHeads: 1, headDim: 128, capacity: 600 },
  ...[1, 2, 4, 8].map((group): AttentionParams => ({ ...base, type: 'q8_0', heads: 4 * group, kvHeads: 4, headDim: 288, capacity: 20 })),
  ...[4, 8, 16, 40].map((rows): AttentionParams => ({ ...base, type: 'q8_0', rows, heads: 4, kvHeads: 4, headDim: 32, capacity: 48 })),
]

export const attention = family<AttentionParams>({
  name: 'attention',
  about: 'attention over a key and value cache, with grouped heads, causal mask and sliding window',
  tolerance: () => 1e-10,
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
    { ...base, rows: 37, heads: 8, kvHeads: 8, headDim: 16, capacity: 60, type: 'f16' },
    { ...base, rows: 1, heads: 64, kvHeads: 8, headDim: 32, capacity: 90, type: 'f16' },
    { ...base, rows: 3, heads: 16, kvHeads: 16, headDim: 48, capacity: 40, softcap: 8, window: 25 },
    { ...base, rows: 41, heads: 2, kvHeads: 2, headDim: 16, capacity: 50, window: 11, softcap: 5, scale: 1 },
    ...QUANTIZED_CASES,
    ...CPU_CASES,
  ],
  buffers: ({ type, rows, heads, kvHeads, headDim, capacity }) => [
    { name: 'q', role: 'in', type: 'f32', elements: rows * heads * headDim },
    { name: 'keys', role: 'in', ...cacheShape(type, kvHeads * capacity * headDim), cold: true },
    { name: 'values', role: 'in', ...cacheShape(type, kvHeads * capacity * headDim), cold: true },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'f32', elements: rows * heads * headDim },
  ],
  inputs: ({ type, rows, kvHeads, headDim, capacity }, random) => ({
    /** the last rows of the cache, so that every block is walked */
    positions: Uint32Array.from({ length: rows }, (_, row) => capacity - rows + row),
    ...(type === 'q8_0'
      ? { keys: randomCache(kvHeads * capacity * headDim, random), values: randomCache(kvHeads * capacity * headDim, random) }
      : {}),
  }),
  proofs: [{ ...base, type: 'f16', rows: 3, heads: 2, kvHeads: 1, headDim: 16, capacity: 70 }],
  forms: [attentionLanes, attentionSerial, attentionDecode, attentionTiles, attentionBlock, attentionRow],
  // A score and what it adds are a product and a sum for each element of a head; exp and the maximum are few beside them.
  cost: ({ rows, heads, headDim, capacity }) => {
    const scores = heads * Array.from({ length: rows }, (_, row) => capacity - rows + row + 1).reduce((a, b) => a + b, 0)
    return { operations: 4 * headDim * scores, arithmetic: 'f32' }
  },
  define,
})

function define(
  { q, positions, ...caches }: Arrays,
  { type, rows, heads, kvHeads, headDim, capacity, scale, window, softcap }: AttentionParams,
): Arrays {
  const [keys, values] = [caches['keys']!, caches['values']!].map((cache) =>
    type === 'q8_0' ? cachedValues(cache, kvHeads * capacity * headDim) : cache,
  )
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
