// A linear layer: a weight in any format, and a bias where the file has one.

import type { Tensor } from '../tensor/tensor.ts'
import type { MatrixShape, ModelSource } from './source.ts'

export interface Linear {
  readonly weight: Tensor
  readonly bias: Tensor | undefined
}

/** `name.weight` [out, in] and, if present, `name.bias` [out]. */
export function readLinear(source: ModelSource, name: string, shape: MatrixShape): Linear {
  return { weight: source.weight(`${name}.weight`, shape), bias: source.find(`${name}.bias`, [shape[0]]) }
}

/** x [n, in] -> [n, out] */
export function applyLinear({ weight, bias }: Linear, x: Tensor): Tensor {
  return x.linear(weight, bias)
}
