// Every tensor operation, one record each: the shape it gives, and the kernel work that computes it. The records of fused
// operations have a definition in terms of simpler ones in definition.ts. Adding an operation: a record here, a method in tensor.ts.
//
// Invariant: `infer` refuses operands that do not fit each other in shape or type (operand.ts). Kernels rely on it: they see no ends.

/* oxlint-disable typescript/no-non-null-assertion -- an operation is given as many operands as its method in tensor.ts passes */

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { attention } from '../kernel/attention/attention.ts'
import { CACHE_TYPES, type CacheType } from '../kernel/attention/cache-type.ts'
import { advance, cacheWrite } from '../kernel/attention/cache.ts'
import { gather } from '../kernel/move/gather.ts'
import { iota } from '../kernel/move/iota.ts'
import { linear } from '../kernel/linear/linear.ts'
import { checkMap } from '../kernel/map/expr.ts'
import { type MapExpr, type MapInput, map } from '../kernel/map/map.ts'
import { norm } from '../kernel/reduce/norm.ts'
import { type Added, packedLinear } from '../kernel/linear/packed-linear.ts'
import { quantizedWords, tileColumns } from '../kernel/linear/activations.ts'
import { type Quantize8Source, quantize8, quantize8Inputs } from '../kernel/linear/quantize8.ts'
import type { Work } from '../kernel/family.ts'
import { type ReduceKind, reduce } from '../kernel/reduce/reduce.ts'
import { type RopeStyle, rope } from '../kernel/attention/rope.ts'
import { argmax } from '../kernel/select/argmax.ts'
import { DRAW_RULE, draw } from '../kernel/select/draw.ts'
import { MOST_CHOSEN, topk } from '../kernel/select/topk.ts'
import { softmax } from '../kernel/reduce/softmax.ts'
import { formatOf as quantFormat } from '../quant/index.ts'
import type { Scaled } from '../quant/packed/packed.ts'
import type { GgmlType } from '../quant/type.ts'
import { ELEMENT_TYPES, type ElementType, type StoredType, type TensorNode, leafOf, sizeOf } from './node.ts'
import { checkAxes, checkCount, checkFinite, checkMatrix, checkShape, checkSize, checkType, checkWhole, fail, show } from './operand.ts'

export { show }

export interface Inferred {
  readonly shape: readonly number[]
  readonly type: StoredType
}

/** Which tensor each buffer of the kernels is, by the name of the kernel's parameter. */
export type Bindings = Readonly<Record<string, TensorNode>>

export interface TensorOp<A extends object> {
  infer(src: readonly TensorNode[], attrs: A): Inferred
  /** The kernels that compute it. Depends on shapes, types and formats only, so equal operations share it. */
  lower(out: TensorNode, src: readonly TensorNode[], attrs: A, caps: Caps): Work
  bind(out: TensorNode, src: readonly TensorNode[], attrs: A): Bindings
  /** the operand whose memory the result takes over: the operation changes it in place */
  readonly inPlace?: number
}

function record<A extends object>(op: TensorOp<A>): TensorOp<A> {
  return op
}

function get(src: readonly TensorNode[], index: number): TensorNode {
  const node = src[index]
  if (node === undefined) throw new IngotError('bad-argument', `operand ${index} is missing`)
  return node
}

/** The format of a weight, or of a computed tensor used as one. */
function formatOf(node: TensorNode): GgmlType {
  return leafOf(node)?.format ?? (node.type === 'f16' ? 'f16' : 'f32')
}

const last = (shape: readonly number[]): number => shape.at(-1) ?? 1
const rowsOf = (shape: readonly number[]): number => sizeOf(shape) / last(shape)
const names = (src: readonly TensorNode[], ...keys: string[]): Record<string, TensorNode> =>
  Object.fromEntries(keys.flatMap((key, i) => (src[i] === undefined ? [] : [[key, src[i]] as const])))

/** Operands of a map with this result; `infer` has seen their types. */
const mapInputs = (src: readonly TensorNode[], shape: readonly number[]): MapInput[] =>
  src.map((node) => ({ type: node.type as ElementType, strides: stridesFor(node.shape, shape) }))

export interface MapAttrs {
  readonly expr: MapExpr
  readonly type: ElementType
}
export interface NormAttrs {
  readonly kind: 'rms' | 'layer'
  readonly eps: number
  readonly weight: boolean
  readonly bias: boolean
}
export interface Quantize8Attrs {
  readonly k: number
  readonly scaled: Scaled
  readonly source: Quantize8Source
}
export interface PackedAttrs {
  /** of what was quantised */
  readonly shape: readonly number[]
  readonly added: Added
}
export interface ReduceAttrs {
  readonly kind: ReduceKind
  readonly axes: readonly number[]
  readonly keep: boolean
}
export interface RopeAttrs {
  readonly style: RopeStyle
  readonly heads: number
  readonly dims: number
  readonly magnitude: number
}
export interface CacheAttrs {
  readonly heads: number
}
export interface AttentionAttrs {
  readonly heads: number
  readonly scale: number
  readonly window: number
  readonly softcap: number
}

export const TENSOR_OPS = {
  /** a shape over the same bytes */
  reshape: record<{ shape: readonly number[] }>({
    infer: ([x], { shape }) => {
      checkShape('reshape', shape)
      checkType('reshape', 'x', x!, ...ELEMENT_TYPES)
      if (sizeOf(x!.shape) !== sizeOf(shape)) fail('reshape', 'sizes differ', x!.shape, shape)
      return { shape, type: x!.type }
    },
    lower: () => ({ launches: [] }),
    bind: () => ({}),
    inPlace: 0,
  }),

  /** 0, 1, 2... */
  iota: record<{ count: number }>({
    infer: (_src, { count }) => {
      checkWhole('iota', 'the count', count, 1)
      return { shape: [count], type: 'u32' }
    },
    lower: (_out, _src, { count }, caps) => iota.work(caps, { count }),
    bind: (out) => ({ y: out }),
  }),

  map: record<MapAttrs>({
    infer: (src, { expr, type }) => {
      src.forEach((node, i) => checkType('map', `operand ${i}`, node, ...ELEMENT_TYPES))
      const shapes = src.map((node) => node.shape)
      const shape = broadcast('map', shapes)
      checkMap({ expr, type, shape, inputs: mapInputs(src, shape) })
      return { shape, type }
    },
    lower: (out, src, { expr, type }, caps) =>
      map.work(caps, {
        expr,
        type,
        shape: out.shape,
        inputs: mapInputs(src, out.shape),
      }),
    bind: (out, src) => ({ ...Object.fromEntries(src.map((node, i) => [`in${i}`, node])), y: out }),
  }),

  reduce: record<ReduceAttrs>({
    infer: ([x], { kind, axes, keep }) => {
      checkType('reduce', 'x', x!, 'f32')
      for (const axis of axes) checkWhole('reduce', 'an axis', axis, 0, x!.shape.length - 1)
      const shape = keep
        ? x!.shape.map((size, axis) => (axes.includes(axis) ? 1 : size))
        : x!.shape.filter((_, axis) => !axes.includes(axis))
      return { shape, type: kind === 'argmax' || kind === 'argmin' ? 'u32' : 'f32' }
    },
    lower: (_out, src, { kind, axes }, caps) => reduce.work(caps, { kind, axes, shape: get(src, 0).shape }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  norm: record<NormAttrs>({
    infer: (src, { eps, weight, bias }) => {
      checkCount('norm', src, 1 + Number(weight) + Number(bias))
      const [x, ...scales] = src
      checkType('norm', 'x', x!, 'f32')
      for (const scale of scales) {
        checkType('norm', 'a weight', scale, 'f32')
        checkAxes('norm', 'a weight', scale, [last(x!.shape)])
      }
      checkFinite('norm', 'eps', eps, 0)
      return { shape: x!.shape, type: 'f32' }
    },
    lower: (out, _src, attrs, caps) => norm.work(caps, { ...attrs, rows: rowsOf(out.shape), cols: last(out.shape) }),
    bind: (out, src, { weight, bias }) => ({ ...names(src, 'x', ...(weight ? ['weight'] : []), ...(bias ? ['bias'] : [])), y: out }),
  }),

  softmax: record<object>({
    infer: ([x]) => {
      checkType('softmax', 'x', x!, 'f32')
      return { shape: x!.shape, type: 'f32' }
    },
    lower: (out, _src, _attrs, caps) => softmax.work(caps, { rows: rowsOf(out.shape), cols: last(out.shape) }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** x [n, k] times a weight [m, k] of any format, plus an optional bias [m] */
  linear: record<{ bias: boolean }>({
    infer: (src, { bias }) => {
      checkCount('linear', src, bias ? 3 : 2)
      const [x, w, b] = src
      checkType('linear', 'x', x!, 'f32')
      checkMatrix('linear', 'the weight', w!)
      if (last(x!.shape) !== last(w!.shape))
        fail('linear', 'inner sizes differ', `${show(x!)} x ${show(w!)}`, undefined, 'the weight is [out, in]')
      if (b !== undefined) checkBias('linear', b, w!)
      return { shape: [...x!.shape.slice(0, -1), w!.shape[0] ?? 1], type: 'f32' }
    },
    lower: (_out, src, { bias }, caps) => {
      const [x, w] = [get(src, 0), get(src, 1)]
      return linear.work(caps, { format: formatOf(w), m: w.shape[0] ?? 1, k: last(x.shape), n: rowsOf(x.shape), bias })
    },
    bind: (out, src) => ({ ...names(src, 'x', 'w', 'bias'), y: out }),
  }),

  /** x [n, k] as int8 for packed weights; or its norm, or an expression of several tensors (fuse.ts) */
  quantize8: record<Quantize8Attrs>({
    infer: ([x], { k, scaled }) => {
      checkType('quantize8', 'x', x!, 'f32')
      if (last(x!.shape) !== k || k % scaled !== 0)
        fail('quantize8', 'rows do not hold whole blocks', show(x!), `rows of ${k}, a multiple of ${scaled}`)
      return { shape: [quantizedWords(sizeOf(x!.shape) / k, k, scaled)], type: 'u32' }
    },
    lower: (_out, src, { k, scaled, source }, caps) => {
      const n = sizeOf(get(src, 0).shape) / k
      return quantize8.work(caps, { n, k, scaled, columns: tileColumns(caps, n), source })
    },
    bind: (out, src, { source }) => ({ ...names(src, ...quantize8Inputs(source)), y: out }),
  }),

  /** what quantize8 made of a tensor of `shape`, times a packed weight [m, k], plus an optional bias [m] and residual [n, m] */
  packedLinear: record<PackedAttrs>({
    infer: ([x, w, added], { shape, added: kind }) => {
      const packed = leafOf(w!)?.layout === 'packed' ? quantFormat(formatOf(w!)).packed : undefined
      if (packed === undefined) fail('packedLinear', 'the weight is not packed', show(w!))
      checkType('packedLinear', 'x', x!, 'u32')
      checkSize('packedLinear', 'x', x!, quantizedWords(rowsOf(shape), last(shape), packed.scaled))
      checkAxes('packedLinear', 'the weight', w!, [undefined, last(shape)])
      if (kind === 'bias') checkBias('packedLinear', added!, w!)
      return { shape: [...shape.slice(0, -1), w!.shape[0] ?? 1], type: 'f32' }
    },
    lower: (_out, src, { shape, added }, caps) => {
      const [w, n] = [get(src, 1), rowsOf(shape)]
      return packedLinear.work(caps, { format: formatOf(w), m: w.shape[0] ?? 1, k: last(shape), n, columns: tileColumns(caps, n), added })
    },
    bind: (out, src, { added }) => ({ ...names(src, 'x', 'w', added), y: out }),
  }),

  /** rows of a table [rows, cols] of any format, chosen by u32 ids */
  gather: record<object>({
    infer: ([table, ids]) => {
      checkMatrix('gather', 'the table', table!)
      checkType('gather', 'ids', ids!, 'u32')
      return { shape: [...ids!.shape, last(table!.shape)], type: 'f32' }
    },
    lower: (_out, src, _attrs, caps) => {
      const [table, ids] = [get(src, 0), get(src, 1)]
      return gather.work(caps, {
        format: formatOf(table),
        rows: sizeOf(ids.shape),
        cols: last(table.shape),
        tableRows: rowsOf(table.shape),
      })
    },
    bind: (out, src) => ({ ...names(src, 'table', 'ids'), y: out }),
  }),

  /** x [n, heads * dim], positions [n], frequencies [dims / 2] */
  rope: record<RopeAttrs>({
    infer: ([x, positions, freqs], { heads, dims, magnitude }) => {
      checkType('rope', 'x', x!, 'f32')
      const dim = headSize('rope', x!, heads)
      checkWhole('rope', 'the number of dimensions', dims, 2, dim)
      if (dims % 2 !== 0) fail('rope', 'dimensions come in pairs', dims, 'an even number')
      checkType('rope', 'positions', positions!, 'u32')
      checkSize('rope', 'positions', positions!, rowsOf(x!.shape))
      checkType('rope', 'frequencies', freqs!, 'f32')
      checkSize('rope', 'frequencies', freqs!, dims / 2)
      checkFinite('rope', 'the magnitude', magnitude)
      return { shape: x!.shape, type: 'f32' }
    },
    lower: (out, _src, attrs, caps) => rope.work(caps, { ...attrs, rows: rowsOf(out.shape), headDim: last(out.shape) / attrs.heads }),
    bind: (out, src) => ({ ...names(src, 'x', 'positions', 'freqs'), y: out }),
  }),

  /** cache [heads, capacity, dim] with x [n, heads * dim] written at positions [n] */
  cacheWrite: record<CacheAttrs>({
    infer: ([cache, x, positions], { heads }) => {
      checkType('cacheWrite', 'x', x!, 'f32')
      checkType('cacheWrite', 'the cache', cache!, ...CACHE_TYPES)
      checkAxes('cacheWrite', 'the cache', cache!, [heads, undefined, headSize('cacheWrite', x!, heads)])
      checkType('cacheWrite', 'positions', positions!, 'u32')
      checkSize('cacheWrite', 'positions', positions!, rowsOf(x!.shape))
      return { shape: cache!.shape, type: cache!.type }
    },
    lower: (_out, src, { heads }, caps) => {
      const [cache, x] = [get(src, 0), get(src, 1)]
      return cacheWrite.work(caps, {
        type: cache.type as CacheType,
        rows: rowsOf(x.shape),
        heads,
        headDim: last(x.shape) / heads,
        capacity: cache.shape[1] ?? 0,
      })
    },
    bind: (_out, src) => names(src, 'cache', 'x', 'positions'),
    inPlace: 0,
  }),

  /** q [n, heads * dim], keys and values [kvHeads, capacity, dim], positions [n]: each row sees the keys up to its position */
  attention: record<AttentionAttrs>({
    infer: ([q, keys, values, positions], { heads, scale, window, softcap }) => {
      checkType('attention', 'q', q!, 'f32')
      checkType('attention', 'the keys', keys!, ...CACHE_TYPES)
      checkAxes('attention', 'the keys', keys!, [undefined, undefined, headSize('attention', q!, heads)])
      checkType('attention', 'the values', values!, keys!.type)
      checkAxes('attention', 'the values', values!, keys!.shape)
      const [kvHeads = 1] = keys!.shape
      if (heads % kvHeads !== 0) fail('attention', 'heads do not share keys evenly', heads, `a multiple of ${kvHeads}`)
      checkType('attention', 'positions', positions!, 'u32')
      checkSize('attention', 'positions', positions!, rowsOf(q!.shape))
      checkFinite('attention', 'the scale', scale)
      checkWhole('attention', 'the window', window, 0)
      checkFinite('attention', 'the softcap', softcap, 0)
      return { shape: q!.shape, type: 'f32' }
    },
    lower: (_out, src, attrs, caps) => {
      const [q, keys] = [get(src, 0), get(src, 1)]
      return attention.work(caps, {
        ...attrs,
        type: keys.type as CacheType,
        rows: rowsOf(q.shape),
        kvHeads: keys.shape[0] ?? 1,
        headDim: last(keys.shape),
        capacity: keys.shape[1] ?? 0,
      })
    },
    bind: (out, src) => ({ ...names(src, 'q', 'keys', 'values', 'positions'), y: out }),
  }),

  argmax: record<object>({
    infer: ([x]) => {
      checkType('argmax', 'x', x!, 'f32')
      return { shape: x!.shape.slice(0, -1), type: 'u32' }
    },
    lower: (_out, src, _attrs, caps) => argmax.work(caps, { rows: rowsOf(get(src, 0).shape), cols: last(get(src, 0).shape) }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** a token drawn from k candidates, ids before logits, for the row at the last of the positions */
  draw: record<object>({
    infer: ([x, rule, positions]) => {
      checkType('draw', 'the candidates', x!, 'u32')
      if (sizeOf(x!.shape) % 2 !== 0) fail('draw', 'candidates are ids and as many logits', show(x!))
      checkType('draw', 'the rule', rule!, 'u32')
      checkSize('draw', 'the rule', rule!, DRAW_RULE.words)
      checkType('draw', 'positions', positions!, 'u32')
      return { shape: [1], type: 'u32' }
    },
    lower: (_out, src, _attrs, caps) => draw.work(caps, { k: sizeOf(get(src, 0).shape) / 2, rows: sizeOf(get(src, 2).shape) }),
    bind: (out, src) => ({ ...names(src, 'x', 'rule', 'positions'), y: out }),
  }),

  /** the k largest of a row: k ids, then the bits of their k values, largest first */
  topk: record<{ k: number }>({
    infer: ([x], { k }) => {
      checkType('topk', 'x', x!, 'f32')
      checkSize('topk', 'x', x!, last(x!.shape))
      checkWhole('topk', 'k', k, 1, Math.min(last(x!.shape), MOST_CHOSEN))
      return { shape: [2 * k], type: 'u32' }
    },
    lower: (_out, src, { k }, caps) => topk.work(caps, { cols: last(get(src, 0).shape), k }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** adds to every element of a u32 tensor in place */
  advance: record<{ by: number }>({
    infer: ([x], { by }) => {
      checkType('advance', 'x', x!, 'u32')
      checkWhole('advance', 'the step', by, 0)
      return { shape: x!.shape, type: 'u32' }
    },
    lower: (_out, src, { by }, caps) => advance.work(caps, { count: sizeOf(get(src, 0).shape), by }),
    bind: (_out, src) => names(src, 'x'),
    inPlace: 0,
  }),
} as const

export type TensorOpName = keyof typeof TENSOR_OPS

export function tensorOp(name: string): TensorOp<object> {
  const op = (TENSOR_OPS as Readonly<Record<string, TensorOp<never>>>)[name]
  if (op === undefined)
    throw new IngotError('unknown-name', 'no such tensor operation', { got: name, wanted: Object.keys(TENSOR_OPS).join(', ') })
  return op
}

/** The common shape of operands whose axes are equal or 1, aligned at the last axis. */
export function broadcast(op: string, shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length))
  return Array.from({ length: rank }, (_, axis) => {
    const sizes = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1)
    const size = sizes.find((s) => s !== 1) ?? 1
    if (sizes.some((s) => s !== 1 && s !== size)) fail(op, 'shapes do not broadcast', shapes.map((s) => `[${s.join(',')}]`).join(' and '))
    return size
  })
}

/** Elements to step per axis of `out` to walk a contiguous tensor of `shape` that broadcasts to it; 0 where it repeats. */
export function stridesFor(shape: readonly number[], out: readonly number[]): number[] {
  const strides = Array.from({ length: out.length }, () => 0)
  let step = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis] ?? 1
    if (size !== 1) strides[axis + out.length - shape.length] = step
    step *= size
  }
  return strides
}

/** The size of a head of x [n, heads * dim]: heads share a row evenly, and elements are read in pairs. */
function headSize(op: string, x: TensorNode, heads: number): number {
  checkWhole(op, 'the number of heads', heads, 1)
  const dim = last(x.shape) / heads
  if (!Number.isInteger(dim) || dim % 2 !== 0) fail(op, 'rows do not hold whole heads', show(x), `${heads} heads of an even size`)
  return dim
}

/** A bias [m] of a weight [m, k]. */
function checkBias(op: string, bias: TensorNode, weight: TensorNode): void {
  checkType(op, 'the bias', bias, 'f32')
  checkAxes(op, 'the bias', bias, [weight.shape[0]])
}
