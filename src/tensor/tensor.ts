// What a user and a model write with: lazy tensors with methods. A method adds one node to the graph; a plan runs it.
// Shapes are checked here, at once; which kernel serves is decided when a plan is built for a device.

import { IngotError } from '../base/error.ts'
import type { BufferHandle } from '../device/device.ts'
import { type CacheType, canCache } from '../kernel/attention/cache-type.ts'
import type { MapExpr, MapOp } from '../kernel/map/map.ts'
import type { ReduceKind } from '../kernel/reduce/reduce.ts'
import { formatOf } from '../quant/index.ts'
import type { Packed, Scaled } from '../quant/packed/packed.ts'
import type { GgmlType } from '../quant/type.ts'
import { type ElementType, type LeafAttrs, type StoredType, type TensorNode, leafOf, sizeOf } from './node.ts'
import {
  type AttentionAttrs,
  type MapAttrs,
  type NormAttrs,
  type PackedAttrs,
  type Quantize8Attrs,
  type ReduceAttrs,
  type RopeAttrs,
  type TensorOpName,
  tensorOp,
} from './op.ts'
import { checkShape } from './operand.ts'

export class Tensor implements TensorNode {
  readonly op: string
  readonly shape: readonly number[]
  readonly type: StoredType
  readonly src: readonly Tensor[]
  readonly attrs: object
  label?: string
  /** as int8, by the number of values per scale */
  readonly #quantized = new Map<Scaled, Tensor>()

  private constructor(op: string, shape: readonly number[], type: StoredType, src: readonly Tensor[], attrs: object) {
    this.op = op
    this.shape = shape
    this.type = type
    this.src = src
    this.attrs = attrs
  }

  /** A tensor over bytes that lie in a buffer already and outlive every plan that uses it. */
  static leaf(
    buffer: BufferHandle,
    shape: readonly number[],
    format: GgmlType = 'f32',
    { offset = 0, label, layout = 'file' }: { offset?: number; label?: string; layout?: LeafAttrs['layout'] } = {},
  ): Tensor {
    checkShape('leaf', shape)
    const type = format === 'f16' ? 'f16' : format === 'i32' ? 'u32' : 'f32'
    return Tensor.#leaf(shape, type, { buffer, offset, format, layout }, label)
  }

  /** A key or value cache [heads, capacity, dim] in a buffer of `cacheBytes`. */
  static cache(buffer: BufferHandle, shape: readonly [number, number, number], type: CacheType, label?: string): Tensor {
    checkShape('cache', shape)
    if (!canCache(type, shape[2])) {
      const hint = 'use f16 or f32'
      throw new IngotError('unsupported', `heads of this size cannot be cached in ${type}`, { op: 'cache', got: shape[2], hint })
    }
    return Tensor.#leaf(shape, type, { buffer, offset: 0, format: type, layout: 'cache' }, label)
  }

  static #leaf(shape: readonly number[], type: StoredType, attrs: LeafAttrs, label: string | undefined): Tensor {
    const leaf = new Tensor('leaf', shape, type, [], attrs)
    return label === undefined ? leaf : leaf.named(label)
  }

  /** A leaf of 32-bit unsigned integers: token ids, positions. */
  static integers(buffer: BufferHandle, shape: readonly number[], label: string): Tensor {
    return Tensor.leaf(buffer, shape, 'i32', { label })
  }

  /** The numbers 0, 1, 2... as u32. */
  static iota(count: number): Tensor {
    return Tensor.of('iota', [], { count })
  }

  /** The result of an operation on tensors. */
  static of<A extends object>(op: TensorOpName, src: readonly Tensor[], attrs: A): Tensor {
    const foreign = src.findIndex((operand: unknown) => !(operand instanceof Tensor))
    if (foreign >= 0) throw new IngotError('bad-argument', `operand ${foreign} is no tensor`, { op, got: String(src[foreign]) })
    const { shape, type } = tensorOp(op).infer(src, attrs)
    checkShape(op, shape)
    return new Tensor(op, shape, type, src, attrs)
  }

  /** Gives the tensor a name that comparisons and errors show. */
  named(label: string): this {
    this.label = label
    return this
  }

  /** The same operation on other operands of the same shapes. */
  withSources(src: readonly Tensor[]): Tensor {
    const copy = new Tensor(this.op, this.shape, this.type, src, this.attrs)
    return this.label === undefined ? copy : copy.named(this.label)
  }

  get size(): number {
    return sizeOf(this.shape)
  }

  reshape(...shape: number[]): Tensor {
    return Tensor.of('reshape', [this], { shape })
  }

  /** An elementwise function of tensors that broadcast together; `expr` refers to them by number. */
  static map(expr: MapExpr, src: readonly Tensor[], type: ElementType = 'f32'): Tensor {
    return Tensor.of<MapAttrs>('map', src, { expr, type })
  }
  #unary(op: MapOp): Tensor {
    return Tensor.map({ op, args: [{ input: 0 }] }, [this])
  }
  #binary(op: MapOp, other: Tensor | number): Tensor {
    return typeof other === 'number'
      ? Tensor.map({ op, args: [{ input: 0 }, { const: other }] }, [this])
      : Tensor.map({ op, args: [{ input: 0 }, { input: 1 }] }, [this, other])
  }

  add(other: Tensor | number): Tensor {
    return this.#binary('add', other)
  }
  sub(other: Tensor | number): Tensor {
    return this.#binary('sub', other)
  }
  mul(other: Tensor | number): Tensor {
    return this.#binary('mul', other)
  }
  div(other: Tensor | number): Tensor {
    return this.#binary('div', other)
  }
  le(other: Tensor | number): Tensor {
    return this.#binary('le', other)
  }
  gt(other: Tensor | number): Tensor {
    return this.#binary('gt', other)
  }
  neg(): Tensor {
    return this.#unary('neg')
  }
  exp(): Tensor {
    return this.#unary('exp')
  }
  rsqrt(): Tensor {
    return this.#unary('rsqrt')
  }
  tanh(): Tensor {
    return this.#unary('tanh')
  }
  silu(): Tensor {
    return this.#unary('silu')
  }
  /** silu without an exponential: x * clamp(x / 6 + 1/2, 0, 1) */
  hardSwish(): Tensor {
    return this.#unary('hardSwish')
  }
  /** the tanh form */
  gelu(): Tensor {
    return this.#unary('gelu')
  }
  /** The same values as another type. */
  to(type: ElementType): Tensor {
    return type === this.type ? this : Tensor.map({ input: 0 }, [this], type)
  }
  /** `a` where this is not zero, `b` elsewhere. */
  where(a: Tensor, b: Tensor | number): Tensor {
    return typeof b === 'number'
      ? Tensor.map({ op: 'select', args: [{ input: 0 }, { input: 1 }, { const: b }] }, [this, a])
      : Tensor.map({ op: 'select', args: [{ input: 0 }, { input: 1 }, { input: 2 }] }, [this, a, b])
  }

  reduce(kind: ReduceKind, axes: readonly number[] | number = -1, keep = false): Tensor {
    const list = (typeof axes === 'number' ? [axes] : axes).map((axis) => (axis < 0 ? axis + this.shape.length : axis))
    if (list.some((axis) => axis < 0 || axis >= this.shape.length)) {
      throw new IngotError('bad-argument', 'no such axis', { op: 'reduce', got: axes, wanted: `below ${this.shape.length}` })
    }
    return Tensor.of<ReduceAttrs>('reduce', [this], { kind, axes: list, keep })
  }
  sum(axes?: readonly number[] | number, keep?: boolean): Tensor {
    return this.reduce('sum', axes, keep)
  }
  mean(axes?: readonly number[] | number, keep?: boolean): Tensor {
    return this.reduce('mean', axes, keep)
  }
  max(axes?: readonly number[] | number, keep?: boolean): Tensor {
    return this.reduce('max', axes, keep)
  }

  softmax(): Tensor {
    return Tensor.of('softmax', [this], {})
  }
  rmsNorm(weight: Tensor | undefined, eps: number): Tensor {
    return Tensor.of<NormAttrs>('norm', weight ? [this, weight] : [this], { kind: 'rms', eps, weight: weight !== undefined, bias: false })
  }
  layerNorm(weight: Tensor | undefined, bias: Tensor | undefined, eps: number): Tensor {
    const src = [this, weight, bias].filter((tensor) => tensor !== undefined)
    return Tensor.of<NormAttrs>('norm', src, { kind: 'layer', eps, weight: weight !== undefined, bias: bias !== undefined })
  }

  /** this [n, k] times weight [m, k], transposed, plus bias [m]. */
  linear(weight: Tensor, bias?: Tensor): Tensor {
    const rest = bias === undefined ? [weight] : [weight, bias]
    const leaf = leafOf(weight)
    const packed = leaf?.layout === 'packed' ? formatOf(leaf.format).packed : undefined
    if (packed === undefined) return Tensor.of('linear', [this, ...rest], { bias: bias !== undefined })
    return Tensor.of<PackedAttrs>('packedLinear', [this.#quantize(packed), ...rest], {
      shape: this.shape,
      added: bias === undefined ? 'nothing' : 'bias',
    })
  }
  /** All packed weights of a kind that take this tensor share its int8 form. */
  #quantize({ scaled }: Packed): Tensor {
    const known =
      this.#quantized.get(scaled) ??
      Tensor.of<Quantize8Attrs>('quantize8', [this], { k: this.shape.at(-1) ?? 1, scaled, source: { kind: 'plain' } })
    this.#quantized.set(scaled, known)
    return known
  }
  /** The rows of this table that `ids` name. */
  gather(ids: Tensor): Tensor {
    return Tensor.of('gather', [this, ids], {})
  }
  rope(positions: Tensor, freqs: Tensor, attrs: RopeAttrs): Tensor {
    return Tensor.of('rope', [this, positions, freqs], attrs)
  }
  /** This cache [heads, capacity, dim] after writing `x` [n, heads * dim] at `positions` [n], in place. */
  cacheWrite(x: Tensor, positions: Tensor): Tensor {
    return Tensor.of('cacheWrite', [this, x, positions], { heads: this.shape[0] ?? 1 })
  }
  /** Attention of this [n, heads * dim] over caches [kvHeads, capacity, dim]; a row sees the keys up to its position. */
  attention(keys: Tensor, values: Tensor, positions: Tensor, attrs: AttentionAttrs): Tensor {
    return Tensor.of('attention', [this, keys, values, positions], attrs)
  }
  /** Index of the largest element of each row. */
  argmax(): Tensor {
    return Tensor.of('argmax', [this], {})
  }
  /** Ids, then value bits, of the k largest. */
  topk(k: number): Tensor {
    return Tensor.of('topk', [this], { k })
  }
  /** A token drawn from what `topk` gave, by a rule (kernel/select/draw.ts) and the position of the last row: [1], u32. */
  draw(rule: Tensor, positions: Tensor): Tensor {
    return Tensor.of('draw', [this, rule, positions], {})
  }
  /** Adds to every element of a u32 tensor, in place. */
  advance(by: number): Tensor {
    return Tensor.of('advance', [this], { by })
  }
}
