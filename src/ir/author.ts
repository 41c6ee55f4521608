// Writing a kernel in TypeScript. `kernel(name, spec, body)` runs `body` once; every operation it calls adds nodes. Plain
// JavaScript loops and conditions in the body are unrolled and decided while writing; `k.for`, `k.when` and `k.loop` become
// loops and branches of the kernel. Values that depend on time (loads, variables, subgroup results) are pinned where they are
// written. This is the typed face (its types are in scope.ts) of the builder (build.ts), which makes the nodes; the verifier
// (verify/verify.ts) has the last word on everything TypeScript cannot see.

import { type DType, type Scalar, type Storage, type Tile, type Vector, registerOf, scalarOf, vector, widthOf } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { Builder } from './build.ts'
import type { BufferParam, Kernel, Origin, Param, Role, SharedArray, UniformParam } from './kernel.ts'
import type { Node } from './node.ts'
import type { IndexName, OpName } from './op.ts'
import type {
  BufferSpec,
  Handles,
  Index,
  KernelSpec,
  ParamSpec,
  Params,
  Range,
  Readable,
  Scope,
  Shared,
  UniformSpec,
  Var,
  Writable,
} from './scope.ts'
import { type ScalarOf, type Uniformity, Value } from './value.ts'
import { verify } from './verify/verify.ts'

export type * from './scope.ts'
export type { ScalarOf }

/** A buffer parameter; `role` says what the kernel may do with it. */
export function buffer<S extends Storage, R extends Role>(storage: S, role: R): BufferSpec<S, R> {
  return { kind: 'buffer', storage, role }
}

/** A scalar that every lane of a dispatch sees alike. */
export function uniform<D extends UniformParam['dtype']>(dtype: D): UniformSpec<D> {
  return { kind: 'uniform', dtype }
}

/** Writes a kernel by running `body` once, and verifies it. */
export function kernel<const P extends Params>(name: string, spec: KernelSpec<P>, body: (params: Handles<P>, k: Scope) => void): Kernel {
  const written = new Author(name, sizeOf(spec)).write(spec, body)
  verify(written)
  return spec.product === undefined ? written : { ...written, product: spec.product }
}

/**
 * The same for a kernel that its origin stands for: the body is written when first asked for. Its getters are its own, so that a
 * spread copies what they give.
 */
export function deferredKernel<const P extends Params>(
  origin: Origin,
  name: string,
  spec: KernelSpec<P>,
  body: (params: Handles<P>, k: Scope) => void,
): Kernel {
  let made: Kernel | undefined
  const written = (): Kernel => {
    made ??= kernel(name, spec, body)
    if (made.params.some((param) => param.kind === 'buffer' && param.atomic)) {
      throw new IngotError('bad-kernel', 'a deferred kernel cannot have atomics', {
        op: name,
        hint: 'its parameters are known before its body is written, which alone shows the atomics; use kernel()',
      })
    }
    return made
  }
  return {
    name,
    origin,
    product: spec.product,
    params: flatten(spec.params).map(([key, param]) => paramOf(key, param)),
    workgroup: sizeOf(spec),
    subgroup: spec.subgroup ?? 0,
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

function sizeOf({ workgroup: [x, y = 1, z = 1] = [1] }: KernelSpec<Params>): readonly [number, number, number] {
  return [x, y, z]
}

/** Parameters in order of binding, by the names that targets and dispatches know: those of a list are numbered. */
function flatten(params: Params): [name: string, spec: ParamSpec][] {
  return Object.entries(params).flatMap(([name, spec]) =>
    'kind' in spec ? [[name, spec]] : spec.map((each, i): [string, ParamSpec] => [`${name}${i}`, each]),
  )
}

function paramOf(name: string, spec: ParamSpec): Param {
  return spec.kind === 'uniform' ? { ...spec, name } : { ...spec, name, atomic: false }
}

class Author implements Scope {
  readonly #build: Builder
  readonly #workgroup: readonly [number, number, number]
  readonly #params: Param[] = []
  readonly #shared: SharedArray[] = []
  /** memories with atomic operations */
  readonly #atomic = new Set<string>()

  constructor(name: string, workgroup: readonly [number, number, number]) {
    this.#build = new Builder(name)
    this.#workgroup = workgroup
  }

  /** Runs `body` with a handle for every parameter. */
  write<P extends Params>(spec: KernelSpec<P>, body: (params: Handles<P>, k: Scope) => void): Kernel {
    const handles = Object.entries(spec.params).map(([name, param]) => [
      name,
      'kind' in param ? this.#handle(name, param) : param.map((each, i) => this.#handle(`${name}${i}`, each)),
    ])
    // What a handle can do follows from its spec, which only the mapped type can say.
    body(Object.fromEntries(handles) as Handles<P>, this)
    const mark = <M extends BufferParam | SharedArray>(memory: M): M => ({ ...memory, atomic: this.#atomic.has(memory.name) })
    return {
      name: this.#build.kernel,
      params: this.#params.map((param) => (param.kind === 'buffer' ? mark(param) : param)),
      workgroup: this.#workgroup,
      subgroup: spec.subgroup ?? 0,
      shared: this.#shared.map(mark),
      body: this.#build.body(),
      interner: this.#build.interner,
    }
  }

  get workgroupId() {
    return this.#axes<'uniform'>('workgroup')
  }
  get gridSize() {
    return this.#axes<'uniform'>('grid')
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
    const [x, y, z] = this.#workgroup
    const axis = (name: 'x' | 'y' | 'z', size: number) =>
      this.#index(`workgroup.${name}`)
        .mul(size)
        .add(this.#index(`lane.${name}`))
    return { x: axis('x', x), y: axis('y', y), z: axis('z', z) }
  }

  const<D extends DType>(dtype: D, value: number | boolean): Value<D, 'uniform'> {
    return this.#value(this.#build.constant(value, dtype))
  }
  let<D extends DType, U extends Uniformity>(name: string, value: Value<D, U>): Value<D, U> {
    const { node } = value
    // An effect was bound a moment ago, by a name of its kind: the author's name takes its place.
    const isRenamed = node.op === 'local' && this.#build.rename(node.arg, name)
    return isRenamed ? value : this.#value(this.#build.bind(name, node))
  }
  var<D extends DType, U extends Uniformity>(name: string, init: Value<D, U>): Var<D> {
    const { dtype } = init.node
    const id = this.#build.variable(name, init.node)
    return {
      get: () => this.#value(this.#build.get(name, id, dtype)),
      set: (value) => this.#build.set(id, this.#lift(value, dtype)),
    }
  }
  vec<S extends Scalar, V extends Vector<S>>(...lanes: readonly Value<S>[]): Value<V> {
    return this.#value(this.#build.vec(lanes.map(({ node }) => node)))
  }
  table<S extends Scalar, U extends Uniformity>(scalar: S, values: readonly number[], index: Value<'u32', U>): Value<S, U> {
    return this.#value(this.#build.apply('table', [index.node], values, scalar))
  }

  when(condition: Value<'bool'>, then: (k: this) => void, otherwise?: (k: this) => void): void {
    this.#build.if(condition.node, () => then(this), otherwise === undefined ? undefined : () => otherwise(this))
  }
  for({ name = 'i', from = 0, to, step = 1, unroll }: Range, body: (i: Value<'u32', 'uniform'>, k: this) => void): void {
    const bounds = [this.#at(from), this.#at(to), this.#at(step)] as const
    this.#build.for(name, bounds, (counter) => body(this.#value(counter), this), unroll)
  }
  loop(body: (k: this) => void): void {
    this.#build.loop(() => body(this))
  }
  breakIf(condition: Value<'bool'>): void {
    this.#build.add('breakIf', [condition.node])
  }
  barrier(): void {
    this.#build.add('barrier', [], 'workgroup')
  }
  subgroupBarrier(): void {
    this.#build.add('barrier', [], 'subgroup')
  }

  subSum<D extends DType>(value: Value<D>): Value<D> {
    return this.#collective('sum', 'subSum', [value])
  }
  subMax<D extends DType>(value: Value<D>): Value<D> {
    return this.#collective('max', 'subMax', [value])
  }
  subMin<D extends DType>(value: Value<D>): Value<D> {
    return this.#collective('min', 'subMin', [value])
  }
  subAny(value: Value<'bool'>): Value<'bool'> {
    return this.#collective('any', 'subAny', [value])
  }
  subAll(value: Value<'bool'>): Value<'bool'> {
    return this.#collective('all', 'subAll', [value])
  }
  subBroadcast<D extends DType>(value: Value<D>, lane: number): Value<D> {
    return this.#collective('first', 'subBroadcast', [value], lane)
  }
  subShuffle<D extends DType>(value: Value<D>, lane: Value<'u32'>): Value<D> {
    return this.#collective('other', 'subShuffle', [value, lane])
  }
  subShuffleXor<D extends DType>(value: Value<D>, mask: number): Value<D> {
    return this.#collective('other', 'subShuffleXor', [value], mask)
  }
  subShuffleDown<D extends DType>(value: Value<D>, distance: number): Value<D> {
    return this.#collective('other', 'subShuffleDown', [value], distance)
  }
  tileFill<S extends 'f32' | 'f16'>(scalar: S, value: number): Value<`${S}t`> {
    return this.#collective('tile', 'tileFill', [this.const(scalar, value)])
  }
  tileMma(a: Value<Tile>, b: Value<Tile>, c: Value<'f32t'>): Value<'f32t'> {
    return this.#collective('tile', 'tileMma', [a, b, c])
  }

  shared<S extends Storage>(name: string, storage: S, length: number): Shared<S> {
    this.#claim(name)
    this.#shared.push({ name, storage, length, atomic: false })
    return this.#memory(name, storage)
  }

  #handle(name: string, spec: ParamSpec): unknown {
    this.#claim(name)
    this.#params.push(paramOf(name, spec))
    return spec.kind === 'uniform' ? this.#value(this.#build.make('uniform', spec.dtype, [], name)) : this.#memory(name, spec.storage)
  }

  /** Everything that can be done to a memory; which of it is allowed, the type of its handle says. */
  #memory<S extends Storage, U extends Uniformity>(mem: string, storage: S): Readable<S, U> & Writable<S> {
    const build = this.#build
    const element = registerOf(storage)
    const at = (index: Index): Node => this.#at(index)
    return {
      at: (index) => this.#value(build.load(mem, at(index), element)),
      load: (index, width, hint) => this.#value(build.load(mem, at(index), vector(scalarOf(element), width), { width, ...hint })),
      tile: (index, row, options) =>
        this.#value(
          build.effect(
            'tile',
            'tileLoad',
            [at(index), at(row)],
            options?.transposed === true ? { mem, transposed: true } : { mem },
            storage === 'f16' ? 'f16t' : 'f32t',
          ),
        ),
      set: (index, value) => build.store(mem, at(index), this.#lift(value, element)),
      store: (index, value) => build.store(mem, at(index), value.node, widthOf(value.node.dtype)),
      setTile: (index, row, tile) => build.add('tileStore', [at(index), at(row), tile.node], { mem }),
      atomic: (kind, index, value) => {
        this.#atomic.add(mem)
        return this.#value(build.effect('old', 'atomic', [at(index), this.#lift(value, element)], { mem, kind }, element))
      },
    }
  }

  #claim(name: string): void {
    const taken = [...this.#params, ...this.#shared].some((other) => other.name === name)
    if (taken || !/^[a-z][A-Za-z0-9]*$/.test(name)) {
      throw new IngotError('bad-kernel', taken ? 'name is used twice' : 'bad name', {
        op: this.#build.kernel,
        got: name,
        hint: 'letters and digits, first a small letter',
      })
    }
  }

  #value<D extends DType, U extends Uniformity>(node: Node): Value<D, U> {
    return new Value(this.#build, node)
  }
  #lift(operand: Value<DType> | number, dtype: DType): Node {
    return this.#build.lift(typeof operand === 'number' ? operand : operand.node, dtype)
  }
  #at(index: Index): Node {
    return this.#lift(index, 'u32')
  }
  #index<U extends Uniformity>(name: IndexName): Value<'u32', U> {
    return this.#value(this.#build.index(name))
  }
  #axes<U extends Uniformity>(what: 'workgroup' | 'grid' | 'lane') {
    return { x: this.#index<U>(`${what}.x`), y: this.#index<U>(`${what}.y`), z: this.#index<U>(`${what}.z`) }
  }
  #collective<D extends DType>(name: string, op: OpName, src: readonly Value<DType>[], arg: number | null = null): Value<D> {
    return this.#value(
      this.#build.effect(
        name,
        op,
        src.map(({ node }) => node),
        arg,
      ),
    )
  }
}
