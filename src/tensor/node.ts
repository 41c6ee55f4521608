// The lazy graph as data: a node says which operation gives it, from which nodes. Nothing is computed until a plan is built. What an
// operation is told and how many operands it has are listed here; what it means is its record in op/.
//
// TypeScript knows the operands and attributes of a node once its operation is known: `if (node.op === 'map') node.attrs.expr`.
// Shapes are row-major, the last axis contiguous.

import { ELEMENT_BYTES, type ElementType, isElementType } from '../base/element.ts'
import { type CacheType, cacheBytes } from '../kernel/attention/cache-type.ts'
import type { RopeStyle } from '../kernel/attention/rope.ts'
import type { Added } from '../kernel/linear/packed-linear.ts'
import type { Quantize8Source } from '../kernel/linear/quantize8.ts'
import type { MapExpr, MapInput } from '../kernel/map/map.ts'
import type { ReduceKind } from '../kernel/reduce/reduce.ts'
import type { Scaled } from '../quant/packed/packed.ts'
import { type GgmlType, tensorBytes } from '../quant/type.ts'
import type { Layout, Storage } from './storage.ts'

export type { ElementType }
/** Elements, or the blocks of a weight format; those are leaves only. */
export type TensorType = ElementType | GgmlType

export interface LeafAttrs {
  readonly storage: Storage
  readonly layout: Layout
}
export interface MapAttrs {
  readonly expr: MapExpr
  readonly type: ElementType
  /** what the expression reads, where that is not its operands, broadcast: views of their memory, and counted numbers (rewrite/view.ts) */
  readonly inputs?: readonly MapInput[]
  /** the input whose memory the result takes: it has the shape and type of the result (schedule.ts) */
  readonly inPlace?: number
}
export interface SliceAttrs {
  readonly starts: readonly number[]
  readonly sizes: readonly number[]
  /** below 0: backwards */
  readonly steps: readonly number[]
}
export interface PlaceAttrs {
  readonly shape: readonly number[]
  readonly starts: readonly number[]
  /** from 1 on */
  readonly steps: readonly number[]
  readonly value: number
}
export interface ScanAttrs {
  readonly kind: 'sum' | 'prod'
  readonly axis: number
  /** without the element itself */
  readonly exclusive: boolean
  /** from the end */
  readonly reversed: boolean
}
/** Windows that slide over the last axes, with an entry in each list for every one of them. */
export interface WindowAttrs {
  readonly kernel: readonly number[]
  readonly strides: readonly number[]
  readonly dilations: readonly number[]
  readonly padding: readonly (readonly [before: number, after: number])[]
  /** how many windows there are */
  readonly out: readonly number[]
}
export interface RandomAttrs {
  readonly kind: 'bits' | 'uniform' | 'normal'
  readonly shape: readonly number[]
  /** two words; what an operand says instead */
  readonly key: readonly [number, number]
}
export interface ReduceAttrs {
  readonly kind: ReduceKind
  readonly axes: readonly number[]
  readonly keep: boolean
  /** an expression of the operands that is reduced instead of the first one, and its shape and type (rewrite/reduce.ts) */
  readonly source?: { readonly expr: MapExpr; readonly shape: readonly number[]; readonly type: ElementType }
  /** what that reads, as for a map */
  readonly inputs?: readonly MapInput[]
}
export interface NormAttrs {
  readonly kind: 'rms' | 'layer'
  readonly eps: number
  readonly weight: boolean
  readonly bias: boolean
}
export interface RopeAttrs {
  readonly style: RopeStyle
  readonly heads: number
  readonly dims: number
  readonly magnitude: number
}
export interface AttentionAttrs {
  readonly heads: number
  readonly scale: number
  /** a row sees only this many of the latest positions; 0: all */
  readonly window: number
  /** scores become cap * tanh(score / cap); 0: none */
  readonly softcap: number
  /** each row has a sequence of its own, so that rows share no keys; says how to compute, not what */
  readonly apart: boolean
}
export interface LoraAttrs {
  readonly scale: number
  /** another tensor like x is what the change sees of it: dropout */
  readonly seen: boolean
  readonly bias: boolean
}
export interface Quantize8Attrs {
  readonly k: number
  readonly scaled: Scaled
  readonly source: Quantize8Source
}
export interface PackedLinearAttrs {
  /** of what was quantised */
  readonly shape: readonly number[]
  readonly added: Added
  /** u [n, r] times v [r, m] are added, too */
  readonly joined: boolean
}
type Nothing = Readonly<Record<string, never>>

/** Operands and attributes of every operation; its record says what it is about. */
export interface Operations {
  leaf: { operands: []; attrs: LeafAttrs }
  reshape: { operands: [x: TensorNode]; attrs: { readonly shape: readonly number[] } }
  permute: { operands: [x: TensorNode]; attrs: { readonly axes: readonly number[] } }
  expand: { operands: [x: TensorNode]; attrs: { readonly shape: readonly number[] } }
  slice: { operands: [x: TensorNode]; attrs: SliceAttrs }
  place: { operands: [x: TensorNode]; attrs: PlaceAttrs }
  concat: { operands: TensorNode[]; attrs: { readonly axis: number } }
  iota: { operands: []; attrs: { readonly shape: readonly number[]; readonly axis: number } }
  map: { operands: TensorNode[]; attrs: MapAttrs }
  reduce: { operands: [x: TensorNode, ...more: TensorNode[]]; attrs: ReduceAttrs }
  scan: { operands: [x: TensorNode]; attrs: ScanAttrs }
  matmul: { operands: [a: TensorNode, b: TensorNode]; attrs: { readonly transposeA: boolean; readonly transposeB: boolean } }
  gather: { operands: [x: TensorNode, ids: TensorNode]; attrs: { readonly axis: number } }
  gatherElements: { operands: [x: TensorNode, ids: TensorNode]; attrs: { readonly axis: number } }
  scatter: {
    operands: [x: TensorNode, ids: TensorNode, values: TensorNode]
    attrs: { readonly axis: number; readonly kind: 'set' | 'add'; readonly ids: 'rows' | 'along' }
  }
  argsort: { operands: [x: TensorNode]; attrs: { readonly descending: boolean } }
  unfold: { operands: [x: TensorNode]; attrs: WindowAttrs & { readonly value: number } }
  fold: { operands: [x: TensorNode]; attrs: WindowAttrs & { readonly in: readonly number[] } }
  convolve: { operands: [x: TensorNode, weights: TensorNode, ...bias: TensorNode[]]; attrs: WindowAttrs & { readonly groups: number } }
  pool: {
    operands: [x: TensorNode]
    attrs: WindowAttrs & { readonly kind: 'max' | 'average' | 'l2' | 'argmax'; readonly includePad: boolean }
  }
  random: { operands: TensorNode[]; attrs: RandomAttrs }
  norm: { operands: [x: TensorNode, ...scales: TensorNode[]]; attrs: NormAttrs }
  softmax: { operands: [x: TensorNode]; attrs: { readonly log: boolean } }
  linear: { operands: [x: TensorNode, weight: TensorNode, ...bias: TensorNode[]]; attrs: Nothing }
  lora: {
    operands: [x: TensorNode, weight: TensorNode, a: TensorNode, b: TensorNode, ...seenAndBias: TensorNode[]]
    attrs: LoraAttrs
  }
  linearTransposed: { operands: [x: TensorNode, weight: TensorNode]; attrs: Nothing }
  dequantize: { operands: [weight: TensorNode]; attrs: Nothing }
  embedding: { operands: [table: TensorNode, ids: TensorNode]; attrs: Nothing }
  rope: { operands: [x: TensorNode, positions: TensorNode, freqs: TensorNode]; attrs: RopeAttrs }
  cacheWrite: {
    operands: [cache: TensorNode, x: TensorNode, positions: TensorNode, slots: TensorNode, table: TensorNode]
    attrs: { readonly heads: number }
  }
  attention: {
    operands: [q: TensorNode, keys: TensorNode, values: TensorNode, positions: TensorNode, slots: TensorNode, table: TensorNode]
    attrs: AttentionAttrs
  }
  topk: { operands: [x: TensorNode]; attrs: { readonly k: number } }
  draw: { operands: [candidates: TensorNode, rule: TensorNode, positions: TensorNode]; attrs: Nothing }
  stopGradient: { operands: [x: TensorNode]; attrs: Nothing }
  checkpoint: { operands: [result: TensorNode, ...inputs: TensorNode[]]; attrs: Nothing }
  assign: { operands: [target: TensorNode, value: TensorNode]; attrs: Nothing }

  // made by rewrites only
  copy: { operands: [x: TensorNode]; attrs: Nothing }
  quantize8: { operands: TensorNode[]; attrs: Quantize8Attrs }
  joinedLinear: {
    operands: [x: TensorNode, weight: TensorNode, u: TensorNode, v: TensorNode, ...bias: TensorNode[]]
    attrs: { readonly transposed: boolean }
  }
  packedLinear: { operands: [x: TensorNode, weight: TensorNode, ...addedAndJoined: TensorNode[]]; attrs: PackedLinearAttrs }
}

export type OpName = keyof Operations
export type OperandsOf<O extends OpName> = Readonly<Operations[O]['operands']>
export type AttrsOf<O extends OpName> = Operations[O]['attrs']

/** What a node knows of somebody who holds it, and may ask for its value. */
export interface Handle {
  /** false once it was disposed of, or cannot be reached any more */
  readonly isWanted: boolean
}

/** What a node gives. */
export interface Typed {
  readonly shape: readonly number[]
  readonly dtype: TensorType
}

/** What nodes have in common that are alike (kind.ts). */
export interface Kind extends Typed {
  readonly number: number
  readonly op: OpName
  /** of all but leaves, which are told their memory */
  readonly attrs?: object
  /** of leaves */
  readonly layout?: string
  /** the same for all that operations may take for each other: equal in shape, type, and whether they are memory */
  readonly type: number
  /** of what has been computed: the leaf that it becomes */
  leaf?: Kind
}

/** A node of operation `O`, where `O` may be a type parameter. */
export interface NodeOf<O extends OpName> extends Typed {
  readonly op: O
  readonly src: OperandsOf<O>
  readonly attrs: AttrsOf<O>
  /** for people: shown by `ingot compare` and in errors; decides nothing */
  label?: string
  /** who may ask for this value again (tensor.ts); a node that takes the place of another with the same value has its handle */
  handle?: Handle
  /** nodes made by methods are numbered in order */
  readonly serial?: number
  /** what it was made as (kind.ts); ask `kindOf`, since nodes may have been changed */
  kind?: Kind
}
export type TensorNode = { [O in OpName]: NodeOf<O> }[OpName]

/**
 * Makes a computed node a leaf, for everybody who has it: the one change that a node ever sees. What it was computed from can go, once
 * nobody may take it back.
 */
export function becomeLeaf(node: TensorNode, storage: Storage): () => void {
  const { op, src, attrs } = node
  const open: { op: OpName; src: readonly TensorNode[]; attrs: object } = node
  open.op = 'leaf'
  open.src = NO_NODES
  open.attrs = { storage, layout: 'plain' } satisfies LeafAttrs
  return () => void Object.assign(open, { op, src, attrs })
}
const NO_NODES: readonly TensorNode[] = []

/** A node with the value of another: it has its name and its handle. */
export function inPlaceOf({ label, handle }: TensorNode, node: TensorNode): TensorNode {
  return { ...anonymous(node), ...(label !== undefined && { label }), ...(handle && { handle }) }
}

/** The same node, of which nobody knows. */
export function anonymous(node: TensorNode): TensorNode {
  const copy = { ...node }
  delete copy.label
  delete copy.handle
  return copy
}

/** The operands of a node, whatever it is. */
export function operandsOf({ src }: TensorNode): readonly TensorNode[] {
  return src
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1)
}

/** Bytes of what a node gives. */
export function bytesOf(node: TensorNode): number {
  const { shape, dtype } = node
  if (node.op === 'leaf' && node.attrs.layout === 'cache') return cacheBytes(dtype as CacheType, sizeOf(shape)) // checked when it was made
  return isElementType(dtype) ? ELEMENT_BYTES[dtype] * sizeOf(shape) : tensorBytes(dtype, shape.toReversed())
}
