// The operations in terms of Ingot's tensors, as a user writes them.

import type { DeviceChoice } from '../../tensor/default-device.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { type OpName, type OpWork, inputValue } from './workload.ts'

type Shape = readonly number[]

interface Written {
  /** of what changes from call to call */
  readonly inputs: readonly Shape[]
  /** of what stays; given after the inputs */
  readonly weights?: readonly Shape[]
  apply(...tensors: Tensor[]): Tensor
  /** the program wants the numbers, not a tensor for what comes next */
  readonly read?: true
}

const LORA_SCALE = 2

const unary = (inputs: readonly Shape[], f: (x: Tensor) => Tensor): Written => ({ inputs, apply: f })
const chain = (elements: Shape, count: number, step: (x: Tensor, i: number) => Tensor): Written => {
  const apply = (x: Tensor): Tensor => {
    let y = x
    for (let i = 0; i < count; i++) y = step(y, i)
    return y
  }
  return { inputs: [elements], apply, read: true }
}

const OPERATIONS: Readonly<Record<OpName, (...sizes: number[]) => Written>> = {
  add: (n) => ({ inputs: [[n], [n]], apply: (a: Tensor, b: Tensor) => a.add(b) }),
  mul: (n) => ({ inputs: [[n], [n]], apply: (a: Tensor, b: Tensor) => a.mul(b) }),
  relu: (n) => unary([[n]], (x) => x.relu()),
  matmul: (n) => ({
    inputs: [
      [n, n],
      [n, n],
    ],
    apply: (a: Tensor, b: Tensor) => a.matmul(b),
  }),
  softmax: (...shape) => unary([shape], (x) => x.softmax()),
  rmsNorm: (rows, cols) => ({ inputs: [[rows, cols]], weights: [[cols]], apply: (x: Tensor, weight: Tensor) => x.rmsNorm(weight) }),
  layerNorm: (rows, cols) => ({
    inputs: [[rows, cols]],
    weights: [[cols], [cols]],
    apply: (x: Tensor, weight: Tensor, bias: Tensor) => x.layerNorm(weight, bias),
  }),
  sum: (n) => unary([[n]], (x) => x.sum()),
  max: (n) => unary([[n]], (x) => x.max()),
  sumRows: (...shape) => unary([shape], (x) => x.sum(1)),
  sumColumns: (...shape) => unary([shape], (x) => x.sum(0)),
  argmaxRows: (...shape) => unary([shape], (x) => x.argmax(1)),
  lora: (rows, side, rank) => ({
    inputs: [[rows, side]],
    weights: [
      [side, side],
      [side, rank],
      [rank, side],
    ],
    apply: (x: Tensor, w: Tensor, a: Tensor, b: Tensor) => x.matmul(w).add(x.matmul(a).matmul(b).mul(LORA_SCALE)),
  }),
  rowChain: (elements, count) => chain([1, elements], count, (x, i) => (i % 2 === 0 ? x.softmax() : x.cumsum(1))),
  mapChain: (elements, count) => chain([elements], count, (x, i) => (i % 2 === 0 ? x.add(1) : x.mul(0.5))),
}

/** An operation with its tensors, which come to the device with the first run. */
export interface IngotOperation {
  readonly inputs: readonly Tensor[]
  readonly weights: readonly Tensor[]
  readonly apply: (...tensors: Tensor[]) => Tensor
  readonly read: boolean
}

export function prepareOperation({ op, sizes }: OpWork, device: DeviceChoice): IngotOperation {
  const { inputs, weights = [], apply, read = false } = OPERATIONS[op](...sizes)
  const tensors = [...inputs, ...weights].map((shape, which) => {
    const length = shape.reduce((a, b) => a * b, 1)
    return Tensor.from(
      Float32Array.from({ length }, (_, i) => inputValue(i, which)),
      { shape, device },
    )
  })
  return { inputs: tensors.slice(0, inputs.length), weights: tensors.slice(inputs.length), apply, read }
}
