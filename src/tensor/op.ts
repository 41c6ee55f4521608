// Every tensor operation, one record each: the shape it gives, and the kernel work that computes it. The records of fused
// operations have a definition in terms of simpler ones in definition.ts. Adding an operation: a record here, a method in tensor.ts.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { attention } from '../kernel/attention.ts'
import { advance, cacheWrite } from '../kernel/cache.ts'
import { gather } from '../kernel/gather.ts'
import { iota } from '../kernel/iota.ts'
import { linear } from '../kernel/linear.ts'
import { type MapExpr, map } from '../kernel/map.ts'
import { norm } from '../kernel/norm.ts'
import { packedLinear } from '../kernel/packed-linear.ts'
import { type Quantize8Source, quantize8, quantize8Inputs, quantizedWords } from '../kernel/quantize8.ts'
import type { Work } from '../kernel/record.ts'
import { type ReduceKind, reduce } from '../kernel/reduce.ts'
import { type RopeStyle, rope } from '../kernel/rope.ts'
import { argmax, topk } from '../kernel/select.ts'
import { softmax } from '../kernel/softmax.ts'
import type { Scaled } from '../quant/packed.ts'
import type { GgmlType } from '../quant/type.ts'
import { type ElementType, type TensorNode, leafOf, sizeOf } from './node.ts'

export interface Inferred {
  readonly shape: readonly number[]
  readonly type: ElementType
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

function fail(op: string, what: string, got: unknown, wanted?: unknown, hint?: string): never {
  throw new IngotError('bad-argument', what, {
    op,
    got,
    ...(wanted === undefined ? {} : { wanted }),
    ...(hint === undefined ? {} : { hint }),
  })
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
  readonly source?: Quantize8Source
}
export interface PackedAttrs {
  readonly bias: boolean
  readonly shape: readonly number[]
  readonly residual?: boolean
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
      if (sizeOf(x!.shape) !== sizeOf(shape)) fail('reshape', 'sizes differ', x!.shape, shape)
      return { shape, type: x!.type }
    },
    lower: () => ({ launches: [] }),
    bind: () => ({}),
    inPlace: 0,
  }),

  /** 0, 1, 2... */
  iota: record<{ count: number }>({
    infer: (_src, { count }) => ({ shape: [count], type: 'u32' }),
    lower: (_out, _src, { count }, caps) => iota.work(caps, { count }),
    bind: (out) => ({ y: out }),
  }),

  map: record<MapAttrs>({
    infer: (src, { type }) => ({
      shape: broadcast(
        'map',
        src.map((node) => node.shape),
      ),
      type,
    }),
    lower: (out, src, { expr, type }, caps) =>
      map.work(caps, {
        expr,
        type,
        shape: out.shape,
        inputs: src.map((node) => ({ type: node.type, strides: stridesFor(node.shape, out.shape) })),
      }),
    bind: (out, src) => ({ ...Object.fromEntries(src.map((node, i) => [`in${i}`, node])), y: out }),
  }),

  reduce: record<ReduceAttrs>({
    infer: ([x], { kind, axes, keep }) => {
      const shape = keep
        ? x!.shape.map((size, axis) => (axes.includes(axis) ? 1 : size))
        : x!.shape.filter((_, axis) => !axes.includes(axis))
      return { shape, type: kind === 'argmax' || kind === 'argmin' ? 'u32' : 'f32' }
    },
    lower: (_out, src, { kind, axes }, caps) => reduce.work(caps, { kind, axes, shape: get(src, 0).shape }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  norm: record<NormAttrs>({
    infer: ([x]) => ({ shape: x!.shape, type: 'f32' }),
    lower: (out, _src, attrs, caps) => norm.work(caps, { ...attrs, rows: rowsOf(out.shape), cols: last(out.shape) }),
    bind: (out, src, { weight, bias }) => ({ ...names(src, 'x', ...(weight ? ['weight'] : []), ...(bias ? ['bias'] : [])), y: out }),
  }),

  softmax: record<object>({
    infer: ([x]) => ({ shape: x!.shape, type: 'f32' }),
    lower: (out, _src, _attrs, caps) => softmax.work(caps, { rows: rowsOf(out.shape), cols: last(out.shape) }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** x [n, k] times a weight [m, k] of any format, plus an optional bias [m] */
  linear: record<{ bias: boolean }>({
    infer: ([x, w]) => {
      if (last(x!.shape) !== last(w!.shape))
        fail('linear', 'inner sizes differ', `${show(x!)} x ${show(w!)}`, undefined, 'the weight is [out, in]')
      return { shape: [...x!.shape.slice(0, -1), w!.shape[0] ?? 1], type: 'f32' }
    },
    lower: (_out, src, { bias }, caps) => {
      const [x, w] = [get(src, 0), get(src, 1)]
      return linear(caps, { format: formatOf(w), m: w.shape[0] ?? 1, k: last(x.shape), n: rowsOf(x.shape), bias })
    },
    bind: (out, src) => ({ ...names(src, 'x', 'w', 'bias'), y: out }),
  }),

  /** x [n, k] as int8 for packed weights; or its norm, or an expression of several tensors (fuse.ts) */
  quantize8: record<Quantize8Attrs>({
    infer: ([x], { k, scaled }) => ({ shape: [quantizedWords(sizeOf(x!.shape) / k, k, scaled)], type: 'u32' }),
    lower: (_out, src, { k, scaled, source }, caps) =>
      quantize8.work(caps, { n: sizeOf(get(src, 0).shape) / k, k, scaled, ...(source === undefined ? {} : { source }) }),
    bind: (out, src, { source }) => ({ ...names(src, ...quantize8Inputs(source)), y: out }),
  }),

  /** what quantize8 made of a tensor of `shape`, times a packed weight [m, k], plus an optional bias [m] and residual [n, m] */
  packedLinear: record<PackedAttrs>({
    infer: ([, w], { shape }) => ({ shape: [...shape.slice(0, -1), w!.shape[0] ?? 1], type: 'f32' }),
    lower: (_out, src, { shape, bias, residual = false }, caps) => {
      const w = get(src, 1)
      return packedLinear(caps, { format: formatOf(w), m: w.shape[0] ?? 1, k: last(shape), n: rowsOf(shape), bias, residual })
    },
    // One buffer under several element types: words of quants, bytes and halves of scales.
    bind: (out, [x, w, ...rest], { bias, residual = false }) => ({
      x: x!,
      floats: x!,
      w: w!,
      bytes: w!,
      halves: w!,
      ...names(rest, ...(bias ? ['bias'] : []), ...(residual ? ['residual'] : [])),
      y: out,
    }),
  }),

  /** rows of a table [rows, cols] of any format, chosen by u32 ids */
  gather: record<object>({
    infer: ([table, ids]) => ({ shape: [...ids!.shape, last(table!.shape)], type: 'f32' }),
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
    infer: ([x]) => ({ shape: x!.shape, type: 'f32' }),
    lower: (out, _src, attrs, caps) => rope.work(caps, { ...attrs, rows: rowsOf(out.shape), headDim: last(out.shape) / attrs.heads }),
    bind: (out, src) => ({ ...names(src, 'x', 'positions', 'freqs'), y: out }),
  }),

  /** cache [heads, capacity, dim] with x [n, heads * dim] written at positions [n] */
  cacheWrite: record<CacheAttrs>({
    infer: ([cache]) => ({ shape: cache!.shape, type: cache!.type }),
    lower: (_out, src, { heads }, caps) => {
      const [cache, x] = [get(src, 0), get(src, 1)]
      return cacheWrite.work(caps, {
        type: cache.type as 'f32' | 'f16',
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
    infer: ([q, , v], { heads }) => ({ shape: [...q!.shape.slice(0, -1), heads * last(v!.shape)], type: 'f32' }),
    lower: (_out, src, attrs, caps) => {
      const [q, keys] = [get(src, 0), get(src, 1)]
      return attention.work(caps, {
        ...attrs,
        type: keys.type as 'f32' | 'f16',
        rows: rowsOf(q.shape),
        kvHeads: keys.shape[0] ?? 1,
        headDim: last(keys.shape),
        capacity: keys.shape[1] ?? 0,
      })
    },
    bind: (out, src) => ({ ...names(src, 'q', 'keys', 'values', 'positions'), y: out }),
  }),

  argmax: record<object>({
    infer: ([x]) => ({ shape: x!.shape.slice(0, -1), type: 'u32' }),
    lower: (_out, src, _attrs, caps) => argmax.work(caps, { rows: rowsOf(get(src, 0).shape), cols: last(get(src, 0).shape) }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** the k largest of a row: k ids, then the bits of their k values, largest first */
  topk: record<{ k: number }>({
    infer: (_src, { k }) => ({ shape: [2 * k], type: 'u32' }),
    lower: (_out, src, { k }, caps) => topk.work(caps, { cols: last(get(src, 0).shape), k }),
    bind: (out, src) => ({ ...names(src, 'x'), y: out }),
  }),

  /** adds to every element of a u32 tensor in place */
  advance: record<{ by: number }>({
    infer: ([x]) => ({ shape: x!.shape, type: 'u32' }),
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
  return op as unknown as TensorOp<object>
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

export function show(node: TensorNode): string {
  return `${node.label ?? node.op}[${node.shape.join(',')}]`
}
