// Pass: decides where each expression is computed, so that the printed code reads as if written by hand. Shared expressions get
// a name in the innermost block around their uses, invariant ones move out of loops (never out of an `if`), loads and reads of
// variables that are used once move into that use when nothing between could change them. Runs last: afterwards effects
// stand inside expressions. Linear in the number of nodes, but for the depth of nesting.

import { isInteger } from '../../base/dtype.ts'
import { displacement } from '../displacement.ts'
import type { Builder } from '../build.ts'
import { type Kernel, isReadOnly, memoryOf } from '../kernel.ts'
import type { Node, NodeOf } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { isTrivial, isWorthHoisting } from './cost.ts'
import { type Block, EVERYTHING, type Outline, changedBetween, outline, project, variableKey } from './outline.ts'
import { builderFor, finish } from './rewrite.ts'
import { dropDead } from './simplify.ts'

/** Deeper expressions are cut by a name: compilers limit nested parentheses. */
const DEEPEST = 24

interface Place {
  readonly block: Block
  readonly at: number
}

/** Where an expression is needed, and how often it would be printed without a name. */
interface Use {
  block: Block
  at: number
  count: number
}

/** The statement that a place is part of, in the block around. */
function outside({ block: { parent, at } }: Place): Place {
  if (parent === undefined) throw new TypeError('two uses of a value are in no common block')
  return { block: parent, at }
}

interface Named {
  readonly node: Node
  readonly name: string
}

export function place(kernel: Kernel, target?: Target): Kernel {
  const builder = builderFor(kernel)
  const placement = new Placement(outline(dropDead(kernel), builder), target?.lanes === true)
  placement.schedule()
  new Emission(builder, placement, findInlined(kernel, placement)).run()
  return finish(builder, kernel)
}

class Placement {
  readonly body: Block
  readonly uses = new Map<Node, Use>()
  /** Expressions with a name, by where it is given. */
  readonly named = new Map<Block, Map<number, Named[]>>()
  readonly #hints: ReadonlyMap<Node, string>
  /** small steps may stand wherever they are needed: GPU compilers find them again */
  readonly #expanded: boolean
  readonly #home = new Map<number, Block>()
  readonly #earliest = new Map<Node, Block>()
  readonly #nodes = new Set<Node>()
  readonly #indices = new Set<Node>()

  constructor({ body, hints }: Outline, expanded: boolean) {
    this.body = body
    this.#expanded = expanded
    this.#hints = hints
  }

  schedule(): void {
    this.#enter(this.body)
    const order = [...this.#nodes].sort((a, b) => a.id - b.id)
    const deep = findDeep(order, this.#hints)
    // users come before what they use: they have larger ids
    for (const node of order.toReversed()) this.#decide(node, deep.has(node))
  }

  #enter(block: Block): void {
    block.statements.forEach((statement, at) => {
      const { node, operands, blocks } = statement
      if (node.op === 'for') for (const inner of blocks) this.#home.set(node.arg.id, inner)
      if (node.op === 'let') this.#home.set(node.arg.id, block)
      operands.forEach((operand, position) => {
        // a bound is looked at in every round
        const count = node.op === 'for' && position > 0 ? 2 : 1
        const effect = opRecord(operand.op).kind === 'effect'
        if (effect) this.#noteIndex(operand)
        else if (position === 0) this.#noteIndex(node)
        for (const root of effect ? operand.src : [operand]) {
          this.#collect(root)
          this.#use(root, block, at, count)
        }
      })
      for (const inner of blocks) this.#enter(inner)
    })
  }

  #noteIndex({ op, src: [index] }: Node): void {
    const { access, tile } = opRecord(op)
    if (access !== undefined && tile !== true && index !== undefined) this.#indices.add(index)
  }

  #collect(node: Node): void {
    if (this.#nodes.has(node)) return
    this.#nodes.add(node)
    for (const child of node.src) this.#collect(child)
  }

  #use(node: Node, block: Block, at: number, count: number): void {
    const use = this.uses.get(node)
    if (use === undefined) {
      this.uses.set(node, { block, at, count })
      return
    }
    let other: Place = { block, at }
    let own: Place = use
    while (own.block !== other.block) {
      if (own.block.depth >= other.block.depth) own = outside(own)
      else other = outside(other)
    }
    use.block = own.block
    use.at = Math.min(own.at, other.at)
    use.count += count
  }

  #decide(node: Node, deep: boolean): void {
    const use = this.uses.get(node)
    if (use === undefined) return
    const hint = this.#hints.get(node)
    const home = this.#hoist(node, use, hint !== undefined)
    const hoisted = home !== use.block
    const isNamed = hint !== undefined || deep || (!this.#isTrivial(node) && (hoisted || use.count > 1))
    if (!isNamed) {
      for (const child of node.src) this.#use(child, use.block, use.at, use.count)
      return
    }
    const at = project(use.block, use.at, home)
    let places = this.named.get(home)
    if (places === undefined) this.named.set(home, (places = new Map<number, Named[]>()))
    const named = { node, name: hint ?? (this.#indices.has(node) ? 'at' : node.dtype === 'bool' ? 'ok' : 't') }
    const list = places.get(at)
    if (list === undefined) places.set(at, [named])
    else list.push(named)
    for (const child of node.src) this.#use(child, home, at, 1)
  }

  /** Not worth a name of its own; on GPUs also what is trivial of something that the author named. */
  #isTrivial(node: Node): boolean {
    if (isTrivial(node)) return true
    const [a, b] = node.src
    // the constant becomes part of the address, the rest is what has a name
    if (!this.#expanded && this.#indices.has(node)) return displacement(node) !== undefined
    if (!this.#expanded || a === undefined || !this.#hints.has(a)) return false
    return node.op === 'splat' || node.op === 'extract' || (node.op === 'add' && isInteger(node.dtype) && b?.op === 'const')
  }

  /** Out of as many loops as the operands allow. */
  #hoist(node: Node, use: Use, always: boolean): Block {
    let home = use.block
    if (!home.loop || (!always && !isWorthHoisting(node))) return home
    const earliest = this.#earliestOf(node)
    while (home !== earliest && home.loop && home.parent !== undefined) home = home.parent
    return home
  }

  #earliestOf(node: Node): Block {
    const known = this.#earliest.get(node)
    if (known !== undefined) return known
    let earliest = node.op === 'local' ? (this.#home.get(node.arg) ?? this.body) : this.body
    for (const child of node.src) {
      const block = this.#earliestOf(child)
      if (block.depth > earliest.depth) earliest = block
    }
    this.#earliest.set(node, earliest)
    return earliest
  }
}

/** Where expressions, taken from the leaves up, become too deep; those that the author named start anew. */
function findDeep(ascending: readonly Node[], hints: ReadonlyMap<Node, string>): Set<Node> {
  const deep = new Set<Node>()
  const depth = new Map<Node, number>()
  for (const node of ascending) {
    const own = 1 + Math.max(-1, ...node.src.map((child) => depth.get(child) ?? 0))
    if (own >= DEEPEST) deep.add(node)
    depth.set(node, own >= DEEPEST || hints.has(node) ? 0 : own)
  }
  return deep
}

/** The loads and reads of variables that may move into their one use, by id of their `let`. */
function findInlined(kernel: Kernel, placement: Placement): Map<number, Node> {
  const inlined = new Map<number, Node>()
  const locals = new Map<number, Use>()
  for (const [node, use] of placement.uses) if (node.op === 'local') locals.set(node.arg, use)

  function visit(block: Block): void {
    /** where a let that moves is computed in the end */
    const moved = new Map<number, number>()
    for (const [at, { node, operands, blocks }] of [...block.statements.entries()].toReversed()) {
      for (const inner of blocks) visit(inner)
      const [effect] = operands
      if (node.op !== 'let' || effect === undefined || (effect.op !== 'load' && effect.op !== 'get')) continue
      const use = locals.get(node.arg.id)
      if (use === undefined || use.count !== 1 || use.block !== block) continue
      const end = moved.get(use.at) ?? use.at
      if (keysOf(effect).some((key) => changedBetween(block, key, at, end))) continue
      moved.set(at, end)
      inlined.set(node.arg.id, effect)
    }
  }

  function keysOf({ op, arg }: NodeOf<'load' | 'get'>): string[] {
    if (op === 'get') return [variableKey(arg)]
    const memory = memoryOf(kernel, arg.mem)
    return memory !== undefined && isReadOnly(memory) ? [] : [arg.mem, EVERYTHING]
  }

  visit(placement.body)
  return inlined
}

class Emission {
  readonly #builder: Builder
  readonly #placement: Placement
  readonly #inlined: ReadonlyMap<number, Node>
  readonly #done = new Map<Node, Node>()

  constructor(builder: Builder, placement: Placement, inlined: ReadonlyMap<number, Node>) {
    this.#builder = builder
    this.#placement = placement
    this.#inlined = inlined
  }

  run(): void {
    this.#block(this.#placement.body)
  }

  #block(block: Block): void {
    const named = this.#placement.named.get(block)
    block.statements.forEach(({ node, operands, blocks }, at) => {
      // found from users to operands, so backwards is the order of computation
      for (const { node: value, name } of named?.get(at)?.toReversed() ?? []) {
        this.#done.set(value, this.#builder.bind(name, this.#rebuild(value)))
      }
      if (node.op === 'let' && this.#inlined.has(node.arg.id)) return
      const inner = blocks.map((each) => this.#builder.block(() => this.#block(each)))
      this.#builder.add(node.op, [...operands.map((operand) => this.#operand(operand)), ...inner], node.arg)
    })
  }

  /** An effect of a `let` is computed here each time it stands here, however alike others are. */
  #operand(node: Node): Node {
    return opRecord(node.op).kind === 'effect' ? this.#rebuild(node) : this.#expression(node)
  }

  #expression(node: Node): Node {
    const known = this.#done.get(node)
    if (known !== undefined) return known
    const effect = node.op === 'local' ? this.#inlined.get(node.arg) : undefined
    const made = this.#rebuild(effect ?? node)
    this.#done.set(node, made)
    return made
  }

  #rebuild({ op, dtype, src, arg }: Node): Node {
    return this.#builder.make(
      op,
      dtype,
      src.map((child) => this.#expression(child)),
      arg,
    )
  }
}
