// The order in which the nodes of a graph are computed, where some change memory in place: whatever reads an old value comes before what
// overwrites it. Where that is impossible, because a reader needs the new value as well, the reader gets a copy of the old one.

import { type Graph, graphOf, replaceNodes, withOperands } from './graph.ts'
import { type TensorNode, bytesOf, operandsOf, sizeOf } from './node.ts'
import { hasKernels, inPlaceOperand } from './op/index.ts'
import { fail, show } from './operand.ts'
import type { Storage } from './storage.ts'

/** A value of some memory: what a node computes, or what lies in a leaf before anything is computed. */
export type Value = TensorNode | Storage

/** The value that a node stands for; another shape of a value is the same one. */
export function valueOf(node: TensorNode): Value {
  let own = node
  for (; isAlias(own); own = operandsOf(own)[inPlaceOperand(own) ?? 0] ?? own);
  return own.op === 'leaf' ? own.attrs.storage : own
}

/** Whether a node is another shape of its operand. */
export function isAlias(node: TensorNode): boolean {
  return node.op !== 'assign' && !hasKernels(node.op) && inPlaceOperand(node) !== undefined
}

/** The operand whose value a node overwrites, if it does. */
export function overwritten(node: TensorNode): TensorNode | undefined {
  const at = isAlias(node) ? undefined : inPlaceOperand(node)
  return at === undefined ? undefined : operandsOf(node)[at]
}

export interface Order {
  readonly roots: readonly TensorNode[]
  /** operands first, and readers before what overwrites */
  readonly nodes: readonly TensorNode[]
}

/** Orders a graph. The first `reads` of its roots are wanted as they are, whatever is written later. */
export function orderNodes(given: Graph, reads: number): Order {
  let graph = copyReads(given, reads)
  for (;;) {
    const result = sort(graph)
    if (!('reader' in result)) return { roots: graph.roots, nodes: earlySmall(result) }
    graph = graphOf(graph.roots.map(copyFor(graph, result)))
  }
}

/** A product of a weight is small if its result is at most this share of what it multiplies. */
const SMALL_SHARE = 1 / 8

/**
 * Small products right behind what they multiply: what adapters of several layers make of one tensor is computed side by side then, and no
 * large product waits for one of them. They overwrite nothing, and readers may always come earlier.
 */
function earlySmall(nodes: readonly TensorNode[]): readonly TensorNode[] {
  const isSmall = (node: TensorNode): boolean =>
    node.op === 'linear' &&
    node.src.length === 2 &&
    node.src[1].op === 'leaf' &&
    sizeOf(node.shape) <= SMALL_SHARE * sizeOf(node.src[0].shape)
  if (!nodes.some(isSmall)) return nodes
  const behind = new Map<TensorNode, TensorNode[]>()
  for (const node of nodes) {
    const [x] = isSmall(node) ? operandsOf(node) : []
    if (x !== undefined && x.op !== 'leaf') behind.set(x, [...(behind.get(x) ?? []), node])
  }
  const moved = new Set([...behind.values()].flat())
  const withFollowers = (node: TensorNode): TensorNode[] => [node, ...(behind.get(node) ?? []).flatMap(withFollowers)]
  return nodes.flatMap((node) => (moved.has(node) ? [] : withFollowers(node)))
}

/** A reader that would have to come both before and after what overwrites the value that it reads. */
interface Conflict {
  readonly reader: TensorNode
  readonly value: Value
}

/** Gives the reader a copy, which is made before. */
function copyFor(graph: Graph, { reader, value }: Conflict): (node: TensorNode) => TensorNode {
  return replaceNodes(graph, (node, original) => {
    if (original !== reader) return undefined
    const operands = operandsOf(original)
    const isOld = (i: number): boolean => operands[i] !== undefined && valueOf(operands[i]) === value
    return withOperands(
      node,
      operandsOf(node).map((operand, i) => (isOld(i) ? copyOf(operand) : operand)),
    )
  })
}

function copyOf(node: TensorNode): TensorNode {
  return { op: 'copy', shape: node.shape, dtype: node.dtype, src: [node], attrs: {} }
}

/** What is read at the end, and overwritten before, is read from a copy. */
function copyReads(graph: Graph, reads: number): Graph {
  const gone = new Set<Value>()
  for (const node of graph.nodes) {
    const target = overwritten(node)
    if (target !== undefined) gone.add(valueOf(target))
  }
  const isGone = (root: TensorNode, i: number): boolean => i < reads && gone.has(valueOf(root))
  return graph.roots.some(isGone) ? graphOf(graph.roots.map((root, i) => (isGone(root, i) ? copyOf(root) : root))) : graph
}

/** `from` waits for another node: because it reads it, or, with a `value`, because it overwrites what that one reads. */
interface Wait {
  readonly from: TensorNode
  readonly value?: Value
}

function sort({ roots, nodes }: Graph): TensorNode[] | Conflict {
  const readers = findReaders(nodes)
  const depths = depthsOf(nodes)
  const order: TensorNode[] = []
  const state = new Map<TensorNode, 'open' | 'done'>()
  /** who waits for an open node: the path to it */
  const waits = new Map<TensorNode, Wait>()
  const stack: { readonly node: TensorNode; readonly wait?: Wait }[] = roots.map((node) => ({ node })).toReversed()
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const { node, wait } = top
    if (state.get(node) !== undefined) {
      if (state.get(node) === 'open') order.push(node)
      state.set(node, 'done')
      stack.pop()
      continue
    }
    state.set(node, 'open')
    if (wait !== undefined) waits.set(node, wait)
    const target = overwritten(node)
    const before = target === undefined ? [] : readersOf(readers, node, valueOf(target))
    const operands = operandsOf(node).toSorted((a, b) => compareTurns(a, b, depths))
    const needed = [...before, ...operands.map((operand) => ({ node: operand, wait: { from: node } }))]
    for (const next of needed.toReversed()) {
      if (state.get(next.node) === 'open') return findConflict(next.node, next.wait, waits)
      if (state.get(next.node) === undefined) stack.push(next)
    }
  }
  return order
}

/** Results of so many bytes, a number or two, may be held for as long as it takes. */
const SMALL = 16

/**
 * Which of two operands is computed first. What takes longest, so that what is quickly had is not held meanwhile; but before that what is
 * small, and of that what is quickly had: the norms of gradients, layer by layer, let go of what each of them reads.
 */
function compareTurns(a: TensorNode, b: TensorNode, depths: ReadonlyMap<TensorNode, number>): number {
  const [smallA, smallB] = [bytesOf(a) <= SMALL, bytesOf(b) <= SMALL]
  if (smallA !== smallB) return smallA ? -1 : 1
  const deeper = (depths.get(b) ?? 0) - (depths.get(a) ?? 0)
  return smallA ? -deeper : deeper
}

/** How many nodes lie below each, one after the other; they come operands first. */
function depthsOf(nodes: readonly TensorNode[]): ReadonlyMap<TensorNode, number> {
  const depths = new Map<TensorNode, number>()
  for (const node of nodes)
    depths.set(
      node,
      operandsOf(node).reduce((most, operand) => Math.max(most, 1 + (depths.get(operand) ?? 0)), 0),
    )
  return depths
}

function readersOf(
  readers: ReadonlyMap<Value, readonly TensorNode[]>,
  writer: TensorNode,
  value: Value,
): { node: TensorNode; wait: Wait }[] {
  return (readers.get(value) ?? []).flatMap((node) => (node === writer ? [] : [{ node, wait: { from: writer, value } }]))
}

/** Who reads each value. Refuses a graph in which two change the same one. */
function findReaders(nodes: readonly TensorNode[]): ReadonlyMap<Value, readonly TensorNode[]> {
  const readers = new Map<Value, TensorNode[]>()
  const changed = new Set<Value>()
  for (const node of nodes) {
    const target = overwritten(node)
    if (target !== undefined) {
      if (changed.has(valueOf(target))) fail('plan', 'the same memory is changed twice', show(target), 'one change after the other')
      changed.add(valueOf(target))
    }
    if (isAlias(node)) continue
    for (const value of new Set(operandsOf(node).map(valueOf))) {
      const known = readers.get(value)
      if (known === undefined) readers.set(value, [node])
      else known.push(node)
    }
  }
  return readers
}

/** Nodes that wait for each other in a ring: one of them waits only for the sake of order, for a reader that then gets a copy. */
function findConflict(end: TensorNode, last: Wait, waits: ReadonlyMap<TensorNode, Wait>): Conflict {
  let [node, wait]: [TensorNode, Wait | undefined] = [end, last]
  while (wait !== undefined) {
    if (wait.value !== undefined) return { reader: node, value: wait.value }
    ;[node, wait] = [wait.from, wait.from === end ? undefined : waits.get(wait.from)]
  }
  throw new Error('operands form a ring')
}
