// A typed value while a kernel is being written: one node plus the operations TypeScript lets an author call on it.
// `D` is its dtype; `U` says what TypeScript can know about uniformity: 'uniform' if all lanes of a workgroup certainly hold
// the same value, the union with 'lane' otherwise. Mixing dtypes does not compile. Nodes are made by the builder (build.ts).

import { type DType, type Scalar, type Vector, type Width, scalarOf, vector, widthOf } from '../base/dtype.ts'
import type { Builder } from './build.ts'
import type { Node } from './node.ts'
import type { Arg, OpName } from './op.ts'

export type Uniformity = 'uniform' | 'lane'
export type ScalarOf<D extends DType> = D extends Vector<infer S> ? S : D
export type WidthOf<D extends DType> = D extends `${string}x${infer W extends Width}` ? W : 1
export type WithScalar<D extends DType, S extends Scalar> = D extends Vector ? Vector<S, WidthOf<D> & Width> : S
/** What an operation with a `D` accepts: the same type, its scalar (spread over the lanes), or a plain number. */
export type Operand<D extends DType, V extends Uniformity = Uniformity> = Value<D, V> | Value<ScalarOf<D>, V> | number
/** A vector of whatever width the target has: what CPU kernels are written with. That widths agree is checked as they are written. */
export type VectorOf<S extends Scalar> = Value<Vector<S>>
/** One element or a vector of them, for formulas that do not care. */
export type Elements<S extends Scalar> = Value<S | Vector<S>>

export class Value<D extends DType, U extends Uniformity = Uniformity> {
  readonly builder: Builder
  readonly node: Node
  /** carries `D` and `U` for TypeScript; has no value */
  declare readonly type: [D, U]

  constructor(builder: Builder, node: Node) {
    this.builder = builder
    this.node = node
  }

  get dtype(): D {
    return this.node.dtype as D
  }

  #one<R extends DType = D>(op: OpName, arg: Arg = null, dtype: DType = 'void'): Value<R, U> {
    return this.#all(op, [this.node], arg, dtype)
  }

  #two<R extends DType, V extends Uniformity>(op: OpName, other: Operand<D, V>): Value<R, U | V> {
    return this.#all(op, [this.node, this.#lift(other, this.node.dtype)])
  }

  #all<R extends DType, V extends Uniformity>(op: OpName, src: readonly Node[], arg: Arg = null, dtype: DType = 'void'): Value<R, V> {
    return new Value(this.builder, this.builder.apply(op, src, arg, dtype))
  }

  /** Another operand as a node of `dtype`. */
  #lift(operand: Value<DType> | number, dtype: DType): Node {
    return this.builder.lift(typeof operand === 'number' ? operand : operand.node, dtype)
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
    const { dtype } = this.node
    return this.#all('fma', [this.node, this.#lift(factor, dtype), this.#lift(addend, dtype)])
  }

  clamp<V extends Uniformity = 'uniform'>(low: Operand<D, V>, high: Operand<D, V>): Value<D, U | V> {
    return this.max(low).min(high)
  }

  /** On a condition: `a` where true, `b` where false. */
  select<E extends DType, V extends Uniformity, W extends Uniformity = 'uniform'>(
    a: Value<E, V>,
    b: Operand<NoInfer<E>, W>,
  ): Value<E, U | V | W> {
    const { dtype } = a.node
    return this.#all('select', [this.#lift(this, vector('bool', widthOf(dtype))), a.node, this.#lift(b, dtype)])
  }

  /** Conversion of the value: to f32, i32... of the same width. Float to integer truncates and saturates. */
  to<S extends Scalar>(scalar: S): Value<WithScalar<D, S>, U> {
    const to = vector(scalar, widthOf(this.node.dtype))
    return to === this.node.dtype ? new Value(this.builder, this.node) : this.#one('cast', null, to)
  }

  /** The same bits as another 32-bit type. */
  as<S extends 'f32' | 'i32' | 'u32'>(scalar: S): Value<WithScalar<D, S>, U> {
    const to = vector(scalar, widthOf(this.node.dtype))
    return to === this.node.dtype ? new Value(this.builder, this.node) : this.#one('bitcast', null, to)
  }

  /** All lanes of a vector from one scalar. */
  splat<W extends Width>(this: Value<Scalar & D, U>, width: W): Value<Vector<D & Scalar, W>, U> {
    return this.#one('splat', null, vector(scalarOf(this.node.dtype), width))
  }

  /** This scalar as the type of `other`: in every lane, if that is a vector. */
  like<E extends DType, V extends Uniformity>(other: Value<E, V>): Value<E, U> {
    return new Value(this.builder, this.#lift(this, other.node.dtype))
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
    return this.#all('join', [this.node, other.node])
  }

  /** Elements of this vector and of another of the same type in turn: those of the first halves, and those of the second. */
  zip<V extends Uniformity>(other: Value<D, V>): [low: Value<D, U | V>, high: Value<D, U | V>] {
    const half = (which: 0 | 1): Value<D, U | V> => this.#all('zip', [this.node, other.node], which)
    return [half(0), half(1)]
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
    return this.#one('unpackU8')
  }
  unpackI8(this: Value<'u32', U>): Value<'i32x4', U> {
    return this.#one('unpackI8')
  }
  unpackF16(this: Value<'u32', U>): Value<'f32x2', U> {
    return this.#one('unpackF16')
  }
  packI8(this: Value<'i32x4', U> | Value<'u32x4', U>): Value<'u32', U> {
    return this.#one('packI8')
  }
  packF16(this: Value<'f32x2', U>): Value<'u32', U> {
    return this.#one('packF16')
  }
  /** Each byte (0..15) replaced by an entry of a table of 16 bytes. */
  lookup16(table: readonly number[]): Value<D, U> {
    return this.#one('lookup16', table)
  }

  /** sum + four signed products per 32-bit lane. */
  dotI8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return this.#all('dotI8', [this.node, other.node, sum.node])
  }
  /** sum + four products per lane, this unsigned, other signed. */
  dotU8I8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return this.#all('dotU8I8', [this.node, other.node, sum.node])
  }
  /** sum + four products per lane, this below 128, other signed: the fastest on every target. */
  dotU7I8<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return this.#all('dotU7I8', [this.node, other.node, sum.node])
  }
  /** Two sums of two products per lane, 16 bits each, this below 128, other signed. */
  pairsU7I8<V extends Uniformity>(other: Value<D, V>): Value<D, U | V> {
    return this.#all('pairsU7I8', [this.node, other.node])
  }
  /** The same of signed bytes, of which this has no -128. */
  pairsI8<V extends Uniformity>(other: Value<D, V>): Value<D, U | V> {
    return this.#all('pairsI8', [this.node, other.node])
  }
  /** Sums of 16-bit numbers, two in a lane. */
  addPairs<V extends Uniformity>(other: Value<D, V>): Value<D, U | V> {
    return this.#all('addPairs', [this.node, other.node])
  }
  /** sum + two signed products of 16-bit numbers per lane. */
  dotI16<S extends DType, V extends Uniformity, W extends Uniformity>(other: Value<D, V>, sum: Value<S, W>): Value<S, U | V | W> {
    return this.#all('dotI16', [this.node, other.node, sum.node])
  }
}
