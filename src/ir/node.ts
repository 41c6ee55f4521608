// The one node of the kernel language. A node is immutable and interned: within one kernel, two nodes that say the same
// are the same object, so equality is `===` and a pass may use nodes as map keys. Expressions form a DAG; statements are
// nodes of dtype `void`, and a `block` lists them in order. What an op means is in op.ts, not here.
//
// Whatever depends on when it happens (loads, reads of variables, subgroup and atomic operations) is bound by a `let` where it
// happens; all other expressions are pure and may be computed anywhere their operands exist.
//
// TypeScript knows a node's operands and argument once its op is known: `if (node.op === 'load') node.arg.mem`.

import type { DType } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { type Arg, type ArgOf, type ArityOf, type OpName, opRecord } from './op.ts'

/** At least `N` operands. */
type Operands<N extends number> = N extends 4
  ? readonly [Node, Node, Node, Node, ...Node[]]
  : N extends 3
    ? readonly [Node, Node, Node, ...Node[]]
    : N extends 2
      ? readonly [Node, Node, ...Node[]]
      : N extends 1
        ? readonly [Node, ...Node[]]
        : readonly Node[]

/** A node of op `O`, where `O` is a type parameter: tables by op are called with these. */
export interface OneNode<O extends OpName> {
  readonly op: O
  readonly dtype: DType
  readonly src: Operands<ArityOf<O>>
  readonly arg: ArgOf<O>
  /** order of creation within its interner; a node's operands have smaller numbers */
  readonly id: number
}

/** A node of whatever op. */
export interface SomeNode {
  readonly op: OpName
  readonly dtype: DType
  readonly src: readonly Node[]
}

/** A node with at least `N` operands. */
export interface NodeWith<N extends number> extends SomeNode {
  readonly src: Operands<N>
}

/** A node of one of these ops. */
export type NodeOf<O extends OpName> = O extends OpName ? OneNode<O> : never
export type Node = NodeOf<OpName>

/** Makes nodes and gives the same object for the same content. One per kernel, so that nothing outlives it. */
export class Interner {
  readonly #known = new Map<string, Node>()

  make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    const key = `${op}|${dtype}|${argKey(arg)}|${src.map(keyOf).join(',')}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    // That operands and argument are those of the op is for the verifier to see: passes make nodes of any op by one call.
    const node = Object.freeze({ op, dtype, src: Object.freeze([...src]), arg, id: this.#known.size }) as Node
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

/** An operand by number, where TypeScript cannot know that there is one. */
export function operand(node: Node, index: number): Node {
  const found = node.src[index]
  if (found === undefined) throw new IngotError('bad-kernel', `${node.op} lacks operand ${index}`, { got: node.src.length })
  return found
}

/** The operands that are values: all but blocks. */
export function valuesOf({ src }: Node): readonly Node[] {
  return src.some(isBlock) ? src.filter((node) => !isBlock(node)) : src
}

export function blocksOf({ src }: Node): readonly NodeOf<'block'>[] {
  return src.filter(isBlock)
}

function isBlock(node: Node): node is NodeOf<'block'> {
  return node.op === 'block'
}

/** The id that a statement gives a name to, or that a node reads or writes. */
export function idOf(node: NodeOf<'let' | 'var' | 'for' | 'set' | 'get' | 'local'>): number {
  return typeof node.arg === 'number' ? node.arg : node.arg.id
}

/** True if the statement names a value or a variable: then its argument has the id. */
export function isDeclaration(node: Node): node is NodeOf<'let' | 'var' | 'for'> {
  return opRecord(node.op).declares !== undefined
}

/** Whose lanes must all come by a node together: those of the workgroup, of a subgroup, or (undefined) each for itself. */
export function convergenceOf(node: Node): 'workgroup' | 'subgroup' | undefined {
  if (node.op === 'barrier') return node.arg
  return opRecord(node.op).collective === true ? 'subgroup' : undefined
}

/** The name of the memory that a node reads or writes, if it does. */
export function memoryNameOf(node: Node): string | undefined {
  const { arg } = node
  return arg !== null && typeof arg === 'object' && 'mem' in arg ? arg.mem : undefined
}

/** True if a node changes memory, so that it must stay where it is even if nobody wants its value. */
export function changesMemory({ op }: Node): boolean {
  const { access } = opRecord(op)
  return access === 'write' || access === 'update'
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
