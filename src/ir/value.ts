// A typed value while a kernel is being written: one node plus the operations TypeScript lets an author call on it.
// `D` is its dtype; `U` says what TypeScript can know about uniformity: 'uniform' if all lanes of a workgroup certainly hold
// the same value, the union with 'lane' otherwise. Mixing dtypes does not compile.

import { type DType, type Scalar, type Vector, type Width, isTile, scalarOf, vector, widthOf } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import type { Interner, Node } from './node.ts'
import { type Arg, type OpName, opRecord } from './op.ts'

export type Uniformity = 'uniform' | 'lane'
export type ScalarOf<D extends DType> = D extends Vector<infer S> ? S : D
export type WidthOf<D extends DType> = D extends `${string}x${infer W extends Width}` ? W : 1
export type WithScalar<D extends DType, S extends Scalar> = D extends Vector ? Vector<S, WidthOf<D> & Width> : S
/** What an operation with a `D` accepts: the same type, its scalar (spread over the lanes), or a plain number. */
export type Operand<D extends DType, V extends Uniformity = Uniformity> = Value<D, V> | Value<ScalarOf<D>, V> | number
type Float = 'f32' | 'f16'

/** Where values are made. The builder of author.ts is one; decompositions bring a smaller one. */
export interface Maker {
  readonly interner: Interner
  /** the name errors carry */
  readonly kernel: string
}

export class Value<D extends DType, U extends Uniformity = Uniformity> {
  readonly maker: Maker
  readonly node: Node
  /** carries `D` and `U` for TypeScript; has no value */
  declare readonly type: [D, U]

  constructor(maker: Maker, node: Node) {
    this.maker = maker
    this.node = node
  }

  get dtype(): D {
    return this.node.dtype as D
  }

  #one<R extends DType = D>(op: OpName, arg: Arg = null, dtype: DType = 'void'): Value<R, U> {
    return make(this.maker, op, [this.node], arg, dtype)
  }

  #two<R extends DType, V extends Uniformity>(op: OpName, other: Operand<D, V>): Value<R, U | V> {
    return make(this.maker, op, [this.node, lift(this.maker, other, this.node.dtype)])
  }

  add<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('add', other)
  }
  sub<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('sub', other)
  }
  mul<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('mul', other)
  }
  div<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('div', other)
  }
  /** remainder of integers, with the sign of the dividend */
  rem<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('rem', other)
  }
  min<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('min', other)
  }
  max<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('max', other)
  }
  pow<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('pow', other)
  }
  and<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('and', other)
  }
  or<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('or', other)
  }
  xor<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('xor', other)
  }
  shl<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('shl', other)
  }
  /** arithmetic for i32, logical for u32 */
  shr<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<D, U | V> {
    return this.#two('shr', other)
  }

  lt<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('lt', other)
  }
  le<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('le', other)
  }
  gt<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('gt', other)
  }
  ge<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('ge', other)
  }
  eq<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('eq', other)
  }
  ne<V extends Uniformity = 'uniform'>(other: Operand<D, V>): Value<WithScalar<D, 'bool'>, U | V> {
    return this.#two('ne', other)
  }

  neg(): Value<D, U> {
    return this.#one('neg')
  }
  abs(): Value<D, U> {
    return this.#one('abs')
  }
  not(): Value<D, U> {
    return this.#one('not')
  }
  sqrt(): Value<D, U> {
    return this.#one('sqrt')
  }
  rsqrt(): Value<D, U> {
    return this.#one('rsqrt')
  }
  exp(): Value<D, U> {
    return this.#one('exp')
  }
  exp2(): Value<D, U> {
    return this.#one('exp2')
  }
  log(): Value<D, U> {
    return this.#one('log')
  }
  log2(): Value<D, U> {
    return this.#one('log2')
  }
  sin(): Value<D, U> {
    return this.#one('sin')
  }
  cos(): Value<D, U> {
    return this.#one('cos')
  }
  tan(): Value<D, U> {
    return this.#one('tan')
  }
  asin(): Value<D, U> {
    return this.#one('asin')
  }
  acos(): Value<D, U> {
    return this.#one('acos')
  }
  atan(): Value<D, U> {
    return this.#one('atan')
  }
  tanh(): Value<D, U> {
    return this.#one('tanh')
  }
  floor(): Value<D, U> {
    return this.#one('floor')
  }
  ceil(): Value<D, U> {
    return this.#one('ceil')
  }
  trunc(): Value<D, U> {
    return this.#one('trunc')
  }
  /** nearest integer, halves to even */
  rint(): Value<D, U> {
    return this.#one('rint')
  }
  popcount(): Value<D, U> {
    return this.#one('popcount')
  }

  /** this * factor + addend, fused where the target can */
  fma<V extends Uniformity = 'uniform', W extends Uniformity = 'uniform'>(
    factor: Operand<D, V>,
    addend: Operand<D, W>,
  ): Value<D, U | V | W> {
    const { maker, node } = this
    return make(maker, 'fma', [node, lift(maker, factor, node.dtype), lift(maker, addend, node.dtype)])
  }

  clamp<V extends Uniformity = 'uniform'>(low: Operand<D, V>, high: Operand<D, V>): Value<D, U | V> {
    return this.max(low).min(high)
  }

  /** On a condition: `a` where true, `b` where false. */
  select<E extends DType, V extends Uniformity, W extends Uniformity = 'uniform'>(a: Value<E, V>, b: Operand<E, W>): Value<E, U | V | W> {
    const width = widthOf(a.node.dtype)
    const condition =
      width > 1 && widthOf(this.node.dtype) === 1 ? make(this.maker, 'splat', [this.node], null, vector('bool', width)) : this
    return make(this.maker, 'select', [condition.node, a.node, lift(this.maker, b, a.node.dtype)])
  }

  /** Conversion of the value: to f32, i32... of the same width. Float to integer truncates and saturates. */
  to<S extends Scalar>(scalar: S): Value<WithScalar<D, S>, U> {
    const to = vector(scalar, widthOf(this.node.dtype))
    return to === this.node.dtype ? new Value(this.maker, this.node) : this.#one('cast', null, to)
  }

  /** The same bits as another 32-bit type. */
  as<S extends 'f32' | 'i32' | 'u32'>(scalar: S): Value<WithScalar<D, S>, U> {
    const to = vector(scalar, widthOf(this.node.dtype))
    return to === this.node.dtype ? new Value(this.maker, this.node) : this.#one('bitcast', null, to)
  }

  /** All lanes of a vector from one scalar. */
  splat<W extends Width>(this: Value<Scalar & D, U>, width: W): Value<Vector<D & Scalar, W>, U> {
    return make(this.maker, 'splat', [this.node], null, vector(scalarOf(this.node.dtype), width))
  }

  /** One element of a vector. */
  lane(index: number): Value<ScalarOf<D>, U> {
    return this.#one('extract', index)
  }

  /** `width` consecutive elements of a vector. */
  slice<W extends Width>(from: number, width: W): Value<Vector<ScalarOf<D> & Scalar, W>, U> {
    return this.#one('slice', from, vector(scalarOf(this.node.dtype), width))
  }

  /** This vector followed by another of the same type. */
  join<V extends Uniformity, R extends DType = DType>(other: Value<D, V>): Value<R, U | V> {
    return make(this.maker, 'join', [this.node, other.node])
  }

  /** Sum of a vector's elements. */
  hsum(): Value<ScalarOf<D>, U> {
    return this.#one('hsum')
  }
  /** Largest of a vector's elements. */
  hmax(): Value<ScalarOf<D>, U> {
    return this.#one('hmax')
  }

  unpackU8(this: Value<'u32', U>): Value<'u32x4', U> {
    return make(this.maker, 'unpackU8', [this.node])
  }
  unpackI8(this: Value<'u32', U>): Value<'i32x4', U> {
    return make(this.maker, 'unpackI8', [this.node])
  }
  unpackF16(this: Value<'u32', U>): Value<'f32x2', U> {
    return make(this.maker, 'unpackF16', [this.node])
  }
  packI8(this: Value<'i32x4', U> | Value<'u32x4', U>): Value<'u32', U> {
    return make(this.maker, 'packI8', [this.node])
  }
  packF16(this: Value<'f32x2', U>): Value<'u32', U> {
    return make(this.maker, 'packF16', [this.node])
  }
  /** Each byte (0..15) replaced by an entry of a table of 16 bytes. */
  lookup16(table: readonly number[]): Value<D, U> {
    return this.#one('lookup16', table)
  }

  /** sum + four signed products per 32-bit lane. */
  dotI8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return make(this.maker, 'dotI8', [this.node, other.node, sum.node])
  }
  /** sum + four products per lane, this unsigned, other signed. */
  dotU8I8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return make(this.maker, 'dotU8I8', [this.node, other.node, sum.node])
  }
  /** sum + four products per lane, this below 128, other signed: the fastest on every target. */
  dotU7I8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return make(this.maker, 'dotU7I8', [this.node, other.node, sum.node])
  }
}

/** Makes a pure node after checking its type rule. `dtype` is needed only where the rule wants a stated result. */
export function make<D extends DType, U extends Uniformity>(
  maker: Maker,
  op: OpName,
  src: readonly Node[],
  arg: Arg = null,
  dtype: DType = 'void',
): Value<D, U> {
  return new Value(maker, makeNode(maker, op, src, arg, dtype))
}

export function makeNode(maker: Maker, op: OpName, src: readonly Node[], arg: Arg = null, dtype: DType = 'void'): Node {
  const type = opRecord(op).type(
    src.map((node) => node.dtype),
    arg,
    dtype,
  )
  if (typeof type !== 'string') {
    throw new IngotError('bad-kernel', type.wrong, { op: `${maker.kernel}: ${op}`, hint: 'convert with .to() or .as()' })
  }
  return maker.interner.make(op, type, src, arg)
}

/** A number or a scalar as a node of `dtype`. */
export function lift(maker: Maker, operand: Value<DType> | number, dtype: DType): Node {
  if (typeof operand !== 'number') {
    const { node } = operand
    if (node.dtype === dtype || widthOf(dtype) === 1 || node.dtype !== scalarOf(dtype)) return node
    return maker.interner.make('splat', dtype, [node])
  }
  return constant(maker, operand, dtype)
}

export function constant(maker: Maker, value: number | boolean, dtype: DType): Node {
  if (dtype === 'void' || isTile(dtype)) throw new IngotError('bad-kernel', `no constant of type ${dtype}`, { op: maker.kernel })
  const scalar = scalarOf(dtype)
  const fits =
    scalar === 'f32' ||
    scalar === 'f16' ||
    (Number.isInteger(Number(value)) &&
      Number(value) >= (scalar === 'i32' ? -(2 ** 31) : 0) &&
      Number(value) < (scalar === 'i32' ? 2 ** 31 : 2 ** 32))
  if (!fits) {
    throw new IngotError('bad-kernel', 'constant does not fit its type', { op: maker.kernel, got: value, wanted: scalar })
  }
  const node = maker.interner.make('const', scalar, [], scalar === 'f32' ? Math.fround(Number(value)) : value)
  return widthOf(dtype) === 1 ? node : maker.interner.make('splat', dtype, [node])
}

export type FloatValue = Value<Float>
