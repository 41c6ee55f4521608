// What a language model is to the rest of Ingot: sizes, and two functions from tensors to tensors. One file per architecture
// implements it, whole and readable alone; index.ts lists them.

import type { StateShape, StepInput } from '../nn/cache.ts'
import type { ModelSource } from '../nn/source.ts'
import type { Tensor } from '../tensor/tensor.ts'

export interface LanguageModel {
  readonly vocabulary: number
  readonly width: number
  /** what it keeps of a sequence */
  readonly state: StateShape
  /** Hidden states after the last norm, one row per token: [n, width]. Writes the caches. */
  forward(step: StepInput): Tensor
  /** hidden [n, width] -> [n, vocabulary] */
  logits(hidden: Tensor): Tensor
}

export interface Architecture {
  /** values of `general.architecture` that it serves */
  readonly names: readonly string[]
  readonly about: string
  build(source: ModelSource): LanguageModel
}
