// The one node of the kernel language. A node is immutable and interned: within one kernel, two nodes that say the same
// are the same object, so equality is `===` and a pass may use nodes as map keys. Expressions form a DAG; statements are
// nodes of dtype `void`, and a `block` lists them in order. What an op means is in op.ts, not here.
//
// Whatever depends on when it happens (loads, reads of variables, subgroup and atomic operations) is bound by a `let` where it
// happens; all other expressions are pure and may be computed anywhere their operands exist.

import type { DType } from '../base/dtype.ts'
import type { Arg, OpName } from './op.ts'

export interface Node {
  readonly op: OpName
  readonly dtype: DType
  readonly src: readonly Node[]
  readonly arg: Arg
  /** order of creation within its interner; a node's operands have smaller numbers */
  readonly id: number
}

/** Makes nodes and gives the same object for the same content. One per kernel, so that nothing outlives it. */
export class Interner {
  readonly #known = new Map<string, Node>()

  make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    const key = `${op}|${dtype}|${argKey(arg)}|${src.map(keyOf).join(',')}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const node: Node = Object.freeze({ op, dtype, src: Object.freeze([...src]), arg, id: this.#known.size })
    this.#known.set(key, node)
    return node
  }
}

function keyOf(node: Node): number {
  return node.id
}

function argKey(arg: Arg): string {
  if (typeof arg === 'number') return Object.is(arg, -0) ? '-0' : String(arg)
  if (arg === null || typeof arg !== 'object') return `${typeof arg}:${String(arg)}`
  return JSON.stringify(arg)
}

/** Calls `visit` once for every node below `root`, operands first. */
export function walk(root: Node, visit: (node: Node) => void): void {
  const seen = new Set<Node>()
  const go = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    for (const child of node.src) go(child)
    visit(node)
  }
  go(root)
}

/** Rebuilds `root` bottom-up in a new interner; `change` may return another node for one whose operands are already new. */
export function rewrite(root: Node, into: Interner, change: (node: Node, src: readonly Node[]) => Node | undefined): Node {
  const done = new Map<Node, Node>()
  const go = (node: Node): Node => {
    const known = done.get(node)
    if (known !== undefined) return known
    const src = node.src.map(go)
    const result = change(node, src) ?? into.make(node.op, node.dtype, src, node.arg)
    done.set(node, result)
    return result
  }
  return go(root)
}
