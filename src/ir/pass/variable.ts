// What is known of variables without running anything: which reads see a value that has a name already, and which may see what the
// variable held before. Used by simplify and by serialize; knows nothing of lanes.

import type { Kernel } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, changesMemory, idOf, valuesOf, walk } from '../node.ts'
import { isLeaf, opRecord } from '../op.ts'
import { builderFor, copy, finish, rebuilder } from './rewrite.ts'

/** Reads of a variable that surely holds a constant or a named value become that. Sets that nobody reads any more stay. */
export function forwardSets(kernel: Kernel): Kernel {
  const builder = builderFor(kernel)
  const written = writtenIn()
  /** what to use instead of a local */
  const known = new Map<number, Node>()
  const expression = rebuilder(builder, (node) => (node.op === 'local' ? known.get(node.arg) : undefined))
  /** what variables hold here */
  let held = new Map<number, Node>()

  function statement(node: Node): void {
    switch (node.op) {
      case 'let': {
        const [value] = node.src
        const found = value.op === 'get' ? held.get(value.arg) : undefined
        if (found !== undefined) known.set(node.arg.id, found)
        else {
          copy(builder, node, expression, statement)
          // until it is set again, the variable holds what has this name
          if (value.op === 'get') held.set(value.arg, builder.local(node.arg.id, value.dtype))
        }
        return
      }
      case 'var':
      case 'set': {
        copy(builder, node, expression, statement)
        const value = expression(node.src[0])
        if (isLight(value)) held.set(idOf(node), value)
        else held.delete(idOf(node))
        return
      }
      default:
        return opRecord(node.op).blocks === undefined ? copy(builder, node, expression, statement) : nest(node)
    }
  }

  /** What a loop changes is unknown from its beginning on, what a branch changes after it. */
  function nest(node: Node): void {
    const changed = written(node)
    const forget = (): void => changed.forEach((id) => held.delete(id))
    if (opRecord(node.op).blocks === 'loop') forget()
    const before = held
    const blocks = blocksOf(node).map(({ src }) => {
      held = new Map(before)
      return builder.block(() => src.forEach(statement))
    })
    held = before
    forget()
    builder.add(node.op, [...node.src.filter(({ op }) => op !== 'block').map(expression), ...blocks], node.arg)
  }

  kernel.body.src.forEach(statement)
  return finish(builder, kernel)
}

/** Costs next to nothing, wherever it is computed again. */
function isLight({ op, src: [first] }: Node): boolean {
  return isLeaf(op) || ((op === 'not' || op === 'splat') && first !== undefined && isLeaf(first.op))
}

/** The variables that are set in a statement. */
function writtenIn(): (node: Node) => ReadonlySet<number> {
  const done = new Map<Node, ReadonlySet<number>>()
  const written = (node: Node): ReadonlySet<number> => {
    let ids = done.get(node)
    if (ids === undefined) {
      const inner = (node.op === 'block' ? node.src : blocksOf(node)).flatMap((each) => [...written(each)])
      ids = new Set(node.op === 'set' ? [node.arg] : inner)
      done.set(node, ids)
    }
    return ids
  }
  return written
}

/** The variables whose values reach anything but sets of variables that reach nothing. */
export function liveVariables(body: Node): ReadonlySet<number> {
  const live = new Set<number>()
  const seen = new Set<Node>()
  const named = new Map<number, Node>()
  const values = new Map<number, Node[]>()
  const roots: Node[] = []
  walk(body, (node) => {
    if (node.op === 'let') named.set(node.arg.id, node.src[0])
    if (node.op === 'var' || node.op === 'set') values.set(idOf(node), [...(values.get(idOf(node)) ?? []), node.src[0]])
    else if (opRecord(node.op).kind === 'statement' && node.op !== 'let' && node.op !== 'block') roots.push(...valuesOf(node))
    else if (changesMemory(node)) roots.push(node)
  })
  for (let node = roots.pop(); node !== undefined; node = roots.pop()) {
    if (seen.has(node)) continue
    seen.add(node)
    roots.push(...node.src)
    const value = node.op === 'local' ? named.get(node.arg) : undefined
    if (value !== undefined) roots.push(value)
    if (node.op !== 'get') continue
    live.add(node.arg)
    roots.push(...(values.get(node.arg) ?? []))
  }
  return live
}

/** How statements, one after the other, use variables of theirs and of what is around them. */
export interface Usage {
  /** read before they are surely set */
  readonly exposed: ReadonlySet<number>
  /** surely set in the end */
  readonly definite: ReadonlySet<number>
  /** set somewhere */
  readonly set: ReadonlySet<number>
  readonly read: ReadonlySet<number>
}

/** A declaration does not count as a set: what it begins with is what was there before. */
export function usageOf(statements: readonly Node[]): Usage {
  const exposed = new Set<number>()
  const [set, read] = [new Set<number>(), new Set<number>()]

  function run(list: readonly Node[], before: ReadonlySet<number>): Set<number> {
    const sure = new Set(before)
    for (const node of list) step(node, sure)
    return sure
  }

  function step(node: Node, sure: Set<number>): void {
    switch (node.op) {
      case 'let': {
        const [value] = node.src
        if (value.op !== 'get') return
        read.add(value.arg)
        if (!sure.has(value.arg)) exposed.add(value.arg)
        return
      }
      case 'set':
        set.add(node.arg)
        sure.add(node.arg)
        return
      case 'if':
        return branch(node, sure)
      case 'for':
        run(node.src[3].src, sure)
        return
      case 'loop':
        return repeat(node, sure)
      default:
    }
  }

  function branch({ src: [, yes, no] }: NodeOf<'if'>, sure: Set<number>): void {
    const [then, otherwise] = [run(yes.src, sure), no === undefined ? sure : run(no.src, sure)]
    for (const id of then) if (otherwise.has(id)) sure.add(id)
  }

  /** Up to where it may be left first, the body has surely run once. */
  function repeat({ src: [body] }: NodeOf<'loop'>, sure: Set<number>): void {
    run(body.src, sure)
    const first = body.src.findIndex((node) => leaves(node))
    for (const node of body.src.slice(0, first)) step(node, sure)
  }

  const definite = run(statements, new Set())
  return { exposed, definite, set, read }
}

/** True if a statement may leave the loop that it stands in. */
export function leaves(node: Node): boolean {
  if (node.op === 'breakIf') return true
  return node.op === 'if' && blocksOf(node).some(({ src }) => src.some((inner) => leaves(inner)))
}
