// The layers of a model, one after the other. Where a step asks for it, each is a checkpoint: a gradient computes again what lies inside,
// and keeps nothing of it but what goes in.

import { checkpoint } from '../tensor/grad.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { StepInput } from './cache.ts'

/** x [n, width] through all layers. The last one is not computed again: its gradient comes first, while everything is still there. */
export function throughLayers<L>(
  x: Tensor,
  layers: readonly L[],
  cache: StepInput['cache'],
  apply: (x: Tensor, layer: L, index: number) => Tensor,
): Tensor {
  const recomputes = 'block' in cache && cache.recompute === true
  return layers.reduce((hidden, layer, i) => {
    const own = (input: Tensor): Tensor => apply(input, layer, i)
    return recomputes && i < layers.length - 1 ? checkpoint(own)(hidden) : own(hidden)
  }, x)
}
