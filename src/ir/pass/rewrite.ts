// What passes share when they write a kernel anew: a builder that folds, expressions rebuilt in it, statements copied, loops and
// branches left out where they are decided. Passes differ in what they change; how it is written is here and in build.ts.

import type { DType } from '../../base/dtype.ts'
import { Builder } from '../build.ts'
import type { Kernel } from '../kernel.ts'
import { type Node, blocksOf, isDeclaration, valuesOf, walk } from '../node.ts'
import { Value } from '../value.ts'
import { constantOf } from './constant.ts'
import { Folder } from './fold.ts'

/** A builder for what a pass makes of a kernel: it folds, and the kernel's ids are taken. */
export function builderFor(kernel: Kernel): Builder {
  return new Builder(kernel.name, { interner: new Folder(), firstId: countIds(kernel.body) })
}

/** One more than the largest id. */
function countIds(body: Node): number {
  let count = 0
  walk(body, (node) => {
    if (isDeclaration(node)) count = Math.max(count, node.arg.id + 1)
  })
  return count
}

/** The kernel as before, with what was built as its body. */
export function finish(
  builder: Builder,
  kernel: Kernel,
  changes: Partial<Pick<Kernel, 'params' | 'workgroup' | 'subgroup' | 'shared'>> = {},
): Kernel {
  return { ...kernel, ...changes, body: builder.body(), interner: builder.interner }
}

/** Rebuilds expressions, each once, operands first; `change` may give another node instead of one. */
export function rebuilder(builder: Builder, change: (node: Node) => Node | undefined = () => undefined): (node: Node) => Node {
  const done = new Map<Node, Node>()
  const expression = (node: Node): Node => {
    const known = done.get(node)
    if (known !== undefined) return known
    const made = change(node) ?? builder.make(node.op, node.dtype, node.src.map(expression), node.arg)
    done.set(node, made)
    return made
  }
  return expression
}

/** Adds a statement again, its operands and the statements of its blocks changed. */
export function copy(builder: Builder, node: Node, expression: (node: Node) => Node, statement: (node: Node) => void): void {
  const values = valuesOf(node).map(expression)
  const blocks = blocksOf(node).map(({ src }) => builder.block(() => src.forEach(statement)))
  builder.add(node.op, [...values, ...blocks], node.arg)
}

/** A branch, or what is in it if the condition is known to hold. */
export function when(builder: Builder, condition: Node, then: () => void): void {
  if (constantOf(condition) === 1) then()
  else builder.if(condition, then)
}

/** Counts from 0 to below `count`; once is no loop. */
export function repeat(builder: Builder, name: string, count: number, step: number, body: (at: Value<'u32'>) => void): void {
  if (count <= step) return body(u32(builder, 0))
  const bounds = [builder.constant(0, 'u32'), builder.constant(count, 'u32'), builder.constant(step, 'u32')] as const
  return builder.for(name, bounds, (at) => body(new Value(builder, at)))
}

/** A node as a value, to write formulas with. */
export function valueOf<D extends DType>(builder: Builder, node: Node): Value<D> {
  return new Value(builder, node)
}

export function u32(builder: Builder, value: number): Value<'u32'> {
  return new Value(builder, builder.constant(value, 'u32'))
}
