// How far results may be from what the WebNN conformance suite expects: units in the last place, or absolute, by operation. The numbers are
// those that the suite itself allows; a graph of several operations may be off by the sum of theirs.

import { encodeHalf } from '../../src/base/half.ts'
import { type Operator, type WebnnCase, argumentsOf } from './webnn-case.ts'

type Metric = { readonly ulp: number } | { readonly absolute: number }
type Sizes = (name: unknown) => readonly number[]

const half = (isHalf: boolean, single: number, of: number): number => (isHalf ? of : single)
const product = (sizes: readonly number[]): number => sizes.reduce((a, b) => a * b, 1)

/** Elements that go into each result of a reduction. */
function reduced(shape: readonly number[], options: Readonly<Record<string, unknown>>): number {
  const axes = options['axes'] as number[] | undefined
  return product(axes === undefined ? shape : axes.map((axis) => shape.at(axis) ?? 1))
}

const NEAR: ReadonlySet<string> = new Set(['cos', 'erf', 'sin', 'tan', 'tanh', 'log', 'layerNormalization'])

/** One operation's part. */
function metricOf(operator: Operator, sizes: Sizes, isHalf: boolean): Metric {
  const args = argumentsOf(operator)
  const options = (args['options'] ?? {}) as Readonly<Record<string, unknown>>
  const { name } = operator
  if (NEAR.has(name)) return { absolute: name === 'log' ? 1 / 1024 : half(isHalf, 1 / 1024, 1 / 512) }
  const input = sizes(args['input'] ?? args['a'] ?? args['inputA'])
  switch (name) {
    case 'add':
    case 'sub':
    case 'mul':
    case 'prelu':
    case 'leakyRelu':
    case 'sqrt':
    case 'cast':
      return { ulp: 1 }
    case 'div':
    case 'linear':
    case 'hardSigmoid':
    case 'reciprocal':
      return { ulp: 2 }
    case 'softsign':
      return { ulp: 3 }
    case 'hardSwish':
      return { ulp: 4 }
    case 'batchNormalization':
      return { ulp: 6 }
    case 'elu':
    case 'gelu':
    case 'softplus':
      return { ulp: 18 }
    case 'exp':
      return { ulp: half(isHalf, 32, 1) }
    case 'pow':
      return { ulp: half(isHalf, 32, 2) }
    case 'sigmoid':
      return { ulp: half(isHalf, 34, 10) }
    case 'instanceNormalization':
      return { ulp: half(isHalf, 840, 8400) }
    case 'resample2d':
      return { ulp: options['mode'] === 'linear' ? half(isHalf, 84, 10) : 0 }
    case 'conv2d':
    case 'convTranspose2d':
      return { ulp: convolutionUlp(input, sizes(args['filter']), options) }
    case 'gemm': {
      const inner = options['aTranspose'] === true ? input[0] : input[1]
      const more = [options['alpha'], options['beta'], options['c']].filter((each) => each !== undefined && each !== 1)
      return { ulp: 2 * (inner ?? 1) + more.length }
    }
    case 'matmul':
      return { ulp: 2 * (input.at(-1) ?? 1) }
    case 'averagePool2d':
    case 'l2Pool2d': {
      const window = options['windowDimensions'] as number[] | undefined
      const spatial = options['layout'] === 'nhwc' ? input.slice(1, 3) : input.slice(2)
      return { ulp: product(window ?? spatial) + 2 }
    }
    case 'softmax':
      return { ulp: 3 * (input[(args['axis'] as number | undefined) ?? 1] ?? 1) + 3 }
    case 'reduceL1':
    case 'reduceProduct':
    case 'reduceSum':
      return { ulp: reduced(input, options) }
    case 'cumulativeSum':
      return { ulp: input[(args['axis'] as number | undefined) ?? 0] ?? 1 }
    case 'reduceL2':
      return { ulp: 2 * reduced(input, options) + 1 }
    case 'reduceMean':
      return { ulp: reduced(input, options) + 2 }
    case 'reduceLogSum':
      return { ulp: reduced(input, options) + 18 }
    case 'reduceLogSumExp':
      return { ulp: 2 * reduced(input, options) + 18 }
    case 'reduceSumSquare':
      return { ulp: 2 * reduced(input, options) }
    case 'gru':
    case 'gruCell':
    case 'lstm':
    case 'lstmCell':
      return { ulp: half(isHalf, 3, 3) }
    case 'quantizeLinear':
    case 'dequantizeLinear':
      return { ulp: 1 }
    default:
      return { ulp: 0 }
  }
}

function convolutionUlp(input: readonly number[], filter: readonly number[], options: Readonly<Record<string, unknown>>): number {
  const channels = options['inputLayout'] === 'nhwc' ? input[3] : input[1]
  const layout = (options['filterLayout'] as string | undefined) ?? 'oihw'
  const [height, width] = [filter[layout.indexOf('h')] ?? 1, filter[layout.indexOf('w')] ?? 1]
  return (height * width * (channels ?? 1) * 2) / ((options['groups'] as number | undefined) ?? 1)
}

/** How far apart two halves or singles are, counted in numbers that lie between them. */
function distance(got: number, want: number, isHalf: boolean): number {
  const rank = (value: number): number => {
    const bits = isHalf ? encodeHalf(value) : (new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0)
    const sign = isHalf ? 0x8000 : 0x80000000
    return bits >= sign ? sign - bits : bits // both zeros are 0
  }
  return Math.abs(rank(got) - rank(want))
}

/** What is wrong with a result, or nothing. */
export function findError(
  each: WebnnCase,
  output: string,
  got: ArrayLike<number>,
  want: readonly number[],
  sizes: Sizes,
): string | undefined {
  const type = each.graph.expectedOutputs[output]?.descriptor.dataType ?? 'float32'
  const isHalf = type === 'float16'
  const metrics = each.graph.operators.map((operator) => metricOf(operator, sizes, isHalf))
  const ulp = metrics.reduce((sum, metric) => sum + ('ulp' in metric ? metric.ulp : 0), 0)
  const absolute = metrics.reduce((sum, metric) => sum + ('absolute' in metric ? metric.absolute : 0), 0)
  if (got.length !== want.length) return `${got.length} elements instead of ${want.length}`
  const isFloat = type.startsWith('float')
  for (const [i, wanted] of want.entries()) {
    const value = got[i] ?? Number.NaN
    if (Object.is(value, wanted) || value === wanted || (Number.isNaN(value) && Number.isNaN(wanted))) continue
    const isNear =
      Math.abs(value - wanted) <= absolute ||
      (isFloat
        ? distance(value, wanted, isHalf) <= ulp
        : Math.abs(value - wanted) <= (ulp > 0 && each.graph.operators.some(({ name }) => name === 'quantizeLinear') ? 1 : 0))
    if (!isNear) return `element ${i} is ${value} instead of ${wanted} (${isFloat ? distance(value, wanted, isHalf) : '-'} ulp of ${ulp})`
  }
  return undefined
}
