// One step of training: forward, loss, backward, clipping and the optimiser, over one batch or several whose gradients are averaged. It is
// planned once for each form of the batches, and then one submission, which changes parameters and the optimiser's state in place.

import { IngotError } from '../base/error.ts'
import type { LanguageModel } from '../model/model.ts'
import { type Optimizer, clipByNorm, globalNorm } from '../nn/optim.ts'
import { type Compiled, compile } from '../tensor/compile.ts'
import { gradients } from '../tensor/grad.ts'
import { Tensor } from '../tensor/tensor.ts'
import { type Batch, IGNORED } from './batch.ts'
import type { Trainable } from './trainable.ts'

/** What a batch costs: a number, of which gradients are taken. */
export type BatchLoss = typeof lossOf

export interface StepOptions {
  readonly optimizer: Optimizer
  /** default: `lossOf` */
  readonly loss?: BatchLoss
  /** gradients that are longer together are made this long */
  readonly clipNorm?: number
}

/** What a step gives, as it was before its update. */
export interface StepResult {
  /** the mean of the losses */
  readonly loss: number
  /** of each batch: the mean over its targets that count */
  readonly losses: readonly number[]
  /** of all gradients together, before clipping */
  readonly norm: number
}

/** Runs steps. Dispose of it to give back the memory of its plans. */
export interface Trainer extends Disposable {
  /** Updates the parameters at a rate, by the mean of the gradients of the batches. */
  step(batches: readonly Batch[], rate: number): Promise<StepResult>
  /** The loss of a batch, without learning. */
  evaluate(batch: Batch): Promise<number>
}

/** The mean cross entropy of what a model predicts, over the targets that count. */
export function lossOf(model: LanguageModel, { tokens, targets, positions }: Batch): Tensor {
  const [, block = 1] = tokens.shape
  const hidden = model.forward({ tokens: tokens.flatten(), positions: positions.flatten(), cache: { block } }) // [n, width]
  return model.logits(hidden).crossEntropy(targets.flatten(), { ignoreIndex: IGNORED })
}

export function createTrainer(
  { device, model, parameters }: Trainable,
  { optimizer, clipNorm, loss: lossBy = lossOf }: StepOptions,
): Trainer {
  const names = Object.keys(parameters)
  const update = compile((batches: readonly Batch[], rate: Tensor) => {
    const losses = Tensor.stack(batches.map((batch) => lossBy(model, batch)))
    const found = gradients(losses.mean(), Object.values(parameters))
    const by = Object.fromEntries(names.flatMap((name, i) => (found[i] === undefined ? [] : [[name, found[i]] as const])))
    const norm = globalNorm(by)
    optimizer.update(clipNorm === undefined ? by : clipByNorm(by, clipNorm, norm), rate)
    return { losses, norm }
  })
  const look: Compiled<[Batch], Tensor> = compile((batch: Batch) => lossBy(model, batch))
  return {
    step: async (batches, rate) => {
      if (batches.length === 0) throw new IngotError('bad-argument', 'there is nothing to learn from', { op: 'step', got: 'no batches' })
      const result = await update(batches, Tensor.from(rate, { device }))
      const losses = Array.from(await result.losses.data())
      const loss = losses.reduce((sum, each) => sum + each, 0) / losses.length
      return { loss, losses, norm: await result.norm.item() }
    },
    evaluate: async (batch) => (await look(batch)).item(),
    [Symbol.dispose]: () => {
      update[Symbol.dispose]()
      look[Symbol.dispose]()
    },
  }
}
