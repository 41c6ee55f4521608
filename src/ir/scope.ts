// What an author can say in a kernel, as types: parameters and the handles that a body gets for them, values that change, and the
// scope that everything else is written in. Types only; author.ts gives them life.

import type { DType, Scalar, Storage, Tile, Vector, Width } from '../base/dtype.ts'
import type { Role, UniformParam } from './kernel.ts'
import type { AtomicKind } from './op.ts'
import type { Operand, Uniformity, Value } from './value.ts'

export interface BufferSpec<S extends Storage = Storage, R extends Role = Role> {
  readonly kind: 'buffer'
  readonly storage: S
  readonly role: R
}
export interface UniformSpec<D extends UniformParam['dtype'] = UniformParam['dtype']> {
  readonly kind: 'uniform'
  readonly dtype: D
}
export type ParamSpec = BufferSpec | UniformSpec

/** What a register holds after loading from storage `S`. */
export type Loaded<S extends Storage> = S extends 'u8' | 'u16' ? 'u32' : S extends 'i8' | 'i16' ? 'i32' : S & DType
export type Index<U extends Uniformity = Uniformity> = Value<'u32', U> | number

export interface Readable<S extends Storage, U extends Uniformity> {
  /** The element at `index`. */
  at<V extends Uniformity = 'uniform'>(index: Index<V>): Value<Loaded<S>, U | V>
  /**
   * `width` consecutive elements from `index` on, as one vector; needs no more than the element's own alignment. `ahead`: memory so many
   * bytes further on will be loaded soon, which need not exist; a hint that changes no value.
   */
  load<W extends Width, V extends Uniformity = 'uniform'>(
    index: Index<V>,
    width: W,
    hint?: { ahead: number },
  ): Value<Vector<Loaded<S> & Scalar, W>, U | V>
  /** An 8x8 tile: element (r, c) is at `index + r * rowLength + c`, or with `transposed` at `index + c * rowLength + r`. */
  tile(index: Index, rowLength: Index, options?: { transposed?: boolean }): Value<S extends 'f16' ? 'f16t' : 'f32t'>
}
export interface Writable<S extends Storage> {
  set(index: Index, value: Operand<Loaded<S>>): void
  /** Stores a vector of consecutive elements. */
  store(index: Index, value: Value<Vector<Loaded<S> & Scalar>>): void
  setTile(index: Index, rowLength: Index, tile: Value<Tile>): void
  /** Atomic read-modify-write of an i32 or u32 element; gives the old value. */
  atomic(kind: AtomicKind, index: Index, value: Operand<Loaded<S>>): Value<Loaded<S>>
}
/** A read-only buffer reads uniformly at uniform indices; one that may be written to does not. */
export type Handle<P> = P extends readonly (infer Each)[]
  ? readonly Handle<Each>[]
  : P extends BufferSpec<infer S, infer R>
    ? R extends 'read'
      ? Readable<S, 'uniform'>
      : R extends 'write'
        ? Writable<S>
        : Readable<S, 'lane'> & Writable<S>
    : P extends UniformSpec<infer D>
      ? Value<D, 'uniform'>
      : never
/** Parameters by name. A list is as many of a kind as it takes: `in: [...]` gives `in0`, `in1`... */
export type Params = Readonly<Record<string, ParamSpec | readonly ParamSpec[]>>
export type Handles<P extends Params> = { readonly [K in keyof P]: Handle<P[K]> }
export type Shared<S extends Storage> = Readable<S, 'lane'> & Writable<S>

/** A variable: the one thing in a kernel that changes. */
export interface Var<D extends DType, U extends Uniformity = Uniformity> {
  get(): Value<D, U>
  set(value: Operand<D, U>): void
}

/** What can be written at a place of a kernel. Inside a branch that lanes may take differently there is no `barrier`. */
export interface LaneScope {
  readonly workgroupId: Readonly<Record<'x' | 'y' | 'z', Value<'u32', 'uniform'>>>
  readonly gridSize: Readonly<Record<'x' | 'y' | 'z', Value<'u32', 'uniform'>>>
  readonly laneId: Readonly<Record<'x' | 'y' | 'z', Value<'u32'>>>
  /** number of the lane in its workgroup, counting x first */
  readonly lane: Value<'u32'>
  readonly subgroupId: Value<'u32'>
  /** number of the lane in its subgroup */
  readonly sublane: Value<'u32'>
  /** workgroup id * workgroup size + lane id */
  readonly globalId: Readonly<Record<'x' | 'y' | 'z', Value<'u32'>>>

  const<D extends Exclude<DType, Tile | 'void'>>(dtype: D, value: number | boolean): Value<D, 'uniform'>
  /** Names a value in the emitted code. */
  let<D extends DType, U extends Uniformity>(name: string, value: Value<D, U>): Value<D, U>
  var<D extends DType, U extends Uniformity>(name: string, init: Value<D, U>): Var<D>
  vec<S extends Scalar>(a: Value<S>, b: Value<S>): Value<Vector<S, 2>>
  vec<S extends Scalar>(a: Value<S>, b: Value<S>, c: Value<S>, d: Value<S>): Value<Vector<S, 4>>
  vec<S extends Scalar>(...lanes: readonly Value<S>[]): Value<Vector<S>>
  /** `values[index]` for constants known now. */
  table<S extends Exclude<Scalar, 'bool' | 'f16' | 'f64'>, U extends Uniformity>(
    scalar: S,
    values: readonly number[],
    index: Value<'u32', U>,
  ): Value<S, U>

  when(condition: Value<'bool', 'uniform'>, then: (k: this) => void, otherwise?: (k: this) => void): void
  when(condition: Value<'bool'>, then: (k: LaneScope) => void, otherwise?: (k: LaneScope) => void): void
  for(range: Range<'uniform'>, body: (i: Value<'u32', 'uniform'>, k: this) => void): void
  for(range: Range, body: (i: Value<'u32'>, k: LaneScope) => void): void
  /** Repeats until `breakIf`; a condition written as `k.breakIf(x)` may stand anywhere directly in the body. */
  loop(body: (k: LaneScope) => void): void
  breakIf(condition: Value<'bool'>): void

  subgroupBarrier(): void
  subSum<D extends DType>(value: Value<D>): Value<D>
  subMax<D extends DType>(value: Value<D>): Value<D>
  subMin<D extends DType>(value: Value<D>): Value<D>
  subAny(value: Value<'bool'>): Value<'bool'>
  subAll(value: Value<'bool'>): Value<'bool'>
  subBroadcast<D extends DType>(value: Value<D>, lane: number): Value<D>
  subShuffle<D extends DType>(value: Value<D>, lane: Value<'u32'>): Value<D>
  subShuffleXor<D extends DType>(value: Value<D>, mask: number): Value<D>
  subShuffleDown<D extends DType>(value: Value<D>, distance: number): Value<D>

  tileFill<S extends 'f32' | 'f16'>(scalar: S, value: number): Value<`${S}t`>
  /** a * b + c with an f32 accumulator */
  tileMma(a: Value<Tile>, b: Value<Tile>, c: Value<'f32t'>): Value<'f32t'>
  shared<S extends Storage>(name: string, storage: S, length: number): Shared<S>
}
export interface Scope extends LaneScope {
  /** Waits for all lanes of the workgroup; what they wrote before is seen after. */
  barrier(): void
}

export interface Range<U extends Uniformity = Uniformity> {
  readonly name?: string
  readonly from?: Index<U>
  readonly to: Index<U>
  readonly step?: Index<U>
  /** a hint: unroll fully (true) or this many times */
  readonly unroll?: boolean | number
}

export interface KernelSpec<P extends Params> {
  readonly params: P
  readonly workgroup?: readonly [x: number, y?: number, z?: number]
  /** lanes of a subgroup, if the kernel uses subgroup operations or tiles */
  readonly subgroup?: number
  readonly product?: true
}
