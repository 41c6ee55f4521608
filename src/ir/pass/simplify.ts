// Pass: makes a kernel smaller without changing what it does. Expressions are folded by the Folder; here is what concerns
// statements: branches and loops that are decided, and lets and variables that nobody reads.

import type { Kernel } from '../kernel.ts'
import { type Node, walk } from '../node.ts'
import { constantOf } from './constant.ts'
import { Writer, idOf } from './writer.ts'

export function simplify(kernel: Kernel): Kernel {
  return dropDead(foldStatements(kernel))
}

function foldStatements(kernel: Kernel): Kernel {
  const writer = new Writer(kernel)
  /** what to use instead of a local */
  const known = new Map<number, Node>()
  const done = new Map<Node, Node>()

  function expression(node: Node): Node {
    const before = done.get(node)
    if (before !== undefined) return before
    const found = node.op === 'local' ? known.get(node.arg as number) : undefined
    const made = found ?? writer.make(node.op, node.dtype, node.src.map(expression), node.arg)
    done.set(node, made)
    return made
  }

  function block(node: Node): Node {
    return writer.inside(() => {
      for (const child of node.src) statement(child)
    })
  }

  function statement(node: Node): void {
    switch (node.op) {
      case 'let': {
        const value = expression(node.src[0] as Node)
        // a name for a constant or another name says nothing new
        if (value.op === 'const' || value.op === 'local') known.set(idOf(node.arg), value)
        else writer.add('let', [value], node.arg)
        return
      }
      case 'if':
        return branch(node)
      case 'for':
        return count(node)
      case 'loop':
        return writer.add('loop', [block(node.src[0] as Node)])
      default:
        return writer.add(node.op, node.src.map(expression), node.arg)
    }
  }

  function branch(node: Node): void {
    const [condition, then, otherwise] = [expression(node.src[0] as Node), node.src[1] as Node, node.src[2]]
    const decided = constantOf(condition)
    if (decided !== undefined) {
      for (const child of (decided === 0 ? otherwise : then)?.src ?? []) statement(child)
      return
    }
    const yes = block(then)
    const no = otherwise === undefined ? undefined : block(otherwise)
    const empty = no === undefined || no.src.length === 0
    if (yes.src.length > 0) writer.add('if', empty ? [condition, yes] : [condition, yes, no])
    else if (!empty) writer.add('if', [writer.make('not', 'bool', [condition]), no])
  }

  function count(node: Node): void {
    const bounds = node.src.slice(0, 3).map(expression)
    const [from, to, step] = bounds.map(constantOf)
    if (from !== undefined && to !== undefined && from >= to) return
    if (from !== undefined && to !== undefined && step !== undefined && from + step >= to) {
      known.set(idOf(node.arg), bounds[0] as Node)
      for (const child of (node.src[3] as Node).src) statement(child)
      return
    }
    const body = block(node.src[3] as Node)
    if (body.src.length > 0) writer.add('for', [...bounds, body], node.arg)
  }

  for (const child of kernel.body.src) statement(child)
  return writer.finish(kernel)
}

/** Removes lets and variables that nobody reads, and what becomes empty by that. Atomics stay: they change memory. */
export function dropDead(kernel: Kernel): Kernel {
  const { interner } = kernel
  const used = new Set<number>()
  const seen = new Set<Node>()
  const read = new Set<number>()
  walk(kernel.body, ({ op, arg }) => {
    if (op === 'get') read.add(arg as number)
  })

  function mark(node: Node): void {
    if (seen.has(node)) return
    seen.add(node)
    if (node.op === 'local') used.add(node.arg as number)
    for (const child of node.src) if (child.op !== 'block') mark(child)
  }

  // uses follow definitions, so going backwards sees every use first
  function block(node: Node): Node {
    const kept: Node[] = []
    for (let at = node.src.length - 1; at >= 0; at--) {
      const made = statement(node.src[at] as Node)
      if (made !== undefined) kept.push(made)
    }
    return interner.make('block', 'void', kept.toReversed())
  }

  function statement(node: Node): Node | undefined {
    if (node.op === 'let' && !used.has(idOf(node.arg)) && node.src[0]?.op !== 'atomic') return undefined
    if (node.op === 'var' && !read.has(idOf(node.arg))) return undefined
    if (node.op === 'set' && !read.has(node.arg as number)) return undefined
    const src = node.src.map((child) => (child.op === 'block' ? block(child) : child))
    const blocks = src.filter(({ op }) => op === 'block')
    if ((node.op === 'if' || node.op === 'for') && blocks.every((each) => each.src.length === 0)) return undefined
    for (const child of src) if (child.op !== 'block') mark(child)
    return interner.make(node.op, node.dtype, src, node.arg)
  }

  return { ...kernel, body: block(kernel.body) }
}
