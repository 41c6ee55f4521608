// What a model predicts, held against what should come next. Logits of all rows would often be the largest tensor of a step, so they are
// there a tile of rows at a time: gradients compute them again.

import type { LanguageModel } from '../model/model.ts'
import { checkpoint } from '../tensor/grad.ts'
import { Tensor } from '../tensor/tensor.ts'
import { type Batch, IGNORED } from './batch.ts'

/** Logits that are there at a time take so many bytes at most, */
const TILE_BYTES = 2 ** 25
/** unless these rows take more. */
const LEAST_ROWS = 32

export interface LossOptions {
  /** layers are computed again for gradients: less memory for more time (default false) */
  readonly recompute?: boolean
}

/** The mean cross entropy of what a model predicts, over the targets that count. */
export function lossOf(model: LanguageModel, { tokens, targets, positions }: Batch, { recompute = false }: LossOptions = {}): Tensor {
  const [, block = 1] = tokens.shape
  const hidden = model.forward({ tokens: tokens.flatten(), positions: positions.flatten(), cache: { block, recompute } }) // [n, width]
  return crossEntropyOf(model, hidden, targets.flatten())
}

/** The mean cross entropy of hidden states [n, width] and targets [n], without more than a tile of [n, vocabulary] in memory. */
export function crossEntropyOf(model: LanguageModel, hidden: Tensor, targets: Tensor): Tensor {
  const [n = 1] = hidden.shape
  if (n <= tileRows(model.vocabulary)) return model.logits(hidden).crossEntropy(targets, { ignoreIndex: IGNORED })
  return Tensor.stack(overTiles(model, hidden, targets, 'sum'))
    .sum()
    .div(targets.ne(IGNORED).to('f32').sum())
}

/** The cross entropy of each row: [n], 0 where the target does not count. In tiles, too. */
export function surprisesOf(model: LanguageModel, hidden: Tensor, targets: Tensor): Tensor {
  return Tensor.concat(overTiles(model, hidden, targets, 'none'))
}

/** The cross entropy of one tile of rows after the other. */
function overTiles(model: LanguageModel, hidden: Tensor, targets: Tensor, reduction: 'sum' | 'none'): Tensor[] {
  const [n = 1] = hidden.shape
  const rows = tileRows(model.vocabulary)
  const ofTile = checkpoint((part: Tensor, wanted: Tensor) => model.logits(part).crossEntropy(wanted, { ignoreIndex: IGNORED, reduction }))
  return Array.from({ length: Math.ceil(n / rows) }, (_, tile) => {
    const own: [number, number] = [tile * rows, Math.min(n, (tile + 1) * rows)]
    return ofTile(hidden.slice(own), targets.slice(own))
  })
}

/** Rows of a tile: whole tiles of products. */
function tileRows(vocabulary: number): number {
  return Math.max(LEAST_ROWS, Math.floor(TILE_BYTES / (4 * vocabulary) / LEAST_ROWS) * LEAST_ROWS)
}
