// Norms that models share beyond Tensor.rmsNorm itself.

import type { Tensor } from '../tensor/tensor.ts'

/** RMSNorm of each head by itself: x [n, heads * dim], weight [dim]. */
export function normHeads(x: Tensor, weight: Tensor, heads: number, eps: number): Tensor {
  const [n = 1, all = 1] = x.shape
  return x
    .reshape(n * heads, all / heads)
    .rmsNorm(weight, eps)
    .reshape(n, all)
}
