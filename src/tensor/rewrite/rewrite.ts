// A rewrite makes a graph better for a device without changing what it means. Each is a rule for one node at a time; rewrite/index.ts
// lists them in order. A rule sees a node whose operands are rewritten already.

import type { Caps } from '../../base/caps.ts'
import { type Graph, countReaders, graphOf, replaceNodes } from '../graph.ts'
import { type TensorNode, operandsOf } from '../node.ts'

/** The operand of that number, if nobody else reads it. */
export type Only = (operand: number) => TensorNode | undefined

/** What takes the place of a node; undefined: it stays. */
export type Rule = (node: TensorNode, only: Only) => TensorNode | undefined

export interface Rewrite {
  readonly name: string
  readonly about: string
  /** Whether the rule may be for a node; a graph without such nodes is left as it is. */
  concerns(node: TensorNode): boolean
  /** applied until nothing changes: it makes what it rewrites itself */
  readonly again?: true
  /** Begins a graph; what it gives may remember what it made. */
  begin(caps: Caps): Pass
}
export interface Pass {
  readonly rule: Rule
  /** What takes the place of a root, after all rules. */
  finish?(root: TensorNode): TensorNode
}

/** Applies one rewrite to a graph. */
export function applyRewrite(graph: Graph, rewrite: Rewrite, caps: Caps): Graph {
  const { roots, nodes } = graph
  if (!nodes.some((node) => rewrite.concerns(node))) return graph
  const readers = countReaders(graph)
  const { rule, finish = (root) => root } = rewrite.begin(caps)
  const of = replaceNodes(graph, (node, original) => {
    if (!rewrite.concerns(node)) return undefined
    const originals = operandsOf(original)
    const only: Only = (i) => {
      const operand = originals[i]
      return operand !== undefined && readers.get(operand) === 1 ? operandsOf(node)[i] : undefined
    }
    return rule(node, only)
  })
  const result = roots.map((root) => finish(of(root)))
  if (result.every((root, i) => root === roots[i])) return graph
  const rewritten = graphOf(result)
  return rewrite.again === true ? applyRewrite(rewritten, rewrite, caps) : rewritten
}
