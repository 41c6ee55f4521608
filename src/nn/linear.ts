// A linear layer: a weight in any format, a bias where the file has one, and an adapter where the source adds one (lora.ts).

import type { Tensor } from '../tensor/tensor.ts'
import type { Adapter, MatrixShape, ModelSource } from './source.ts'

export interface Linear {
  readonly weight: Tensor
  readonly bias: Tensor | undefined
  readonly adapter?: Adapter | undefined
  /** where the rows of the weight begin in what the adapter is for (default 0) */
  readonly from?: number
}

/** `name.weight` [out, in] and, if present, `name.bias` [out]. */
export function readLinear(source: ModelSource, name: string, shape: MatrixShape): Linear {
  const weight = `${name}.weight`
  return { weight: source.weight(weight, shape), bias: source.find(`${name}.bias`, [shape[0]]), adapter: source.adapter(weight, shape) }
}

/** Rows [from, from + count) of `name.weight`, where a file has several layers in one matrix of this shape. */
export function readLinearRows(source: ModelSource, name: string, shape: MatrixShape, from: number, count: number): Linear {
  const weight = `${name}.weight`
  return { weight: source.rows(weight, shape, from, count), bias: undefined, adapter: source.adapter(weight, shape), from }
}

/** x [n, in] -> [n, out] */
export function applyLinear({ weight, bias, adapter, from = 0 }: Linear, x: Tensor): Tensor {
  if (adapter === undefined) return x.linear(weight, bias)
  const { a, b, scale, drop } = adapter
  const [out = 1] = weight.shape
  const own = b.shape[0] === out ? b : b.slice([from, from + out])
  return x.lora(weight, a, own, scale, { bias, seen: drop?.(x) })
}
