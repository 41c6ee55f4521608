// Walking and changing graphs of nodes. Nodes are never changed: what replaces one makes new ones of all that read it. Graphs may be deep,
// so nothing here calls itself.

import { type TensorNode, operandsOf } from './node.ts'

/** Every node below the roots once, operands before those that read them, in the order of the roots. */
export function operandsFirst(roots: readonly TensorNode[]): TensorNode[] {
  const order: TensorNode[] = []
  const state = new Map<TensorNode, 'open' | 'done'>()
  const stack = roots.toReversed()
  for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
    if (state.get(node) === undefined) {
      state.set(node, 'open')
      for (const operand of operandsOf(node).toReversed()) if (state.get(operand) === undefined) stack.push(operand)
    } else {
      stack.pop()
      if (state.get(node) === 'open') order.push(node)
      state.set(node, 'done')
    }
  }
  return order
}

/** The same operation on other operands, which fit as the old ones did. */
export function withOperands(node: TensorNode, src: readonly TensorNode[]): TensorNode {
  const isSame = operandsOf(node).every((operand, i) => operand === src[i])
  return isSame ? node : ({ ...node, src } as TensorNode) // as many as there were
}

/** Gives, for a node whose operands were replaced already, what takes its place; undefined: it stays. */
export type Replace = (node: TensorNode, original: TensorNode) => TensorNode | undefined

/** What takes the place of every node below the roots. Shared nodes stay shared. */
export function replaceNodes(roots: readonly TensorNode[], replace: Replace): (node: TensorNode) => TensorNode {
  const done = new Map<TensorNode, TensorNode>()
  const of = (node: TensorNode): TensorNode => done.get(node) ?? node
  for (const original of operandsFirst(roots)) {
    const node = withOperands(original, operandsOf(original).map(of))
    done.set(original, replace(node, original) ?? node)
  }
  return of
}

/** How many read each node; the roots are read once more, by whoever asked for them. */
export function countReaders(roots: readonly TensorNode[]): ReadonlyMap<TensorNode, number> {
  const readers = new Map<TensorNode, number>()
  const count = (node: TensorNode): void => void readers.set(node, (readers.get(node) ?? 0) + 1)
  roots.forEach(count)
  for (const node of operandsFirst(roots)) new Set(operandsOf(node)).forEach(count)
  return readers
}
