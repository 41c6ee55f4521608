// The operations of PyTorch's gradients as Ingot has them: tensors and attributes in, one tensor out.

import type { ElementType } from '../../src/base/element.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

export type Attrs = Readonly<Record<string, unknown>>
type Operate = (inputs: readonly Tensor[], attrs: Attrs) => Tensor

const one =
  (of: (x: Tensor) => Tensor): Operate =>
  ([x]) =>
    of(x!)
const two =
  (of: (a: Tensor, b: Tensor) => Tensor): Operate =>
  ([a, b]) =>
    of(a!, b!)
const axesOf = (attrs: Attrs): number[] => attrs['axes'] as number[]
const axisOf = (attrs: Attrs): number => attrs['axis'] as number
const reduce =
  (of: (x: Tensor, axes: number[], keep: boolean) => Tensor): Operate =>
  ([x], attrs) =>
    of(x!, axesOf(attrs), attrs['keepdim'] === true)
const pairs = (value: unknown): (readonly [number, number])[] => value as [number, number][]

function rope([x]: readonly Tensor[], attrs: Attrs): Tensor {
  const [batch, time, heads, dim] = x!.shape as [number, number, number, number]
  const [dims, base] = [attrs['dims'] as number, attrs['base'] as number]
  const positions = attrs['positions'] as number[]
  const freqs = Float32Array.from({ length: dims / 2 }, (_, i) => base ** ((-2 * i) / dims))
  const all = Uint32Array.from({ length: batch * time }, (_, i) => positions[i % time]!)
  return x!
    .reshape(batch * time, heads * dim)
    .rope(Tensor.from(all), Tensor.from(freqs), {
      style: attrs['style'] === 'half' ? 'half' : 'adjacent',
      heads,
      dims,
      magnitude: 1,
    })
    .reshape(batch, time, heads, dim)
}

export const OPERATIONS: Readonly<Record<string, Operate>> = {
  add: two((a, b) => a.add(b)),
  sub: two((a, b) => a.sub(b)),
  mul: two((a, b) => a.mul(b)),
  div: two((a, b) => a.div(b)),
  pow: two((a, b) => a.pow(b)),
  maximum: two((a, b) => a.maximum(b)),
  minimum: two((a, b) => a.minimum(b)),
  pow_scalar: ([x], attrs) => x!.pow(attrs['exponent'] as number),
  neg: one((x) => x.neg()),
  abs: one((x) => x.abs()),
  sqrt: one((x) => x.sqrt()),
  rsqrt: one((x) => x.rsqrt()),
  exp: one((x) => x.exp()),
  log: one((x) => x.log()),
  sin: one((x) => x.sin()),
  cos: one((x) => x.cos()),
  tan: one((x) => x.tan()),
  tanh: one((x) => x.tanh()),
  asin: one((x) => x.asin()),
  acos: one((x) => x.acos()),
  atan: one((x) => x.atan()),
  relu: one((x) => x.relu()),
  sigmoid: one((x) => x.sigmoid()),
  silu: one((x) => x.silu()),
  erf: one((x) => x.erf()),
  square: one((x) => x.square()),
  reciprocal: one((x) => x.reciprocal()),
  gelu_tanh: one((x) => x.gelu()),
  gelu_erf: one((x) => x.geluErf()),
  leaky_relu: ([x], attrs) => x!.leakyRelu(attrs['negative_slope'] as number),
  softplus: ([x], attrs) => x!.softplus(attrs['beta'] as number),
  clamp: ([x], attrs) => x!.clamp(attrs['min'] as number, attrs['max'] as number),
  where: ([condition, x, y]) => condition!.where(x!, y!),
  eq: two((a, b) => a.eq(b)),
  ne: two((a, b) => a.ne(b)),
  lt: two((a, b) => a.lt(b)),
  le: two((a, b) => a.le(b)),
  gt: two((a, b) => a.gt(b)),
  ge: two((a, b) => a.ge(b)),
  cast: ([x], attrs) => x!.to(attrs['to'] as ElementType),
  sum: reduce((x, axes, keep) => x.sum(axes, keep)),
  mean: reduce((x, axes, keep) => x.mean(axes, keep)),
  max: reduce((x, axes, keep) => x.max(axes, keep)),
  min: reduce((x, axes, keep) => x.min(axes, keep)),
  prod: reduce((x, axes, keep) => x.prod(axes, keep)),
  logsumexp: reduce((x, axes, keep) => x.logsumexp(axes, keep)),
  argmax: ([x], attrs) => x!.argmax(axisOf(attrs), attrs['keepdim'] === true).to('i32'),
  argmin: ([x], attrs) => x!.argmin(axisOf(attrs), attrs['keepdim'] === true).to('i32'),
  softmax: ([x], attrs) => x!.softmax(axisOf(attrs)),
  log_softmax: ([x], attrs) => x!.logSoftmax(axisOf(attrs)),
  cumsum: ([x], attrs) => x!.cumsum(axisOf(attrs)),
  matmul: two((a, b) => a.matmul(b)),
  linear: ([x, w, b]) => x!.linear(w!, b),
  transpose: ([x], attrs) => x!.transpose(axesOf(attrs)[0], axesOf(attrs)[1]),
  permute: ([x], attrs) => x!.permute(...axesOf(attrs)),
  reshape: ([x], attrs) => x!.reshape(...(attrs['shape'] as number[])),
  broadcast_to: ([x], attrs) => x!.expand(...(attrs['shape'] as number[])),
  flip: ([x], attrs) => x!.flip(axesOf(attrs)),
  slice: ([x], attrs) => {
    const [starts, ends, steps] = [attrs['starts'], attrs['ends'], attrs['steps']] as [number[], number[], number[]]
    return x!.slice(...starts.map((start, axis) => [start, ends[axis]!, steps[axis]!] as const))
  },
  concat: (all, attrs) => Tensor.concat(all, axisOf(attrs)),
  stack: (all, attrs) => Tensor.stack(all, axisOf(attrs)),
  pad: ([x], attrs) => x!.pad(pairs(attrs['pads']), { value: attrs['value'] as number }),
  gather: ([x, ids], attrs) => x!.gatherElements(ids!, axisOf(attrs)),
  index_select: ([x, ids], attrs) => x!.gather(ids!, axisOf(attrs)),
  embedding: ([table, ids]) => table!.gather(ids!, 0),
  scatter_add: ([x, ids, src], attrs) => x!.scatterAdd(ids!, src!, axisOf(attrs)),
  layer_norm: ([x, w, b], attrs) => {
    const axes = (attrs['normalized_shape'] as number[]).length
    if (w !== undefined || axes === 1) return x!.layerNorm(w, b, attrs['eps'] as number)
    return x!
      .flatten(-axes)
      .layerNorm(undefined, undefined, attrs['eps'] as number)
      .reshape(...x!.shape)
  },
  rms_norm: ([x, w], attrs) => x!.rmsNorm(w, attrs['eps'] as number),
  group_norm: ([x, w, b], attrs) => x!.groupNorm(attrs['groups'] as number, w, b, attrs['eps'] as number),
  l2_normalize: ([x], attrs) => x!.l2Normalize(axisOf(attrs), attrs['eps'] as number),
  conv1d: ([x, w, b], attrs) => x!.conv1d(w!, convOptions(attrs, b)),
  conv2d: ([x, w, b], attrs) => x!.conv2d(w!, convOptions(attrs, b)),
  max_pool2d: ([x], attrs) => x!.maxPool2d(attrs['kernel'] as number[], poolOptions(attrs)),
  avg_pool2d: ([x], attrs) =>
    x!.averagePool2d(attrs['kernel'] as number[], { ...poolOptions(attrs), includePad: attrs['count_include_pad'] === true }),
  cross_entropy: ([x, target], attrs) =>
    x!.crossEntropy(target!, {
      ignoreIndex: attrs['ignore_index'] as number,
      labelSmoothing: attrs['label_smoothing'] as number,
      reduction: attrs['reduction'] as 'mean',
    }),
  mse: ([x, y], attrs) => x!.mse(y!, attrs['reduction'] as 'mean'),
  kl_div: ([x, y], attrs) => x!.klDiv(y!, { reduction: attrs['reduction'] as 'mean', logTarget: attrs['log_target'] === true }),
  sdpa: ([q, k, v, mask], attrs) =>
    q!.scaledDotProductAttention(k!, v!, { causal: attrs['causal'] === true, scale: attrs['scale'] as number, ...(mask && { mask }) }),
  rope,
  silu_mul: two((gate, up) => gate.silu().mul(up)),
  lora: ([x, w, a, b], attrs) => x!.lora(w!, a!, b!, attrs['scale'] as number),
}

const convOptions = (attrs: Attrs, bias: Tensor | undefined) => ({
  stride: attrs['stride'] as number[],
  padding: attrs['padding'] as number[],
  dilation: attrs['dilation'] as number[],
  groups: attrs['groups'] as number,
  ...(bias && { bias }),
})
const poolOptions = (attrs: Attrs) => ({ stride: attrs['stride'] as number[], padding: attrs['padding'] as number[] })
