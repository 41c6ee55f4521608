// The one builder of kernels: nodes in, nodes out, nothing typed. It makes values (by an interner, which may fold what it is asked
// for), binds them, and adds statements to the block that is being filled. The typed face for authors is author.ts; passes
// write with it what they change (pass/rewrite.ts). Knows neither parameters nor passes.
//
// Invariants: ids that it gives out are fresh; a statement goes to the innermost open block; a value is nowhere until a
// statement uses it.

import { type DType, asWidth, isFloat, isTile, scalarOf, vector, widthOf } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { Interner, type Node } from './node.ts'
import { type Arg, type IndexName, type OpName, opRecord } from './op.ts'

export interface BuilderOptions {
  readonly interner?: Interner
  /** ids below this are taken */
  readonly firstId?: number
}

export class Builder {
  /** name of the kernel, which errors carry */
  readonly kernel: string
  readonly interner: Interner
  #block: Node[] = []
  #nextId: number

  constructor(kernel: string, { interner = new Interner(), firstId = 0 }: BuilderOptions = {}) {
    this.kernel = kernel
    this.interner = interner
    this.#nextId = firstId
  }

  // ---- values

  /** A node whose type is known. */
  make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    return this.interner.make(op, dtype, src, arg)
  }

  /** A node whose type the op's rule finds, after checking the operands. `stated` is needed where the rule wants a stated result. */
  apply(op: OpName, src: readonly Node[], arg: Arg = null, stated: DType = 'void'): Node {
    const type = opRecord(op).type(
      src.map(({ dtype }) => dtype),
      arg,
      stated,
    )
    if (typeof type !== 'string') {
      throw new IngotError('bad-kernel', type.wrong, { op: `${this.kernel}: ${op}`, hint: 'convert with .to() or .as()' })
    }
    return this.interner.make(op, type, src, arg)
  }

  /** A scalar constant, or one in every lane of a vector. */
  constant(value: number | boolean, dtype: DType): Node {
    if (dtype === 'void' || isTile(dtype)) throw new IngotError('bad-kernel', `no constant of type ${dtype}`, { op: this.kernel })
    const scalar = scalarOf(dtype)
    const number = Number(value)
    const [low, high] = scalar === 'i32' ? [-(2 ** 31), 2 ** 31] : [0, 2 ** 32]
    const fits = isFloat(scalar) || (Number.isInteger(number) && number >= low && number < high)
    if (!fits) throw new IngotError('bad-kernel', 'constant does not fit its type', { op: this.kernel, got: value, wanted: scalar })
    return this.lift(this.make('const', scalar, [], scalar === 'f32' ? Math.fround(number) : value), dtype)
  }

  /** A number, or a scalar that is to be in every lane of a vector, as a node of `dtype`. */
  lift(operand: Node | number, dtype: DType): Node {
    if (typeof operand === 'number') return this.constant(operand, dtype)
    const isSpread = operand.dtype !== dtype && widthOf(dtype) > 1 && operand.dtype === scalarOf(dtype)
    return isSpread ? this.make('splat', dtype, [operand]) : operand
  }

  /** A vector of these scalars, which are of one type. */
  vec(lanes: readonly Node[]): Node {
    const scalar = lanes[0] === undefined ? 'f32' : scalarOf(lanes[0].dtype)
    return this.apply('vec', lanes, null, vector(scalar, asWidth(lanes.length)))
  }

  index(name: IndexName): Node {
    return this.make('index', 'u32', [], name)
  }

  local(id: number, dtype: DType): Node {
    return this.make('local', dtype, [], id)
  }

  // ---- names

  freshId(): number {
    return this.#nextId++
  }

  /** Binds a value here, and gives the name it is known by from here on. */
  bind(name: string, value: Node, id = this.freshId()): Node {
    this.add('let', [value], { id, name })
    return this.local(id, value.dtype)
  }

  /** Gives the value that was bound last another name; false if that was another value. */
  rename(id: number, name: string): boolean {
    const last = this.#block.at(-1)
    if (last?.op !== 'let' || last.arg.id !== id) return false
    this.#block[this.#block.length - 1] = this.make('let', 'void', last.src, { id, name })
    return true
  }

  /** An operation whose value depends on when it happens: it happens here. */
  effect(name: string, op: OpName, src: readonly Node[], arg: Arg = null, stated: DType = 'void'): Node {
    return this.bind(name, this.apply(op, src, arg, stated))
  }

  /** Declares a variable, and gives its id. */
  variable(name: string, init: Node): number {
    const id = this.freshId()
    this.add('var', [init], { id, name })
    return id
  }

  get(name: string, id: number, dtype: DType): Node {
    return this.effect(name, 'get', [], id, dtype)
  }

  set(id: number, value: Node): void {
    this.add('set', [value], id)
  }

  // ---- memory

  load(mem: string, index: Node, dtype: DType, options: { readonly width?: number; readonly ahead?: number } = {}): Node {
    return this.effect(mem, 'load', [index], { mem, ...options }, dtype)
  }

  /** Stores one element, or as a vector `width` of them. */
  store(mem: string, index: Node, value: Node, width?: number): void {
    this.add('store', [index, value], width === undefined ? { mem } : { mem, width })
  }

  // ---- statements

  add(op: OpName, src: readonly Node[], arg: Arg = null): void {
    this.#block.push(this.apply(op, src, arg))
  }

  /** What `write` adds, as a block of its own. */
  block(write: () => void): Node {
    const outer = this.#block
    this.#block = []
    try {
      write()
      return this.body()
    } finally {
      this.#block = outer
    }
  }

  if(condition: Node, then: () => void, otherwise?: () => void): void {
    const blocks = [then, otherwise].flatMap((write) => (write === undefined ? [] : [this.block(write)]))
    this.add('if', [condition, ...blocks])
  }

  /** Counts from the first bound to below the second by the third. */
  for(name: string, bounds: readonly [Node, Node, Node], body: (counter: Node) => void, unroll?: boolean | number): void {
    const id = this.freshId()
    const block = this.block(() => body(this.local(id, 'u32')))
    this.add('for', [...bounds, block], unroll === undefined ? { id, name } : { id, name, unroll })
  }

  loop(body: () => void): void {
    this.add('loop', [this.block(body)])
  }

  /** What has been added to the open block. */
  body(): Node {
    return this.make('block', 'void', this.#block)
  }
}
