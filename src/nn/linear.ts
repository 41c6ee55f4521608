// A linear layer: a weight in any format, and a bias where the file has one.

import type { Tensor } from '../tensor/tensor.ts'
import type { ModelSource } from './source.ts'

export interface Linear {
  readonly weight: Tensor
  readonly bias: Tensor | undefined
}

/** `name.weight` and, if present, `name.bias`. */
export function readLinear(source: ModelSource, name: string): Linear {
  return { weight: source.weight(`${name}.weight`), bias: source.find(`${name}.bias`) }
}

/** x [n, in] -> [n, out] */
export function applyLinear({ weight, bias }: Linear, x: Tensor): Tensor {
  return x.linear(weight, bias)
}
