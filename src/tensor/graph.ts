// Walking and changing graphs of nodes. Nodes are never changed: what replaces one makes new ones of all that read it. Graphs may be deep,
// so nothing here calls itself.

import { type TensorNode, operandsOf } from './node.ts'

/** Every node below the roots once, operands before those that read them, in the order of the roots. `numbers` is told their places. */
export function operandsFirst(roots: readonly TensorNode[], numbers = new Map<TensorNode, number>()): TensorNode[] {
  const order: TensorNode[] = []
  const stack: TensorNode[] = []
  /** Puts those on the stack that are not in order yet, the first on top; gives how many. */
  const push = (nodes: readonly TensorNode[]): number => {
    const before = stack.length
    for (let i = nodes.length - 1; i >= 0; i--) {
      const node = nodes[i]
      if (node !== undefined && !numbers.has(node)) stack.push(node)
    }
    return stack.length - before
  }
  push(roots)
  for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
    if (numbers.has(node)) stack.pop()
    else if (push(operandsOf(node)) === 0) {
      stack.pop()
      numbers.set(node, order.push(node) - 1)
    }
  }
  return order
}

/** Everything below some roots, operands first. */
export interface Graph {
  readonly roots: readonly TensorNode[]
  readonly nodes: readonly TensorNode[]
}

export function graphOf(roots: readonly TensorNode[]): Graph {
  return { roots, nodes: operandsFirst(roots) }
}

/** The same operation on other operands, which fit as the old ones did. */
export function withOperands(node: TensorNode, src: readonly TensorNode[]): TensorNode {
  const isSame = operandsOf(node).every((operand, i) => operand === src[i])
  return isSame ? node : ({ ...node, src } as TensorNode) // as many as there were
}

/** Gives, for a node whose operands were replaced already, what takes its place; undefined: it stays. */
export type Replace = (node: TensorNode, original: TensorNode) => TensorNode | undefined

/** What takes the place of every node of a graph. Shared nodes stay shared. */
export function replaceNodes({ nodes }: Graph, replace: Replace): (node: TensorNode) => TensorNode {
  /** of those that changed */
  const done = new Map<TensorNode, TensorNode>()
  const of = (node: TensorNode): TensorNode => done.get(node) ?? node
  for (const original of nodes) {
    const operands = operandsOf(original)
    const node = operands.some((operand) => done.has(operand)) ? withOperands(original, operands.map(of)) : original
    const replaced = replace(node, original) ?? node
    if (replaced !== original) done.set(original, replaced)
  }
  return of
}

/** How many read each node; the roots are read once more, by whoever asked for them. */
export function countReaders({ nodes, roots }: Graph): ReadonlyMap<TensorNode, number> {
  const readers = new Map<TensorNode, number>()
  const count = (node: TensorNode): void => void readers.set(node, (readers.get(node) ?? 0) + 1)
  roots.forEach(count)
  for (const node of nodes) {
    const operands = operandsOf(node)
    operands.forEach((operand, i) => {
      if (operands.indexOf(operand) === i) count(operand)
    })
  }
  return readers
}
