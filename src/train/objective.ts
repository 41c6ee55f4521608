// What a run makes smaller. For sequences: how surprising their tokens are. For pairs of answers (DPO, arXiv 2305.18290): how unsure it is
// that the better one became likelier than the worse one, compared with the model as it was, which is the same without adapters.

import { IngotError } from '../base/error.ts'
import type { LanguageModel } from '../model/model.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Batch } from './batch.ts'
import { type LossOptions, lossOf, surprisesOf } from './loss.ts'
import type { BatchLoss } from './step.ts'
import type { Trainable } from './trainable.ts'

/** The loss of a batch of sequences. What is left out of adapters' inputs is decided by the batch. */
export function sequenceLoss({ noise }: Trainable): BatchLoss {
  return (model, batch, ...rest) => {
    noise.key = batch.noise // stays: gradients may compute layers again
    return lossOf(model, batch, ...rest)
  }
}

/** The loss of pairs: even rows of a batch are the better answers, odd ones the worse, to the same prompt. */
export function pairLoss({ noise, frozen }: Trainable, beta: number): BatchLoss {
  if (frozen === undefined)
    throw new IngotError('unsupported', 'pairs can be learnt by adapters only', {
      op: 'finetune',
      got: 'all weights',
      hint: 'the model as it was, which they are compared with, is the one without adapters',
    })
  return (model, batch, options) => {
    noise.key = batch.noise
    const gain = preference(model, batch, options).sub(preference(frozen, batch, options)) // [pairs]
    return gain.mul(-beta).softplus().mean()
  }
}

/** How much likelier the better answer of each pair is than the worse: [pairs], in nats. */
function preference(model: LanguageModel, { tokens, targets, positions }: Batch, { recompute = false }: LossOptions = {}): Tensor {
  const [rows = 1, block = 1] = tokens.shape
  const hidden = model.forward({ tokens: tokens.flatten(), positions: positions.flatten(), cache: { block, recompute } })
  const answers = surprisesOf(model, hidden, targets.flatten()).reshape(rows, block).sum(1).reshape(rows / 2, 2) // prettier-ignore
  return answers
    .slice(null, [1, 2])
    .sub(answers.slice(null, [0, 1]))
    .reshape(rows / 2)
}
