// One call of every method that makes sense, with operands of any type: what is checked for every type, and what a wrong argument is put
// into.

import type { ElementType } from '../../src/base/element.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

/** A tensor of small whole numbers from 0 on, which every type but bool holds. */
export type Make = (shape: readonly number[], type?: ElementType) => Tensor
export interface MethodCall {
  readonly on: (make: Make) => Tensor
  readonly args: (make: Make) => readonly unknown[]
}

/** Calls a method by name, whatever it takes. */
export function callMethod(of: object, name: string, args: readonly unknown[]): unknown {
  const method: unknown = Reflect.get(of, name)
  if (typeof method !== 'function') throw new Error(`there is no method ${name}`)
  return Reflect.apply(method, of, args)
}

const matrix = (make: Make): Tensor => make([2, 3])
const call = (args: (make: Make) => readonly unknown[] = () => [], on: (make: Make) => Tensor = matrix): MethodCall => ({ on, args })
const unary = call()
const binary = call((make) => [make([3])])
const image = (make: Make): Tensor => make([1, 2, 4, 4])
const WINDOWS = { kernel: [2], strides: [1], dilations: [1], padding: [[0, 0]], out: [2] }
const CELL = (make: Make, gates: number) => ({ weight: make([2 * gates, 3]), recurrentWeight: make([2 * gates, 2]) })
const ROPE = { style: 'half', heads: 2, dims: 2, magnitude: 1 }
const ATTENTION = { heads: 2, scale: 1, window: 0, softcap: 0, apart: false }
/** Numbers are below five, and so are slots and pages. */
const PLACES = (make: Make, rows: number) => ({ positions: make([rows], 'u32'), slots: make([rows], 'u32'), table: make([4, 1], 'u32') })

const UNARY = [
  'neg', 'abs', 'sign', 'square', 'sqrt', 'rsqrt', 'reciprocal', 'exp', 'log', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'tanh', 'erf',
  'floor', 'ceil', 'round', 'trunc', 'relu', 'leakyRelu', 'elu', 'sigmoid', 'hardSigmoid', 'silu', 'hardSwish', 'softplus', 'softsign',
  'gelu', 'geluErf', 'isNaN', 'isInfinite', 'not', 'sum', 'mean', 'max', 'min', 'prod', 'argmax', 'argmin', 'logsumexp', 'l1Norm', 'l2Norm',
  'variance', 'std', 'any', 'all', 'cumsum', 'cumprod', 'softmax', 'logSoftmax', 'flatten', 'squeeze', 'transpose', 'slice', 'flip', 'zeros',
  'stopGradient', 'tril', 'triu', 'argsort', 'sort', 'rmsNorm', 'layerNorm', 'l2Normalize', 'realize', 'data', 'bytes', 'toArray', 'show',
  'toString', 'logSigmoid', 'expm1', 'log1p',
] // prettier-ignore
const BINARY = [
  'add', 'sub', 'mul', 'div', 'quotient', 'remainder', 'pow', 'minimum', 'maximum', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'and', 'or', 'xor',
  'bitAnd', 'bitOr', 'bitXor', 'shiftLeft', 'shiftRight', 'outer', 'mse', 'klDiv',
] // prettier-ignore

export const CALLS: Readonly<Record<string, MethodCall>> = {
  ...Object.fromEntries(UNARY.map((name) => [name, unary])),
  ...Object.fromEntries(BINARY.map((name) => [name, binary])),
  to: call(() => ['f32']),
  where: call((make) => [make([3]), make([2, 1])]),
  expression: call((make) => [{ input: 0 }, [make([2, 3])], make([1]).dtype]),
  clamp: call(() => [1, 3]),
  reshape: call(() => [3, 2]),
  unsqueeze: call(() => [1]),
  permute: call(() => [1, 0]),
  expand: call(() => [2, 2, 3]),
  cut: call(() => [[0, 1], [2, 2], [1, 1]]), // prettier-ignore
  place: call(() => [[3, 4], [1, 0], [1, 1]]), // prettier-ignore
  at: call(() => [1]),
  narrow: call(() => [1, 0, 2]),
  split: call(() => [3, 1]),
  concat: call((make) => [[make([1, 3])]]),
  pad: call(() => [[[1, 0], [0, 2]]]), // prettier-ignore
  tile: call(() => [2, 1]),
  roll: call(() => [1, 1]),
  indices: call(() => [[2, 3], 1]),
  sumTo: call(() => [[1, 3]]),
  gather: call((make) => [make([2], 'i32'), 1]),
  gatherElements: call((make) => [make([2, 2], 'i32'), 1]),
  gatherNd: call((make) => [make([2, 1], 'i32')]),
  scatter: call((make) => [make([2, 2], 'i32'), make([2, 2]), 1]),
  scatterAdd: call((make) => [make([2, 2], 'i32'), make([2, 2]), 1]),
  scatterRows: call((make) => [make([1], 'i32'), make([1, 3]), 0, 'set']),
  scatterNd: call((make) => [make([2, 1], 'i32'), make([2, 3])]),
  oneHot: call(() => [4]),
  topK: call(() => [2]),
  matmul: call((make) => [make([3, 2])]),
  dot: call(
    (make) => [make([4])],
    (make) => make([4]),
  ),
  linear: call((make) => [make([2, 3])]),
  linearTransposed: call((make) => [make([3, 2])]),
  lora: call((make) => [make([2, 3]), make([1, 3]), make([2, 1])]),
  embedding: call((make) => [make([2], 'u32')]),
  einsum: call((make) => ['ij,jk->ik', make([3, 2])]),
  unfold: call(() => [WINDOWS]),
  fold: call(
    () => [[3], WINDOWS],
    (make) => make([2, 2, 2]),
  ),
  pool: call(
    () => ['max', { kernel: [2, 2], strides: [2, 2], dilations: [1, 1], padding: [[0, 0], [0, 0]], out: [2, 2] }],
    image,
  ), // prettier-ignore
  conv1d: call(
    (make) => [make([2, 2, 3])],
    (make) => make([1, 2, 5]),
  ),
  conv2d: call((make) => [make([2, 2, 3, 3]), { padding: 1, bias: make([2]) }], image),
  convTranspose1d: call(
    (make) => [make([2, 2, 3])],
    (make) => make([1, 2, 3]),
  ),
  convTranspose2d: call((make) => [make([2, 1, 2, 2]), { stride: 2, bias: make([1]) }], image),
  maxPool2d: call(() => [2], image),
  averagePool2d: call(() => [2], image),
  l2Pool2d: call(() => [2], image),
  resize: call(() => [[3, 6], { mode: 'linear' }], image),
  standardize: call(() => [1]),
  batchNorm: call((make) => [make([3]), make([3])]),
  instanceNorm: call(undefined, image),
  groupNorm: call(() => [2], image),
  scaledDotProductAttention: call(
    (make) => [make([1, 3, 2]), make([1, 3, 2]), { causal: true }],
    (make) => make([2, 2, 2]),
  ),
  crossEntropy: call((make) => [make([2], 'i32')]),
  gruCell: call((make) => [make([2, 2]), CELL(make, 3)]),
  lstmCell: call((make) => [make([2, 2]), make([2, 2]), CELL(make, 4)]),
  rope: call(
    (make) => [make([2], 'u32'), make([1], 'f32'), ROPE],
    (make) => make([2, 4]),
  ),
  cacheWrite: call(
    (make) => [make([1, 4], 'f32'), PLACES(make, 1)],
    (make) => make([2, 5 * 64, 2]),
  ),
  cachedAttention: call(
    (make) => [make([1, 5 * 64, 2]), make([1, 5 * 64, 2]), PLACES(make, 2), ATTENTION],
    (make) => make([2, 4], 'f32'),
  ),
  candidates: call(
    () => [2],
    (make) => make([1, 4]),
  ),
  draw: call(
    (make) => [make([7], 'u32'), make([1], 'u32')],
    (make) => make([4], 'u32'),
  ),
  item: call(undefined, (make) => make([1])),
  named: call(() => ['x']),
  assign: call((make) => [make([2, 3])]),
}
