// Writes the statements of the kernel that a pass makes: an interner that simplifies, fresh ids for locals, and the block that
// is being filled. Passes differ in what they write; how it is written is here. Knows no pass.

import type { DType } from '../../base/dtype.ts'
import type { Kernel } from '../kernel.ts'
import { type Node, walk } from '../node.ts'
import type { Arg, OpName } from '../op.ts'
import { type Maker, Value } from '../value.ts'
import { constantOf } from './constant.ts'
import { Folder } from './fold.ts'

export class Writer implements Maker {
  readonly interner = new Folder()
  readonly kernel: string
  #locals: number
  #block: Node[] = []

  constructor(kernel: Kernel) {
    this.kernel = kernel.name
    this.#locals = countLocals(kernel.body)
  }

  make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    return this.interner.make(op, dtype, src, arg)
  }

  /** A node as a value, to write formulas with. */
  value<D extends DType>(node: Node): Value<D> {
    return new Value(this, node)
  }

  u32(value: number): Value<'u32'> {
    return new Value(this, this.interner.constant(value, 'u32'))
  }

  add(op: OpName, src: readonly Node[], arg: Arg = null): void {
    this.#block.push(this.interner.make(op, 'void', src, arg))
  }

  /** Adds a statement that is already a node of this writer. */
  put(statement: Node): void {
    this.#block.push(statement)
  }

  /** Adds a statement again, its operands and the statements of its blocks changed. */
  copy(node: Node, expression: (node: Node) => Node, statement: (node: Node) => void): void {
    const block = ({ src }: Node): Node => this.inside(() => src.forEach(statement))
    this.add(
      node.op,
      node.src.map((child) => (child.op === 'block' ? block(child) : expression(child))),
      node.arg,
    )
  }

  freshId(): number {
    return this.#locals++
  }

  /** Binds a value here and gives its name. */
  bind(name: string, node: Node, id = this.freshId()): Node {
    this.add('let', [node], { id, name })
    return this.interner.make('local', node.dtype, [], id)
  }

  load(mem: string, index: Value<'u32'>, dtype: DType, width?: number): Node {
    return this.bind(mem, this.make('load', dtype, [index.node], width === undefined ? { mem } : { mem, width }))
  }

  store(mem: string, index: Value<'u32'>, node: Node, width?: number): void {
    this.add('store', [index.node, node], width === undefined ? { mem } : { mem, width })
  }

  /** The statements that `write` adds, as a block. */
  inside(write: () => void): Node {
    const outer = this.#block
    this.#block = []
    try {
      write()
      return this.interner.make('block', 'void', this.#block)
    } finally {
      this.#block = outer
    }
  }

  if(condition: Node, then: () => void): void {
    if (constantOf(condition) === 1) then()
    else this.add('if', [condition, this.inside(then)])
  }

  /** Counts from 0 to `count`; once is no loop. */
  repeat(name: string, count: number, step: number, body: (at: Value<'u32'>) => void): void {
    if (count <= step) return body(this.u32(0))
    const id = this.freshId()
    const at = this.make('local', 'u32', [], id)
    const block = this.inside(() => body(this.value(at)))
    return this.add('for', [this.u32(0).node, this.u32(count).node, this.u32(step).node, block], { id, name })
  }

  /** The kernel as before, with what was written as its body. */
  finish(kernel: Kernel, changes: Partial<Pick<Kernel, 'params' | 'workgroup' | 'subgroup' | 'shared'>> = {}): Kernel {
    const body = this.interner.make('block', 'void', this.#block)
    return { ...kernel, ...changes, body, interner: this.interner }
  }
}

/** One more than the largest id of a local. */
function countLocals(body: Node): number {
  let count = 0
  walk(body, ({ op, arg }) => {
    if (op === 'let' || op === 'var' || op === 'for') count = Math.max(count, idOf(arg) + 1)
  })
  return count
}

/** The id in the argument of a `let`, `var` or `for`. */
export function idOf(arg: Arg): number {
  return (arg as { readonly id: number }).id
}

export function nameOf(arg: Arg): string {
  return (arg as { readonly name: string }).name
}

export function memOf(arg: Arg): string {
  return (arg as { readonly mem: string }).mem
}

/** The number of elements that a load or store moves as one vector; undefined for one element. */
export function widthArg(arg: Arg): number | undefined {
  return (arg as { readonly width?: number }).width
}
