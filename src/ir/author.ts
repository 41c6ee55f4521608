// Writing a kernel in TypeScript. `kernel(name, spec, body)` runs `body` once; every operation it calls adds nodes. Plain
// JavaScript loops and conditions in the body are unrolled and decided while writing; `k.for`, `k.when` and `k.loop` become
// loops and branches of the kernel. Values that depend on time (loads, variables, subgroup results) are pinned where they are
// written. The verifier (verify.ts) has the last word on everything TypeScript cannot see.

import { type DType, type Scalar, type Storage, type Tile, type Vector, type Width, registerOf, scalarOf, vector } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import type { BufferParam, Kernel, Product, Role, SharedArray, UniformParam } from './kernel.ts'
import { Interner, type Node } from './node.ts'
import type { Arg, AtomicKind, IndexName, OpName } from './op.ts'
import { type Maker, type Operand, type ScalarOf, type Uniformity, Value, constant, lift, makeNode } from './value.ts'
import { verify } from './verify.ts'

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

/** A buffer parameter; `role` says what the kernel may do with it. */
export function buffer<S extends Storage, R extends Role>(storage: S, role: R): BufferSpec<S, R> {
  return { kind: 'buffer', storage, role }
}

/** A scalar that every lane of a dispatch sees alike. */
export function uniform<D extends UniformParam['dtype']>(dtype: D): UniformSpec<D> {
  return { kind: 'uniform', dtype }
}

/** What a register holds after loading from storage `S`. */
export type Loaded<S extends Storage> = S extends 'u8' | 'u16' ? 'u32' : S extends 'i8' | 'i16' ? 'i32' : S & DType
type Index<U extends Uniformity = Uniformity> = Value<'u32', U> | number

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
export type Handle<P extends ParamSpec> =
  P extends BufferSpec<infer S, infer R>
    ? R extends 'read'
      ? Readable<S, 'uniform'>
      : R extends 'write'
        ? Writable<S>
        : Readable<S, 'lane'> & Writable<S>
    : P extends UniformSpec<infer D>
      ? Value<D, 'uniform'>
      : never
export type Handles<P extends Readonly<Record<string, ParamSpec>>> = { readonly [K in keyof P]: Handle<P[K]> }
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
  vec<S extends Scalar>(...lanes: readonly Value<S>[]): Value<Vector<S>>
  /** `values[index]` for constants known now. */
  table<S extends Exclude<Scalar, 'bool' | 'f16'>, U extends Uniformity>(
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

export interface KernelSpec<P extends Readonly<Record<string, ParamSpec>>> {
  readonly params: P
  readonly workgroup?: readonly [x: number, y?: number, z?: number]
  /** lanes of a subgroup, if the kernel uses subgroup operations or tiles */
  readonly subgroup?: number
  /**
   * For kernels of the library: whatever decides the body besides the name, the parameters, the workgroup and the subgroup. The body
   * is then written only when somebody needs it, and these stand for it in caches. A test holds the promise against the bodies.
   */
  readonly variant?: string
  readonly product?: Product
}

/** Writes a kernel by running `body` once, and verifies it. */
export function kernel<const P extends Readonly<Record<string, ParamSpec>>>(
  name: string,
  spec: KernelSpec<P>,
  body: (params: Handles<P>, k: Scope) => void,
): Kernel {
  const [x, y = 1, z = 1] = spec.workgroup ?? [1]
  const write = (): Kernel => {
    const author = new Author(name, [x, y, z])
    const handles = Object.entries(spec.params).map(([key, param]) => [key, author.param(key, param)] as const)
    body(Object.fromEntries(handles) as Handles<P>, author as unknown as Scope)
    const written = author.finish(spec.subgroup ?? 0)
    verify(written)
    return spec.product === undefined ? written : { ...written, product: spec.product }
  }
  return spec.variant === undefined ? write() : lazyKernel(name, spec, [x, y, z], write)
}

/** A kernel whose body is written when first asked for. Its getters are its own, so that a spread copies what they give. */
function lazyKernel(
  name: string,
  spec: KernelSpec<Readonly<Record<string, ParamSpec>>>,
  workgroup: readonly [number, number, number],
  write: () => Kernel,
): Kernel {
  let kernel: Kernel | undefined
  const written = (): Kernel => {
    kernel ??= write()
    if (kernel.params.some((param) => param.kind === 'buffer' && param.atomic)) {
      throw new IngotError('bad-kernel', 'a kernel with atomics cannot have a variant', { op: name })
    }
    return kernel
  }
  const subgroup = spec.subgroup ?? 0
  return {
    name,
    key: JSON.stringify([name, spec.params, workgroup, subgroup, spec.variant]),
    product: spec.product,
    params: Object.entries(spec.params).map(([key, param]) =>
      param.kind === 'uniform' ? { ...param, name: key } : { ...param, name: key, atomic: false },
    ),
    workgroup,
    subgroup,
    get shared() {
      return written().shared
    },
    get body() {
      return written().body
    },
    get interner() {
      return written().interner
    },
  }
}

class Author implements Maker {
  readonly interner = new Interner()
  readonly kernel: string
  readonly #workgroup: readonly [number, number, number]
  readonly #buffers: { name: string; storage: Storage; role: Role }[] = []
  readonly #params: (string | UniformParam)[] = []
  readonly #shared: { name: string; storage: Storage; length: number }[] = []
  readonly #atomic = new Set<string>()
  #block: Node[] = []
  #locals = 0

  constructor(name: string, workgroup: readonly [number, number, number]) {
    this.kernel = name
    this.#workgroup = workgroup
  }

  get workgroupId() {
    return this.#axes('workgroup')
  }
  get gridSize() {
    return this.#axes('grid')
  }
  get laneId() {
    return this.#axes('lane')
  }
  get lane() {
    return this.#index('lane')
  }
  get subgroupId() {
    return this.#index('subgroup')
  }
  get sublane() {
    return this.#index('sublane')
  }
  get globalId() {
    const axis = (name: 'x' | 'y' | 'z', size: number) =>
      this.#index(`workgroup.${name}`)
        .mul(size)
        .add(this.#index(`lane.${name}`))
    return { x: axis('x', this.#workgroup[0]), y: axis('y', this.#workgroup[1]), z: axis('z', this.#workgroup[2]) }
  }

  const(dtype: DType, value: number | boolean): Value<DType> {
    return new Value(this, constant(this, value, dtype))
  }
  let(name: string, value: Value<DType>): Value<DType> {
    const { op, arg } = value.node
    const last = this.#block.at(-1)
    // An effect was bound a moment ago, by a name of its kind: the author's name takes its place.
    if (op !== 'local' || last?.op !== 'let' || (last.arg as { id: number }).id !== arg) return this.#bind(name, value.node)
    this.#block[this.#block.length - 1] = this.interner.make('let', 'void', last.src, { id: arg as number, name })
    return value
  }
  vec(...lanes: readonly Value<DType>[]): Value<DType> {
    const scalar = lanes[0] === undefined ? 'f32' : scalarOf(lanes[0].node.dtype)
    return this.#pure('vec', lanes, null, vector(scalar, lanes.length as Width))
  }
  table(scalar: DType, values: readonly number[], index: Value<DType>): Value<DType> {
    return this.#pure('table', [index], values, scalar)
  }

  var(name: string, init: Value<DType>): Var<DType> {
    const id = this.#locals++
    const { dtype } = init.node
    this.#add('var', [init.node], { id, name })
    return {
      get: () => this.#bind(name, this.#node('get', [], id, dtype)),
      set: (value) => this.#add('set', [lift(this, value, dtype)], id),
    }
  }

  when(condition: Value<DType>, then: (k: unknown) => void, otherwise?: (k: unknown) => void): void {
    const blocks = [this.#inside(() => then(this))]
    if (otherwise !== undefined) blocks.push(this.#inside(() => otherwise(this)))
    this.#add('if', [condition.node, ...blocks])
  }

  for({ name = 'i', from = 0, to, step = 1, unroll }: Range, body: (i: Value<'u32'>, k: unknown) => void): void {
    const id = this.#locals++
    const bounds = [from, to, step].map((bound) => lift(this, bound, 'u32'))
    const block = this.#inside(() => body(new Value(this, this.#node('local', [], id, 'u32')), this))
    this.#add('for', [...bounds, block], unroll === undefined ? { id, name } : { id, name, unroll })
  }

  loop(body: (k: unknown) => void): void {
    this.#add('loop', [this.#inside(() => body(this))])
  }
  breakIf(condition: Value<DType>): void {
    this.#add('breakIf', [condition.node])
  }
  barrier(): void {
    this.#add('barrier', [], 'workgroup')
  }
  subgroupBarrier(): void {
    this.#add('barrier', [], 'subgroup')
  }

  subSum(value: Value<DType>): Value<DType> {
    return this.#effect('sum', 'subSum', [value.node])
  }
  subMax(value: Value<DType>): Value<DType> {
    return this.#effect('max', 'subMax', [value.node])
  }
  subMin(value: Value<DType>): Value<DType> {
    return this.#effect('min', 'subMin', [value.node])
  }
  subAny(value: Value<DType>): Value<DType> {
    return this.#effect('any', 'subAny', [value.node])
  }
  subAll(value: Value<DType>): Value<DType> {
    return this.#effect('all', 'subAll', [value.node])
  }
  subBroadcast(value: Value<DType>, lane: number): Value<DType> {
    return this.#effect('first', 'subBroadcast', [value.node], lane)
  }
  subShuffle(value: Value<DType>, lane: Value<'u32'>): Value<DType> {
    return this.#effect('other', 'subShuffle', [value.node, lane.node])
  }
  subShuffleXor(value: Value<DType>, mask: number): Value<DType> {
    return this.#effect('other', 'subShuffleXor', [value.node], mask)
  }
  subShuffleDown(value: Value<DType>, distance: number): Value<DType> {
    return this.#effect('other', 'subShuffleDown', [value.node], distance)
  }

  tileFill(scalar: Scalar, value: number): Value<DType> {
    return this.#effect('tile', 'tileFill', [constant(this, value, scalar)])
  }
  tileMma(a: Value<DType>, b: Value<DType>, c: Value<DType>): Value<DType> {
    return this.#effect('tile', 'tileMma', [a.node, b.node, c.node])
  }

  shared<S extends Storage>(name: string, storage: S, length: number): Shared<S> {
    this.#claim(name)
    this.#shared.push({ name, storage, length })
    return this.#memory(name, storage) as unknown as Shared<S>
  }

  param(name: string, spec: ParamSpec): unknown {
    this.#claim(name)
    if (spec.kind === 'uniform') {
      this.#params.push({ kind: 'uniform', name, dtype: spec.dtype })
      return new Value(this, this.interner.make('uniform', spec.dtype, [], name))
    }
    this.#buffers.push({ name, storage: spec.storage, role: spec.role })
    this.#params.push(name)
    return this.#memory(name, spec.storage)
  }

  finish(subgroup: number): Kernel {
    const params = this.#params.map((param): UniformParam | BufferParam => {
      const found = typeof param === 'string' ? this.#buffers.find(({ name }) => name === param) : undefined
      return found === undefined ? (param as UniformParam) : { kind: 'buffer', ...found, atomic: this.#atomic.has(found.name) }
    })
    const shared = this.#shared.map((array): SharedArray => ({ ...array, atomic: this.#atomic.has(array.name) }))
    const body = this.interner.make('block', 'void', this.#block)
    return { name: this.kernel, params, workgroup: this.#workgroup, subgroup, shared, body, interner: this.interner }
  }

  #memory(mem: string, storage: Storage): Readable<Storage, Uniformity> & Writable<Storage> {
    const at = (index: Index): Node => lift(this, index, 'u32')
    const element = registerOf(storage)
    const load = (index: Index, width: number, dtype: DType, hint?: { ahead: number }): Value<never> =>
      this.#effect(mem, 'load', [at(index)], width === 1 ? { mem } : { mem, width, ...hint }, dtype)
    return {
      at: (index) => load(index, 1, element),
      load: (index, width, hint) => load(index, width, vector(scalarOf(element), width), hint),
      tile: (index, row, options) =>
        this.#effect(
          'tile',
          'tileLoad',
          [at(index), at(row)],
          options?.transposed === true ? { mem, transposed: true } : { mem },
          storage === 'f16' ? 'f16t' : 'f32t',
        ),
      set: (index, value) => this.#add('store', [at(index), lift(this, value, element)], { mem }),
      store: (index, value) => this.#add('store', [at(index), value.node], { mem, width: Number(value.node.dtype.split('x')[1]) }),
      setTile: (index, row, tile) => this.#add('tileStore', [at(index), at(row), tile.node], { mem }),
      atomic: (kind, index, value) => {
        this.#atomic.add(mem)
        return this.#effect('old', 'atomic', [at(index), lift(this, value, element)], { mem, kind }, element)
      },
    } as Readable<Storage, Uniformity> & Writable<Storage>
  }

  #claim(name: string): void {
    const taken =
      this.#params.some((param) => (typeof param === 'string' ? param : param.name) === name) ||
      this.#shared.some((array) => array.name === name)
    if (taken || !/^[a-z][A-Za-z0-9]*$/.test(name)) {
      throw new IngotError('bad-kernel', taken ? 'name is used twice' : 'bad name', {
        op: this.kernel,
        got: name,
        hint: 'letters and digits, first a small letter',
      })
    }
  }

  #axes(what: 'workgroup' | 'grid' | 'lane') {
    return { x: this.#index(`${what}.x`), y: this.#index(`${what}.y`), z: this.#index(`${what}.z`) }
  }
  #index(name: IndexName): Value<'u32'> {
    return new Value(this, this.interner.make('index', 'u32', [], name))
  }
  #node(op: OpName, src: readonly Node[], arg: Arg, dtype: DType = 'void'): Node {
    return makeNode(this, op, src, arg, dtype)
  }
  #pure(op: OpName, src: readonly Value<DType>[], arg: Arg, dtype: DType): Value<DType> {
    return new Value(
      this,
      this.#node(
        op,
        src.map(({ node }) => node),
        arg,
        dtype,
      ),
    )
  }
  #add(op: OpName, src: readonly Node[], arg: Arg = null): void {
    this.#block.push(this.#node(op, src, arg))
  }

  /** Pins a value to this place and gives the name it is known by from here on. */
  #bind<D extends DType>(name: string, node: Node): Value<D> {
    const id = this.#locals++
    this.#add('let', [node], { id, name })
    return new Value(this, this.interner.make('local', node.dtype, [], id))
  }
  #effect<D extends DType>(name: string, op: OpName, src: readonly Node[], arg: Arg = null, dtype: DType = 'void'): Value<D> {
    return this.#bind(name, this.#node(op, src, arg, dtype))
  }

  #inside(write: () => void): Node {
    const outer = this.#block
    this.#block = []
    try {
      write()
      return this.interner.make('block', 'void', this.#block)
    } finally {
      this.#block = outer
    }
  }
}

export type { ScalarOf }
