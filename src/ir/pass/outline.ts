// A kernel's body as nested lists of statements that know where they are. Statements are interned nodes, so the same one
// may stand in two places; here each place is its own object. Names given to pure values dissolve: such a value is just an
// expression again, with a hint what to call it, and `place` decides where it is computed.

import type { Kernel } from '../kernel.ts'
import type { Node } from '../node.ts'
import { opRecord } from '../op.ts'
import { type Writer, idOf, memOf, nameOf } from './writer.ts'

export interface Block {
  readonly parent: Block | undefined
  /** which statement of the parent this is part of */
  readonly at: number
  readonly depth: number
  /** body of a loop (true) or branch of an `if` */
  readonly loop: boolean
  readonly statements: Statement[]
  /** positions of statements that may change something, by what they change */
  readonly changes: Map<string, number[]>
}

export interface Statement {
  readonly node: Node
  /** operands, without blocks, pure lets replaced by their values */
  readonly operands: readonly Node[]
  readonly blocks: readonly Block[]
}

export interface Outline {
  readonly body: Block
  /** what authors called pure values */
  readonly hints: ReadonlyMap<Node, string>
}

/** Rebuilds all expressions in the writer's interner. */
export function outline(kernel: Kernel, writer: Writer): Outline {
  const hints = new Map<Node, string>()
  const known = new Map<number, Node>()
  const done = new Map<Node, Node>()

  function expression(node: Node): Node {
    const before = done.get(node)
    if (before !== undefined) return before
    const made =
      (node.op === 'local' ? known.get(node.arg as number) : undefined) ??
      writer.make(node.op, node.dtype, node.src.map(expression), node.arg)
    done.set(node, made)
    return made
  }

  function block(node: Node, parent: Block | undefined, at: number, loop: boolean): Block {
    const depth = parent === undefined ? 0 : parent.depth + 1
    const made: Block = { parent, at, depth, loop, statements: [], changes: new Map() }
    for (const child of node.src) {
      const operands = child.src.filter(({ op }) => op !== 'block').map(expression)
      const value = operands[0]
      if (child.op === 'let' && value !== undefined && opRecord(value.op).kind === 'pure') {
        known.set(idOf(child.arg), value)
        if (value.op !== 'const' && value.op !== 'local' && !hints.has(value)) hints.set(value, nameOf(child.arg))
        continue
      }
      const position = made.statements.length
      for (const key of changesOf(child.op === 'let' ? (value as Node) : child)) note(made, position, key)
      const blocks: Block[] = []
      made.statements.push({ node: child, operands, blocks })
      for (const inner of child.src) if (inner.op === 'block') blocks.push(block(inner, made, position, child.op !== 'if'))
    }
    return made
  }

  return { body: block(kernel.body, undefined, 0, false), hints }
}

/** What a node changes: a memory, a variable, or at a barrier all memories. */
function changesOf({ op, arg }: Node): readonly string[] {
  switch (op) {
    case 'store':
    case 'tileStore':
    case 'atomic':
      return [memOf(arg)]
    case 'set':
      return [variableKey(arg as number)]
    case 'barrier':
      return ['*']
    default:
      return []
  }
}

export function variableKey(id: number): string {
  return `#${id}`
}

/** A change inside a nested block is a change at the statement that holds the block. */
function note(block: Block, position: number, key: string): void {
  let [inner, at]: [Block | undefined, number] = [block, position]
  while (inner !== undefined) {
    const list = inner.changes.get(key)
    if (list === undefined) inner.changes.set(key, [at])
    else if (list.at(-1) !== at) list.push(at)
    at = inner.at
    inner = inner.parent
  }
}

/** True if a statement strictly between two positions may change `key`. */
export function changedBetween(block: Block, key: string, from: number, to: number): boolean {
  const list = block.changes.get(key)
  if (list === undefined) return false
  let [low, high] = [0, list.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((list[middle] as number) > from) high = middle
    else low = middle + 1
  }
  return low < list.length && (list[low] as number) < to
}

/** Where in `outer` the place (block, at) is. */
export function project(block: Block, at: number, outer: Block): number {
  let [inner, position] = [block, at]
  while (inner !== outer && inner.parent !== undefined) {
    position = inner.at
    inner = inner.parent
  }
  return position
}
