// The sizes that decoder-only transformers share, read from the settings and held against each other. Everything a model allocates
// or computes with follows from these, so that they are bounded here: far above real models, and low enough that no table hurts.

import type { ModelSource } from './source.ts'

export interface Sizes {
  /** of the residual stream */
  readonly width: number
  readonly layers: number
  readonly heads: number
  /** heads of keys and values, each shared by heads / kvHeads heads */
  readonly kvHeads: number
  /** of a head; even, since elements are turned and stored in pairs */
  readonly dim: number
  /** of the feed-forward half of a layer */
  readonly hidden: number
  readonly vocabulary: number
  /** of the norms */
  readonly eps: number
}

/**
 * Every row of a prompt has vectors of `width`, of `heads` together and of `hidden`: a chunk of 128 rows at most 128 MB each.
 * Samplers number tokens in 21 bits (llm/candidate.ts).
 */
const MOST = {
  width: 2 ** 18,
  layers: 2 ** 12,
  heads: 2 ** 14,
  dim: 2 ** 14,
  allHeads: 2 ** 18,
  hidden: 2 ** 18,
  vocabulary: 2 ** 21,
} as const

export function readSizes(source: ModelSource): Sizes {
  const width = source.count('embedding_length', { most: MOST.width })
  const layers = source.count('block_count', { most: MOST.layers })
  const heads = source.count('attention.head_count', { most: MOST.heads })
  const kvHeads = source.count('attention.head_count_kv', { most: heads, otherwise: heads })
  if (heads % kvHeads !== 0) throw source.bad('attention.head_count_kv must divide attention.head_count', kvHeads, `a divisor of ${heads}`)
  const dim = source.count('attention.key_length', { most: MOST.dim, otherwise: width / heads })
  if (dim % 2 !== 0) throw source.bad('attention.key_length must be even', dim, 'pairs of elements')
  if (heads * dim > MOST.allHeads)
    throw source.bad('attention.head_count heads of attention.key_length are too many', heads * dim, `at most ${MOST.allHeads} elements`)
  const values = source.count('attention.value_length', { most: MOST.dim, otherwise: dim })
  if (values !== dim) throw source.bad('attention.value_length must be attention.key_length', values, dim)
  const hidden = source.count('feed_forward_length', { most: MOST.hidden })
  const vocabulary = source.height('token_embd.weight')
  if (vocabulary > MOST.vocabulary) throw source.bad('the vocabulary is too large', vocabulary, `at most ${MOST.vocabulary}`)
  const eps = source.number('attention.layer_norm_rms_epsilon', { least: 0, most: 1 })
  return { width, layers, heads, kvHeads, dim, hidden, vocabulary, eps }
}

/** How many of the latest positions a row sees; 0: all. */
export function readWindow(source: ModelSource): number {
  return source.count('attention.sliding_window', { least: 0, most: 2 ** 32 - 1, otherwise: 0 })
}

/** The factor on scores: the file's, or one over the root of a head's size. */
export function readScale(source: ModelSource, dim: number): number {
  return source.number('attention.scale', { otherwise: 0 }) || 1 / Math.sqrt(dim)
}
