// Which names of a kernel's body are used, directly or through other names that are. Compilers warn about the rest, so the
// emitter leaves them out.

import { type Node, walk } from '../ir/node.ts'
import { opRecord } from '../ir/op.ts'

/** Ids of the `let`s and `var`s that something visible depends on. */
export function findLive(body: Node): ReadonlySet<number> {
  const values = new Map<number, Node[]>()
  const roots: Node[] = []
  walk(body, (node) => {
    if (node.op === 'let' || node.op === 'var' || node.op === 'set') {
      values.set(idOf(node), [...(values.get(idOf(node)) ?? []), node.src[0] as Node])
      if (node.src[0]?.op === 'atomic') roots.push(node.src[0])
    } else if (opRecord(node.op).kind === 'statement') roots.push(...node.src.filter(({ op }) => opRecord(op).kind !== 'statement'))
  })
  const live = new Set<number>()
  const seen = new Set<Node>()
  const mark = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    if (node.op === 'local' || node.op === 'get') {
      live.add(idOf(node))
      values.get(idOf(node))?.forEach(mark)
    }
    node.src.forEach(mark)
  }
  roots.forEach(mark)
  return live
}

/** The id that a `let`, `var`, `for` gives, or that a `set`, `get` or `local` names. */
export function idOf(node: Node): number {
  return typeof node.arg === 'number' ? node.arg : Number((node.arg as { id: number }).id)
}
