// What the operators of WebNN are in Ingot. Each takes tensors by name and gives the tensors of its outputs, in order. What Ingot has no
// word for is composed of what it has.

import { Tensor } from '../../src/tensor/tensor.ts'
import type { ElementType } from '../../src/base/element.ts'
import type { Activation } from '../../src/tensor/method/network.ts'
import type { PoolOptions } from '../../src/tensor/method/window.ts'
import { TYPES, numberOf } from './webnn-case.ts'

/** An operator's arguments: tensors are looked up by name. */
export interface Args {
  /** the tensor that an argument names */
  tensor(name: string): Tensor
  /** the tensor that an option names, if it is given */
  option(name: string): Tensor | undefined
  /** any argument or option as it stands */
  value<T>(name: string): T | undefined
}

type Operate = (args: Args) => Tensor | Tensor[]

const unary =
  (of: (x: Tensor) => Tensor): Operate =>
  (args) =>
    of(args.tensor('input'))
/** Results have the type of the operands, as WebNN wants it. */
const binary =
  (of: (a: Tensor, b: Tensor) => Tensor): Operate =>
  (args) => {
    const [a, b] = pair(args)
    return of(a, b)
  }
const pair = (args: Args): [Tensor, Tensor] =>
  args.value('a') === undefined ? [args.tensor('inputA'), args.tensor('inputB')] : [args.tensor('a'), args.tensor('b')]
/** WebNN's truths are bytes. */
const compare = (of: (a: Tensor, b: Tensor) => Tensor): Operate => binary((a, b) => of(a, b).to('u8'))
const truth = (x: Tensor): Tensor => x.ne(0)
const isWhole = ({ dtype }: Tensor): boolean => !['f32', 'f16', 'bf16', 'f64'].includes(dtype)

const reduction =
  (of: (x: Tensor, axes: readonly number[] | undefined, keep: boolean) => Tensor): Operate =>
  (args) => {
    const [x, axes] = [args.tensor('input'), args.value<number[]>('axes')]
    // Without axes nothing is reduced, but each element is treated as if it were alone.
    const none = axes?.length === 0
    const result = of(none ? x.unsqueeze(-1) : x, none ? [-1] : axes, args.value('keepDimensions') === true && !none)
    return result.to(x.dtype as ElementType)
  }

/** f16 is reduced in f32, and rounded once. */
const wide = (x: Tensor): Tensor => (x.dtype === 'f16' ? x.to('f32') : x)

const optionalWide = (x: Tensor | undefined): Tensor | undefined => (x === undefined ? undefined : wide(x))

const toNchw = (x: Tensor, layout: string | undefined): Tensor => (layout === 'nhwc' ? x.permute(0, 3, 1, 2) : x)
const fromNchw = (x: Tensor, layout: string | undefined): Tensor => (layout === 'nhwc' ? x.permute(0, 2, 3, 1) : x)
const spatialPadding = (args: Args): [readonly [number, number], readonly [number, number]] => {
  const [top = 0, bottom = 0, left = 0, right = 0] = args.value<number[]>('padding') ?? []
  return [
    [top, bottom],
    [left, right],
  ]
}

function pool(kind: 'max' | 'average' | 'l2'): Operate {
  return (args) => {
    const layout = args.value<string>('layout')
    const x = toNchw(wide(args.tensor('input')), layout)
    const window = args.value<number[]>('windowDimensions') ?? x.shape.slice(2)
    const [strides, dilations] = [args.value<number[]>('strides') ?? [1, 1], args.value<number[]>('dilations') ?? [1, 1]]
    const padding = spatialPadding(args)
    const round = args.value('outputShapeRounding') === 'ceil' ? Math.ceil : Math.floor
    // In WebNN a window of nothing but padding counts.
    const counts = padding.map(
      ([before, after], axis) =>
        1 + round((x.shape[axis + 2]! + before + after - dilations[axis]! * (window[axis]! - 1) - 1) / strides[axis]!),
    )
    const options: PoolOptions = { stride: strides, dilation: dilations, padding, out: args.value<number[]>('outputSizes') ?? counts }
    const y = kind === 'max' ? x.maxPool2d(window, options) : kind === 'l2' ? x.l2Pool2d(window, options) : x.averagePool2d(window, options)
    return fromNchw(y, layout).to(args.tensor('input').dtype as ElementType)
  }
}

/** The filter as [o, i, h, w] (of a transposed convolution [i, o, h, w]). */
function filterOf(args: Args, wanted: string): Tensor {
  const layout = args.value<string>('filterLayout') ?? wanted
  return args.tensor('filter').permute(...[...wanted].map((axis) => layout.indexOf(axis)))
}

const conv2d: Operate = (args) => {
  const layout = args.value<string>('inputLayout')
  const bias = args.option('bias')
  const y = toNchw(wide(args.tensor('input')), layout).conv2d(wide(filterOf(args, 'oihw')), {
    stride: args.value<number[]>('strides') ?? 1,
    dilation: args.value<number[]>('dilations') ?? 1,
    padding: spatialPadding(args),
    groups: args.value<number>('groups') ?? 1,
    ...(bias && { bias: wide(bias) }),
  })
  return fromNchw(y, layout).to(args.tensor('input').dtype as ElementType)
}

const convTranspose2d: Operate = (args) => {
  const layout = args.value<string>('inputLayout')
  const [x, filter, bias] = [toNchw(wide(args.tensor('input')), layout), wide(filterOf(args, 'iohw')), args.option('bias')]
  const stride = args.value<number[]>('strides') ?? [1, 1]
  const dilation = args.value<number[]>('dilations') ?? [1, 1]
  const padding = spatialPadding(args)
  const sizes = args.value<number[]>('outputSizes')
  const plain = (axis: 0 | 1): number =>
    (x.shape[axis + 2]! - 1) * stride[axis]! + dilation[axis]! * (filter.shape[axis + 2]! - 1) + 1 - padding[axis][0] - padding[axis][1]
  const extra = sizes ? sizes.map((size, axis) => size - plain(axis as 0 | 1)) : (args.value<number[]>('outputPadding') ?? [0, 0])
  const y = x.convTranspose2d(filter, {
    stride,
    dilation,
    padding,
    groups: args.value<number>('groups') ?? 1,
    outputPadding: extra,
    ...(bias && { bias: wide(bias) }),
  })
  return fromNchw(y, layout).to(args.tensor('input').dtype as ElementType)
}

const gemm: Operate = (args) => {
  const [a, b, c] = [wide(args.tensor('a')), wide(args.tensor('b')), args.option('c')]
  const product = (args.value('aTranspose') === true ? a.transpose() : a).matmul(args.value('bTranspose') === true ? b.transpose() : b)
  const scaled = product.mul(args.value<number>('alpha') ?? 1)
  const sum = c === undefined ? scaled : scaled.add(wide(c).mul(args.value<number>('beta') ?? 1))
  return sum.to(args.tensor('a').dtype as ElementType)
}

/** Scales and zero points belong to blocks: each stands for as many elements as fit. */
function blockwise(values: Tensor, shape: readonly number[]): Tensor {
  const own = [...Array.from({ length: shape.length - values.rank }, () => 1), ...values.shape]
  const apart = own.flatMap((size) => [size, 1])
  const whole = own.flatMap((size, axis) => [size, shape[axis]! / size])
  return values
    .reshape(...apart)
    .expand(...whole)
    .reshape(...shape)
}

const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  int8: [-128, 127],
  uint8: [0, 255],
  int4: [-8, 7],
  uint4: [0, 15],
}

const dequantizeLinear: Operate = (args) => {
  const [x, scale, zero] = [args.tensor('input'), args.tensor('scale'), args.tensor('zeroPoint')]
  const values = x.to('f32').sub(blockwise(zero.to('f32'), x.shape))
  return values.mul(blockwise(wide(scale), x.shape)).to(scale.dtype as ElementType)
}
const quantizeLinear: Operate = (args) => {
  const [x, scale, zero] = [wide(args.tensor('input')), wide(args.tensor('scale')), args.tensor('zeroPoint')]
  const [low, high] = RANGES[args.value<string>('zeroPointType') ?? ''] ?? [-(2 ** 31), 2 ** 31 - 1]
  const quotient = x.div(blockwise(scale, x.shape)).round()
  const whole = quotient.add(blockwise(zero.to('f32'), x.shape))
  return whole.clamp(low, high).to(zero.dtype as ElementType)
}

/** Parts of a list of gates, in another order. */
function gates(tensor: Tensor | undefined, hidden: number, from: string, to: string): Tensor | undefined {
  if (tensor === undefined || from === to) return tensor
  return Tensor.concat([...to].map((gate) => tensor.narrow(0, from.indexOf(gate) * hidden, hidden)))
}

interface Cell {
  /** one step: the input and the states give new states */
  step(x: Tensor, states: readonly Tensor[], direction: number): Tensor[]
}

/** The steps of a recurrent network in one or both directions. */
function recurrent(args: Args, cell: Cell, names: readonly string[]): Tensor[] {
  const input = wide(args.tensor('input')) // [steps, batch, size]
  const [steps, hidden] = [args.value<number>('steps') ?? 1, args.value<number>('hiddenSize') ?? 1]
  const direction = args.value<string>('direction') ?? 'forward'
  const batch = input.shape[1]!
  const count = direction === 'both' ? 2 : 1
  const runs = Array.from({ length: count }, (_, d) => {
    const backwards = direction === 'backward' || d === 1
    let states = names.map((name) => optionalWide(args.option(name))?.at(d) ?? input.zeros([batch, hidden]))
    const outputs: Tensor[] = []
    for (let step = 0; step < steps; step++) {
      states = cell.step(input.at(backwards ? steps - 1 - step : step), states, d)
      outputs.push(states[0]!)
    }
    return { states, outputs: backwards ? outputs.toReversed() : outputs }
  })
  const last = names.map((_, i) => Tensor.stack(runs.map(({ states }) => states[i]!)))
  const sequence = Tensor.stack(Array.from({ length: steps }, (_, step) => Tensor.stack(runs.map(({ outputs }) => outputs[step]!))))
  const all = args.value('returnSequence') === true ? [...last, sequence] : last
  return all.map((tensor) => tensor.to(args.tensor('input').dtype as ElementType))
}

const optional = <T>(value: T | undefined, key: string): Record<string, T> => (value === undefined ? {} : { [key]: value })

function cellWeights(args: Args, direction: number | undefined, hidden: number, layout: string, wanted: string) {
  const of = (tensor: Tensor | undefined): Tensor | undefined =>
    gates(optionalWide(direction === undefined ? tensor : tensor?.at(direction)), hidden, layout, wanted)
  return {
    weight: of(args.tensor('weight'))!,
    recurrentWeight: of(args.tensor('recurrentWeight'))!,
    ...optional(of(args.option('bias')), 'bias'),
    ...optional(of(args.option('recurrentBias')), 'recurrentBias'),
  }
}

function gruStep(args: Args, x: Tensor, state: Tensor, direction?: number): Tensor {
  const hidden = args.value<number>('hiddenSize') ?? 1
  const weights = cellWeights(args, direction, hidden, args.value<string>('layout') ?? 'zrn', 'zrn')
  const activations = args.value<[Activation, Activation]>('activations') ?? ['sigmoid', 'tanh']
  return x.gruCell(state, weights, { resetAfter: args.value('resetAfter') !== false, activations })
}

function lstmStep(args: Args, x: Tensor, [state, cell]: readonly Tensor[], direction?: number): Tensor[] {
  const hidden = args.value<number>('hiddenSize') ?? 1
  const layout = args.value<string>('layout') ?? 'iofg'
  const weights = cellWeights(args, direction, hidden, layout, 'iofg')
  const activations = args.value<[Activation, Activation, Activation]>('activations') ?? ['sigmoid', 'tanh', 'tanh']
  const given = optionalWide(args.option('peepholeWeight'))
  const peephole = direction === undefined ? given : given?.at(direction)
  const next = x.lstmCell(state!, cell!, weights, { activations, ...optional(peephole, 'peephole') })
  return [next.state, next.cell]
}

/** Norm over any axes, with scales of these axes in their order. */
const layerNormalization: Operate = (args) => {
  const x = args.tensor('input')
  const axes = args.value<number[]>('axes') ?? x.shape.slice(1).map((_, i) => i + 1)
  const normal = axes.length === 0 ? wide(x).zeros() : wide(x).standardize(axes, args.value<number>('epsilon') ?? 1e-5)
  const order = axes.toSorted((a, b) => a - b)
  const along = (scale: Tensor): Tensor =>
    wide(scale)
      .permute(...order.map((axis) => axes.indexOf(axis)))
      .reshape(...x.shape.map((size, axis) => (axes.includes(axis) ? size : 1)))
  const [scale, bias] = [args.option('scale'), args.option('bias')]
  const scaled = scale === undefined ? normal : normal.mul(along(scale))
  return (bias === undefined ? scaled : scaled.add(along(bias))).to(x.dtype as ElementType)
}

/** A bound as the type of a tensor has it: cut, and within its limits. */
function boundOf({ dtype }: Tensor, value: unknown): number {
  const [low, high] = LIMITS[dtype] ?? [-Infinity, Infinity]
  const number = numberOf(value)
  return Math.min(Math.max(LIMITS[dtype] ? Math.trunc(number) : number, low), high)
}
const LIMITS: Readonly<Record<string, readonly [number, number]>> = {
  i8: [-128, 127],
  u8: [0, 255],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u32: [0, 2 ** 32 - 1],
  i64: [-(2 ** 31), 2 ** 31 - 1],
}

export const OPERATORS: Readonly<Record<string, Operate>> = {
  abs: unary((x) => x.abs()),
  ceil: unary((x) => x.ceil()),
  cos: unary((x) => x.cos()),
  erf: unary((x) => x.erf()),
  exp: unary((x) => x.exp()),
  floor: unary((x) => x.floor()),
  hardSwish: unary((x) => x.hardSwish()),
  identity: unary((x) => x.reshape(...x.shape)),
  log: unary((x) => x.log()),
  neg: unary((x) => x.neg()),
  reciprocal: unary((x) => x.reciprocal()),
  relu: unary((x) => x.relu()),
  roundEven: unary((x) => x.round()),
  sigmoid: unary((x) => x.sigmoid()),
  sign: unary((x) => x.sign()),
  sin: unary((x) => x.sin()),
  softplus: unary((x) => x.softplus()),
  softsign: unary((x) => x.softsign()),
  sqrt: unary((x) => x.sqrt()),
  tan: unary((x) => x.tan()),
  tanh: unary((x) => x.tanh()),
  gelu: unary((x) => x.geluErf()),
  elu: (args) => args.tensor('input').elu(args.value<number>('alpha') ?? 1),
  leakyRelu: (args) => args.tensor('input').leakyRelu(args.value<number>('alpha') ?? 0.01),
  hardSigmoid: (args) => args.tensor('input').hardSigmoid(args.value<number>('alpha') ?? 0.2, args.value<number>('beta') ?? 0.5),
  linear: (args) => {
    const x = wide(args.tensor('input'))
    return x
      .mul(args.value<number>('alpha') ?? 1)
      .add(args.value<number>('beta') ?? 0)
      .to(args.tensor('input').dtype as ElementType)
  },
  prelu: (args) => args.tensor('input').leakyRelu(args.tensor('slope')),
  clamp: (args) => {
    const x = args.tensor('input')
    const [low, high] = [args.value<unknown>('minValue'), args.value<unknown>('maxValue')]
    const raised = low === undefined ? x : x.maximum(boundOf(x, low))
    return (high === undefined ? raised : raised.minimum(boundOf(x, high))).to(x.dtype as ElementType)
  },
  isNaN: (args) => args.tensor('a').isNaN().to('u8'),
  isInfinite: (args) => args.tensor('a').isInfinite().to('u8'),
  cast: (args) => args.tensor('input').to(TYPES[args.value<string>('type') ?? '']!),

  add: binary((a, b) => a.add(b)),
  sub: binary((a, b) => a.sub(b)),
  mul: binary((a, b) => a.mul(b)),
  div: binary((a, b) => (isWhole(a) ? a.quotient(b) : a.div(b))),
  max: binary((a, b) => a.maximum(b)),
  min: binary((a, b) => a.minimum(b)),
  pow: binary((a, b) => a.pow(b)),
  equal: compare((a, b) => a.eq(b)),
  notEqual: compare((a, b) => a.ne(b)),
  greater: compare((a, b) => a.gt(b)),
  greaterOrEqual: compare((a, b) => a.ge(b)),
  lesser: compare((a, b) => a.lt(b)),
  lesserOrEqual: compare((a, b) => a.le(b)),
  logicalAnd: compare((a, b) => truth(a).and(truth(b))),
  logicalOr: compare((a, b) => truth(a).or(truth(b))),
  logicalXor: compare((a, b) => truth(a).xor(truth(b))),
  logicalNot: (args) => truth(args.tensor('a')).not().to('u8'),
  where: (args) => args.tensor('condition').where(args.tensor('trueValue'), args.tensor('falseValue')),

  reduceL1: reduction((x, axes, keep) => wide(x).l1Norm(axes, keep)),
  reduceL2: reduction((x, axes, keep) => wide(x).l2Norm(axes, keep)),
  reduceLogSum: reduction((x, axes, keep) => wide(x).sum(axes, keep).log()),
  reduceLogSumExp: reduction((x, axes, keep) => wide(x).logsumexp(axes, keep)),
  reduceMax: reduction((x, axes, keep) => x.max(axes, keep)),
  reduceMean: reduction((x, axes, keep) => wide(x).mean(axes, keep)),
  reduceMin: reduction((x, axes, keep) => x.min(axes, keep)),
  reduceProduct: reduction((x, axes, keep) => wide(x).prod(axes, keep)),
  reduceSum: reduction((x, axes, keep) => wide(x).sum(axes, keep)),
  reduceSumSquare: reduction((x, axes, keep) => wide(x).square().sum(axes, keep)),
  argMax: (args) => argOf(args, (x, axis, keep) => x.argmax(axis, keep)),
  argMin: (args) => argOf(args, (x, axis, keep) => x.argmin(axis, keep)),
  softmax: (args) => args.tensor('input').softmax(args.value<number>('axis') ?? 1),
  cumulativeSum: (args) =>
    args.tensor('input').cumsum(args.value<number>('axis') ?? 0, {
      exclusive: args.value('exclusive') === true,
      reversed: args.value('reversed') === true,
    }),

  concat: (args) =>
    Tensor.concat(
      (args.value<string[]>('inputs') ?? []).map((name) => args.tensor(`=${name}`)),
      args.value<number>('axis') ?? 0,
    ),
  expand: (args) => args.tensor('input').expand(...(args.value<number[]>('newShape') ?? [])),
  pad: (args) => {
    const [before, after] = [args.value<number[]>('beginningPadding') ?? [], args.value<number[]>('endingPadding') ?? []]
    const widths = before.map((width, axis) => [width, after[axis] ?? 0] as const)
    const mode = ({ constant: 'constant', edge: 'edge', reflection: 'reflect', symmetric: 'symmetric' } as const)[
      args.value<'constant'>('mode') ?? 'constant'
    ]
    return args.tensor('input').pad(widths, { mode, value: numberOf(args.value<unknown>('value') ?? 0) })
  },
  reshape: (args) => args.tensor('input').reshape(...(args.value<number[]>('newShape') ?? [])),
  reverse: (args) => args.tensor('input').flip(args.value<number[]>('axes')),
  slice: (args) => {
    const [starts, sizes, strides] = [
      args.value<number[]>('starts') ?? [],
      args.value<number[]>('sizes') ?? [],
      args.value<number[]>('strides'),
    ]
    return args.tensor('input').slice(...starts.map((start, axis) => [start, start + sizes[axis]!, strides?.[axis] ?? 1] as const))
  },
  split: (args) => args.tensor('input').split(args.value<number | number[]>('splits') ?? 1, args.value<number>('axis') ?? 0),
  tile: (args) => args.tensor('input').tile(...(args.value<number[]>('repetitions') ?? [])),
  transpose: (args) => {
    const x = args.tensor('input')
    return x.permute(...(args.value<number[]>('permutation') ?? x.shape.map((_, axis) => x.rank - 1 - axis)))
  },
  triangular: (args) => {
    const [x, k] = [args.tensor('input'), args.value<number>('diagonal') ?? 0]
    return args.value('upper') === false ? x.tril(k) : x.triu(k)
  },
  gather: (args) => args.tensor('input').gather(args.tensor('indices'), args.value<number>('axis') ?? 0),
  gatherElements: (args) => args.tensor('input').gatherElements(args.tensor('indices'), args.value<number>('axis') ?? 0),
  gatherND: (args) => args.tensor('input').gatherNd(args.tensor('indices')),
  scatterElements: (args) => args.tensor('input').scatter(args.tensor('indices'), args.tensor('updates'), args.value<number>('axis') ?? 0),
  scatterND: (args) => args.tensor('input').scatterNd(args.tensor('indices'), args.tensor('updates')),

  matmul: binary((a, b) =>
    wide(a)
      .matmul(wide(b))
      .to(a.dtype as ElementType),
  ),
  gemm,
  conv2d,
  convTranspose2d,
  averagePool2d: pool('average'),
  l2Pool2d: pool('l2'),
  maxPool2d: pool('max'),
  resample2d: (args) => {
    const x = args.tensor('input')
    const axes = args.value<number[]>('axes') ?? [2, 3]
    const scales = args.value<number[]>('scales') ?? [1, 1]
    const sizes = args.value<number[]>('sizes') ?? axes.map((axis, i) => Math.floor(x.shape[axis]! * scales[i]!))
    return x.resize(sizes, { axes, mode: args.value('mode') === 'linear' ? 'linear' : 'nearest' })
  },

  batchNormalization: (args) => {
    const [weight, bias] = [args.option('scale'), args.option('bias')]
    const y = wide(args.tensor('input')).batchNorm(wide(args.tensor('mean')), wide(args.tensor('variance')), {
      axis: args.value<number>('axis') ?? 1,
      eps: args.value<number>('epsilon') ?? 1e-5,
      ...(weight && { weight: wide(weight) }),
      ...(bias && { bias: wide(bias) }),
    })
    return y.to(args.tensor('input').dtype as ElementType)
  },
  instanceNormalization: (args) => {
    const [weight, bias] = [args.option('scale'), args.option('bias')]
    const y = wide(args.tensor('input')).instanceNorm({
      axis: args.value('layout') === 'nhwc' ? 3 : 1,
      eps: args.value<number>('epsilon') ?? 1e-5,
      ...(weight && { weight: wide(weight) }),
      ...(bias && { bias: wide(bias) }),
    })
    return y.to(args.tensor('input').dtype as ElementType)
  },
  layerNormalization,
  quantizeLinear,
  dequantizeLinear,

  gru: (args) => recurrent(args, { step: (x, [state], d) => [gruStep(args, x, state!, d)] }, ['initialHiddenState']),
  gruCell: (args) =>
    gruStep(args, wide(args.tensor('input')), wide(args.tensor('hiddenState'))).to(args.tensor('input').dtype as ElementType),
  lstm: (args) => recurrent(args, { step: (x, states, d) => lstmStep(args, x, states, d) }, ['initialHiddenState', 'initialCellState']),
  lstmCell: (args) =>
    lstmStep(args, wide(args.tensor('input')), [wide(args.tensor('hiddenState')), wide(args.tensor('cellState'))]).map((tensor) =>
      tensor.to(args.tensor('input').dtype as ElementType),
    ),
}

function argOf(args: Args, of: (x: Tensor, axis: number, keep: boolean) => Tensor): Tensor {
  const y = of(args.tensor('input'), args.value<number>('axis') ?? 0, args.value('keepDimensions') === true)
  return y.to(args.value('outputDataType') === 'int64' ? 'i64' : 'i32')
}
