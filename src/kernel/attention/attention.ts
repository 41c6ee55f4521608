// Attention over a cache, with grouped heads and a causal mask: row r of q sees keys max(0, p - window + 1) .. p, p being its position.
// Scores are taken a block of keys at a time with a running maximum, so memory does not grow with the context.
// y = softmax(cap(scale * q . k)) . v. Caches are [kvHeads, pages * 64, headDim] in one of the types of cache-type.ts; where the positions
// of a row's sequence lie in them is said by a table (pages.ts).

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import { type Arrays, family } from '../family.ts'
import { attentionBlock } from './block.ts'
import { attentionDecode } from './decode.ts'
import { cacheBytes, cacheShape, cachedValues, randomCache } from './cache-type.ts'
import type { AttentionParams } from './params.ts'
import { attentionLanes } from './queries-as-lanes.ts'
import { attentionRow } from './row.ts'
import { attentionSerial } from './serial.ts'
import { attentionTiles } from './tiles.ts'
import { PAGE, pagesFor, pagingBuffers, placeIn, randomTable } from './pages.ts'

/** What rows of whole sequences say; the rest follows. */
export type SequenceParams = Omit<AttentionParams, 'slots' | 'pages' | 'apart'>

/** Parameters for rows of one sequence. */
export function ofOneSequence(params: SequenceParams): AttentionParams {
  return { ...params, slots: 1, pages: pagesFor(params.context) + 2, apart: params.rows === 1 }
}

/** Parameters for rows of several sequences, one after another, or each of its own. */
export function ofSequences(slots: number, params: SequenceParams): AttentionParams {
  return { ...params, slots, pages: slots * pagesFor(params.context) + 1, apart: slots === params.rows }
}

/** Every kernel that CPUs with two threads use, whatever the width of their vectors: these run on other devices too. */
const CPU_CASES = (['f16', 'f32'] as const).flatMap((type): SequenceParams[] => {
  const some = { type, rows: 1, heads: 4, kvHeads: 4, headDim: 16, context: 48, scale: 0.2, window: 0, softcap: 0 } as const
  const lanes = [4, 8, 16, 40].map((rows) => ({ ...some, rows }))
  const dims = [272, 8, 4] // for vectors of 16, 8 and 4
  const together = dims.flatMap((headDim) => [1, 2, 4, 8].map((group) => ({ ...some, heads: 4 * group, headDim, context: 20 })))
  const split = [16, 8, 4].map((headDim) => ({ ...some, heads: 1, kvHeads: 1, headDim, context: 600 }))
  return [...lanes, ...together, ...split]
})

const base = { type: 'f32', rows: 1, heads: 4, kvHeads: 2, headDim: 64, context: 128, scale: 0.125, window: 0, softcap: 0 } as const
/** Caches of bytes: many rows and one, with each number of heads to a key head, split and whole. */
const QUANTIZED_CASES: readonly SequenceParams[] = [
  { ...base, type: 'q8_0' },
  { ...base, type: 'q8_0', rows: 41, context: 70, window: 13 },
  { ...base, type: 'q8_0', rows: 9, heads: 8, kvHeads: 1, headDim: 96, context: 40, softcap: 8 },
  { ...base, type: 'q8_0', heads: 1, kvHeads: 1, headDim: 128, context: 600 },
  ...[1, 2, 4, 8].map((group): SequenceParams => ({ ...base, type: 'q8_0', heads: 4 * group, kvHeads: 4, headDim: 288, context: 20 })),
  ...[4, 8, 16, 40].map((rows): SequenceParams => ({ ...base, type: 'q8_0', rows, heads: 4, kvHeads: 4, headDim: 32, context: 48 })),
]

/** Sequences that share a step. */
const SHARED_CASES: readonly AttentionParams[] = [
  ofSequences(3, { ...base, type: 'f16', rows: 3, heads: 8, headDim: 32, context: 150 }),
  ofSequences(5, { ...base, rows: 5, heads: 32, kvHeads: 4, headDim: 16, context: 70, window: 40 }),
  ofSequences(3, { ...base, type: 'f16', rows: 37, heads: 4, kvHeads: 4, headDim: 16, context: 90 }),
  ofSequences(4, { ...base, rows: 10, headDim: 16, context: 66, window: 9, softcap: 6 }),
  ofSequences(2, { ...base, type: 'q8_0', rows: 18, headDim: 32, context: 130 }),
  ofSequences(9, { ...base, type: 'q8_0', rows: 9, heads: 4, kvHeads: 1, headDim: 32, context: 65 }),
]

export const attention = family<AttentionParams>({
  name: 'attention',
  about: 'attention over the pages of a key and value cache, with grouped heads, causal mask and sliding window',
  tolerance: () => 1e-10,
  cases: [
    ...[
      base,
      { ...base, type: 'f16' },
      { ...base, rows: 7, headDim: 80, context: 113, scale: 0.11 },
      { ...base, rows: 3, heads: 8, kvHeads: 1, headDim: 8, type: 'f16' },
      { ...base, rows: 5, window: 9, type: 'f16', heads: 2, headDim: 128 },
      { ...base, rows: 2, softcap: 20, scale: 2, heads: 2 },
      { ...base, rows: 1, heads: 2, kvHeads: 2, headDim: 256, context: 300 },
      { ...base, rows: 3, heads: 16, kvHeads: 2, headDim: 64, context: 200, type: 'f16' },
      { ...base, rows: 1, heads: 2, kvHeads: 1, headDim: 32, context: 700, type: 'f16' },
      { ...base, rows: 2, heads: 2, kvHeads: 1, headDim: 20, context: 530, window: 300 },
      { ...base, rows: 19, heads: 2, kvHeads: 1, headDim: 64, context: 70, type: 'f16' },
      { ...base, rows: 37, heads: 8, kvHeads: 8, headDim: 16, context: 60, type: 'f16' },
      { ...base, rows: 1, heads: 64, kvHeads: 8, headDim: 32, context: 90, type: 'f16' },
      { ...base, rows: 3, heads: 16, kvHeads: 16, headDim: 48, context: 40, softcap: 8, window: 25 },
      { ...base, rows: 41, heads: 2, kvHeads: 2, headDim: 16, context: 50, window: 11, softcap: 5, scale: 1 },
      ...QUANTIZED_CASES,
      ...CPU_CASES,
    ].map((params) => ofOneSequence(params as SequenceParams)),
    ...SHARED_CASES,
  ],
  buffers: (params) => [
    { name: 'q', role: 'in', type: 'f32', elements: params.rows * params.heads * params.headDim },
    { name: 'keys', role: 'in', ...cacheShape(params.type, elementsOf(params)), cold: true },
    { name: 'values', role: 'in', ...cacheShape(params.type, elementsOf(params)), cold: true },
    ...pagingBuffers(params.rows, params),
    { name: 'y', role: 'out', type: 'f32', elements: params.rows * params.heads * params.headDim },
  ],
  inputs: (params, random) => ({
    ...lastRows(params),
    table: randomTable(params, random),
    ...(params.type === 'q8_0' ? { keys: randomCache(elementsOf(params), random), values: randomCache(elementsOf(params), random) } : {}),
  }),
  proofs: [ofOneSequence({ ...base, type: 'f16', rows: 3, heads: 2, kvHeads: 1, headDim: 16, context: 70 })],
  forms: [attentionLanes, attentionSerial, attentionDecode, attentionTiles, attentionBlock, attentionRow],
  // A score and what it adds are a product and a sum for each element of a head; exp and the maximum are few beside them.
  cost: (params) => {
    const keys = lastRows(params).positions.reduce((sum, position) => sum + position + 1, 0)
    const { type, rows, heads, kvHeads, headDim, slots, context } = params
    const bytes = 4 * rows * (2 * heads * headDim + 1) + 2 * cacheBytes(type, slots * context * kvHeads * headDim)
    return { operations: 4 * headDim * heads * keys, arithmetic: 'f32', bytes }
  },
  define,
})

/** Elements of a cache. */
function elementsOf({ kvHeads, pages, headDim }: AttentionParams): number {
  return kvHeads * pages * PAGE * headDim
}

/** The last rows of sequences that fill their context, so that every block is walked; each takes as many as the others. */
function lastRows({ rows, slots, context }: AttentionParams): { positions: Uint32Array; slots: Uint32Array } {
  const owners = Uint32Array.from({ length: rows }, (_, row) => Math.floor((row * slots) / rows))
  const positions = owners.map((slot, row) => context - (owners.lastIndexOf(slot) - row) - 1)
  return { positions, slots: owners }
}

function define({ q, positions, slots, table, ...caches }: Arrays, params: AttentionParams): Arrays {
  const { type, rows, heads, kvHeads, headDim, pages, scale, window, softcap } = params
  const [keys, values] = [caches['keys']!, caches['values']!].map((cache) =>
    type === 'q8_0' ? cachedValues(cache, elementsOf(params)) : cache,
  )
  const y = new Float32Array(rows * heads * headDim)
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < heads; head++) {
      const at = (row * heads + head) * headDim
      const cache = Math.floor(head / (heads / kvHeads)) * pages * PAGE
      const last = positions![row]!
      const first = window > 0 ? Math.max(0, last - window + 1) : 0
      const places = Array.from({ length: last - first + 1 }, (_, j) => cache + placeIn(table!, params, slots![row]!, first + j))
      const scores = places.map((place) => {
        let dot = 0
        for (let d = 0; d < headDim; d++) dot += q![at + d]! * keys![place * headDim + d]!
        return softcap > 0 ? softcap * Math.tanh((dot * scale) / softcap) : dot * scale
      })
      const top = Math.max(...scores)
      const weights = scores.map((score) => Math.exp(score - top))
      const sum = weights.reduce((a, b) => a + b, 0)
      for (let d = 0; d < headDim; d++) {
        y[at + d] = weights.reduce((total, weight, j) => total + weight * values![places[j]! * headDim + d]!, 0) / sum
      }
    }
  }
  return { y }
}
