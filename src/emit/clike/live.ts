// Which names of a kernel's body are used, directly or through other names that are. Compilers warn about the rest, so the
// emitter leaves them out.

import { type Node, changesMemory, idOf, valuesOf, walk } from '../../ir/node.ts'
import { opRecord } from '../../ir/op.ts'

/** Ids of the `let`s and `var`s that something visible depends on. */
export function findLive(body: Node): ReadonlySet<number> {
  const values = new Map<number, Node[]>()
  const roots: Node[] = []
  walk(body, (node) => {
    if (node.op === 'let' || node.op === 'var' || node.op === 'set') {
      const [value] = node.src
      values.set(idOf(node), [...(values.get(idOf(node)) ?? []), value])
      if (changesMemory(value)) roots.push(value)
    } else if (node.op !== 'block' && opRecord(node.op).kind === 'statement') roots.push(...valuesOf(node))
  })
  const live = new Set<number>()
  const seen = new Set<Node>()
  const mark = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    if (node.op === 'local' || node.op === 'get') {
      live.add(node.arg)
      values.get(node.arg)?.forEach(mark)
    }
    node.src.forEach(mark)
  }
  roots.forEach(mark)
  return live
}
