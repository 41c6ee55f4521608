// A kernel's body as nested lists of statements that know where they are. Statements are interned nodes, so the same one
// may stand in two places; here each place is its own object. Names given to pure values dissolve: such a value is just an
// expression again, with a hint what to call it, and `place` decides where it is computed.

import type { Builder } from '../build.ts'
import type { Kernel } from '../kernel.ts'
import { type Node, blocksOf, changesMemory, memoryNameOf, valuesOf } from '../node.ts'
import { opRecord } from '../op.ts'
import { rebuilder } from './rewrite.ts'

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

/** Rebuilds all expressions by the builder. */
export function outline(kernel: Kernel, builder: Builder): Outline {
  const hints = new Map<Node, string>()
  const known = new Map<number, Node>()
  const expression = rebuilder(builder, (node) => (node.op === 'local' ? known.get(node.arg) : undefined))

  function block(node: Node, parent: Block | undefined, at: number, loop: boolean): Block {
    const depth = parent === undefined ? 0 : parent.depth + 1
    const made: Block = { parent, at, depth, loop, statements: [], changes: new Map() }
    for (const child of node.src) {
      const operands = valuesOf(child).map(expression)
      const [value] = operands
      if (child.op === 'let' && value !== undefined && opRecord(value.op).kind === 'pure') {
        known.set(child.arg.id, value)
        if (value.op !== 'const' && value.op !== 'local' && !hints.has(value)) hints.set(value, child.arg.name)
        continue
      }
      const position = made.statements.length
      const change = changeOf(child.op === 'let' ? child.src[0] : child)
      if (change !== undefined) note(made, position, change)
      const blocks: Block[] = []
      made.statements.push({ node: child, operands, blocks })
      for (const inner of blocksOf(child)) blocks.push(block(inner, made, position, opRecord(child.op).blocks === 'loop'))
    }
    return made
  }

  return { body: block(kernel.body, undefined, 0, false), hints }
}

/** Stands for all memories. */
export const EVERYTHING = '*'

/** What a node changes: a memory, a variable, or at a barrier all memories. */
function changeOf(node: Node): string | undefined {
  if (node.op === 'set') return variableKey(node.arg)
  if (node.op === 'barrier') return EVERYTHING
  return changesMemory(node) ? memoryNameOf(node) : undefined
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
    if (positionAt(list, middle) > from) high = middle
    else low = middle + 1
  }
  return positionAt(list, low) < to
}

function positionAt(list: readonly number[], at: number): number {
  return list[at] ?? Infinity
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
