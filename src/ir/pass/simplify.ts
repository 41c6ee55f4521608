// Pass: makes a kernel smaller without changing what it does. Expressions are folded by the Folder; here is what concerns
// statements: branches and loops that are decided, and lets and variables that nobody reads.

import type { Kernel } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, changesMemory, valuesOf, walk } from '../node.ts'
import { constantOf, splatOf } from './constant.ts'
import { decideRanges } from './range.ts'
import { builderFor, finish, rebuilder } from './rewrite.ts'
import { forwardSets, leaves, liveVariables } from './variable.ts'

export function simplify(kernel: Kernel): Kernel {
  return dropDead(foldStatements(decideRanges(forwardSets(kernel))))
}

function foldStatements(kernel: Kernel): Kernel {
  const builder = builderFor(kernel)
  /** what to use instead of a local */
  const known = new Map<number, Node>()
  const expression = rebuilder(builder, (node) => (node.op === 'local' ? known.get(node.arg) : undefined))
  const block = (node: Node): Node => builder.block(() => node.src.forEach(statement))

  function statement(node: Node): void {
    switch (node.op) {
      case 'let': {
        const value = expression(node.src[0])
        // a name for a constant or another name says nothing new
        if (value.op === 'const' || value.op === 'local' || splatOf(value) !== undefined) known.set(node.arg.id, value)
        else builder.add('let', [value], node.arg)
        return
      }
      case 'if':
        return branch(node)
      case 'for':
        return count(node)
      case 'loop':
        return builder.add('loop', [block(node.src[0])])
      default:
        return builder.add(node.op, node.src.map(expression), node.arg)
    }
  }

  function branch({ src: [decision, then, otherwise] }: NodeOf<'if'>): void {
    const condition = expression(decision)
    const decided = constantOf(condition)
    if (decided !== undefined) {
      ;(decided === 0 ? otherwise : then)?.src.forEach(statement)
      return
    }
    const yes = block(then)
    const no = otherwise === undefined ? undefined : block(otherwise)
    const empty = no === undefined || no.src.length === 0
    if (yes.src.length > 0) builder.add('if', empty ? [condition, yes] : [condition, yes, no])
    else if (!empty) builder.add('if', [builder.make('not', 'bool', [condition]), no])
  }

  function count({ src: [first, end, step, body], arg }: NodeOf<'for'>): void {
    const bounds = [first, end, step].map(expression)
    const [from, to, by] = bounds.map(constantOf)
    if (from !== undefined && to !== undefined && from >= to) return
    if (from !== undefined && to !== undefined && by !== undefined && from + by >= to) {
      known.set(arg.id, expression(first))
      body.src.forEach(statement)
      return
    }
    const inner = block(body)
    if (inner.src.length > 0) builder.add('for', [...bounds, inner], arg)
  }

  kernel.body.src.forEach(statement)
  return finish(builder, kernel)
}

/** The variables that are read in a statement. */
function readIn(statement: Node): number[] {
  const ids: number[] = []
  walk(statement, (node) => {
    if (node.op === 'get') ids.push(node.arg)
  })
  return ids
}

/** Removes lets and variables that nobody reads, and what becomes empty by that. What changes memory stays. */
export function dropDead(kernel: Kernel): Kernel {
  const { interner } = kernel
  const used = new Set<number>()
  const seen = new Set<Node>()
  const read = liveVariables(kernel.body)

  function mark(node: Node): void {
    if (seen.has(node)) return
    seen.add(node)
    if (node.op === 'local') used.add(node.arg)
    for (const child of node.src) mark(child)
  }

  // uses follow definitions, so going backwards sees every use first
  function block(node: Node): Node {
    const kept: Node[] = []
    /** variables that are set before they are read, from here on */
    const overwritten = new Set<number>()
    for (const each of node.src.toReversed()) {
      const made = each.op === 'set' && overwritten.has(each.arg) ? undefined : statement(each)
      if (made === undefined) continue
      kept.push(made)
      if (each.op === 'set') overwritten.add(each.arg)
      else for (const id of readIn(each)) overwritten.delete(id)
      if (leaves(each)) overwritten.clear()
    }
    return interner.make('block', 'void', kept.toReversed())
  }

  function isDead(node: Node): boolean {
    if (node.op === 'let') return !used.has(node.arg.id) && !changesMemory(node.src[0])
    if (node.op === 'var') return !read.has(node.arg.id)
    return node.op === 'set' && !read.has(node.arg)
  }

  function statement(node: Node): Node | undefined {
    if (isDead(node)) return undefined
    const blocks = blocksOf(node).map(block)
    if ((node.op === 'if' || node.op === 'for') && blocks.every((each) => each.src.length === 0)) return undefined
    const values = valuesOf(node)
    values.forEach(mark)
    return interner.make(node.op, node.dtype, [...values, ...blocks], node.arg)
  }

  return { ...kernel, body: block(kernel.body) }
}
