// Pass: decides where each expression is computed, so that the printed code reads as if written by hand. Shared expressions get
// a name in the innermost block around their uses, invariant ones move out of loops (never out of an `if`), loads and reads of
// variables that are used once move into that use when nothing between could change them. Runs last: afterwards effects
// stand inside expressions. Linear in the number of nodes, but for the depth of nesting.

import { isInteger } from '../../base/dtype.ts'
import { displacement } from '../displacement.ts'
import { type Kernel, isShared, memoryOf } from '../kernel.ts'
import type { Node } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { isTrivial, isWorthHoisting } from './cost.ts'
import { type Block, type Outline, type Statement, changedBetween, outline, project, variableKey } from './outline.ts'
import { dropDead } from './simplify.ts'
import { Writer, idOf, memOf } from './writer.ts'

/** Deeper expressions are cut by a name: compilers limit nested parentheses. */
const DEEPEST = 24

/** Where an expression is needed, and how often it would be printed without a name. */
interface Use {
  block: Block
  at: number
  count: number
}

export function place(kernel: Kernel, target?: Target): Kernel {
  const writer = new Writer(kernel)
  const plan = new Plan(outline(dropDead(kernel), writer), target?.lanes === true)
  plan.schedule()
  return new Emission(writer, plan, findInlined(kernel, plan)).finish(kernel)
}

class Plan {
  readonly body: Block
  readonly uses = new Map<Node, Use>()
  /** Expressions with a name, by where it is given. */
  readonly named = new Map<Block, Map<number, Node[]>>()
  readonly names = new Map<Node, string>()
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
      for (const inner of blocks) {
        if (node.op === 'for') this.#home.set(idOf(node.arg), inner)
      }
      if (node.op === 'let') this.#home.set(idOf(node.arg), block)
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

  #noteIndex({ op, src }: Node): void {
    if ((op === 'load' || op === 'store' || op === 'atomic') && src[0] !== undefined) this.#indices.add(src[0])
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
    let [other, position] = [block, at]
    while (use.block !== other) {
      if (use.block.depth >= other.depth) {
        use.at = use.block.at
        use.block = use.block.parent as Block
      } else {
        position = other.at
        other = other.parent as Block
      }
    }
    use.at = Math.min(use.at, position)
    use.count += count
  }

  #decide(node: Node, deep: boolean): void {
    const use = this.uses.get(node) as Use
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
    if (places === undefined) this.named.set(home, (places = new Map<number, Node[]>()))
    const list = places.get(at)
    if (list === undefined) places.set(at, [node])
    else list.push(node)
    this.names.set(node, hint ?? (this.#indices.has(node) ? 'at' : node.dtype === 'bool' ? 'ok' : 't'))
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
    let earliest = node.op === 'local' ? (this.#home.get(node.arg as number) ?? this.body) : this.body
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
function findInlined(kernel: Kernel, plan: Plan): Map<number, Node> {
  const inlined = new Map<number, Node>()
  const locals = new Map<number, Use>()
  for (const [node, use] of plan.uses) if (node.op === 'local') locals.set(node.arg as number, use)

  function visit(block: Block): void {
    /** where a let that moves is computed in the end */
    const moved = new Map<number, number>()
    for (let at = block.statements.length - 1; at >= 0; at--) {
      const { node, operands, blocks } = block.statements[at] as Statement
      for (const inner of blocks) visit(inner)
      const effect = operands[0]
      if (node.op !== 'let' || effect === undefined || (effect.op !== 'load' && effect.op !== 'get')) continue
      const use = locals.get(idOf(node.arg))
      if (use === undefined || use.count !== 1 || use.block !== block) continue
      const end = moved.get(use.at) ?? use.at
      if (keysOf(effect).some((key) => changedBetween(block, key, at, end))) continue
      moved.set(at, end)
      inlined.set(idOf(node.arg), effect)
    }
  }

  function keysOf({ op, arg }: Node): string[] {
    if (op === 'get') return [variableKey(arg as number)]
    const memory = memoryOf(kernel, memOf(arg))
    return memory !== undefined && !isShared(memory) && memory.role === 'read' ? [] : [memOf(arg), '*']
  }

  visit(plan.body)
  return inlined
}

class Emission {
  readonly #writer: Writer
  readonly #plan: Plan
  readonly #inlined: ReadonlyMap<number, Node>
  readonly #done = new Map<Node, Node>()

  constructor(writer: Writer, plan: Plan, inlined: ReadonlyMap<number, Node>) {
    this.#writer = writer
    this.#plan = plan
    this.#inlined = inlined
  }

  finish(kernel: Kernel): Kernel {
    this.#block(this.#plan.body)
    return this.#writer.finish(kernel)
  }

  #block(block: Block): void {
    const named = this.#plan.named.get(block)
    block.statements.forEach(({ node, operands, blocks }, at) => {
      // found from users to operands, so backwards is the order of computation
      for (const value of named?.get(at)?.toReversed() ?? []) {
        this.#done.set(value, this.#writer.bind(this.#plan.names.get(value) as string, this.#rebuild(value)))
      }
      if (node.op === 'let' && this.#inlined.has(idOf(node.arg))) return
      const inner = blocks.map((each) => this.#writer.inside(() => this.#block(each)))
      this.#writer.add(node.op, [...operands.map((operand) => this.#operand(operand)), ...inner], node.arg)
    })
  }

  /** An effect of a `let` is computed here each time it stands here, however alike others are. */
  #operand(node: Node): Node {
    return opRecord(node.op).kind === 'effect' ? this.#rebuild(node) : this.#expression(node)
  }

  #expression(node: Node): Node {
    const known = this.#done.get(node)
    if (known !== undefined) return known
    const effect = node.op === 'local' ? this.#inlined.get(node.arg as number) : undefined
    const made = this.#rebuild(effect ?? node)
    this.#done.set(node, made)
    return made
  }

  #rebuild({ op, dtype, src, arg }: Node): Node {
    return this.#writer.make(
      op,
      dtype,
      src.map((child) => this.#expression(child)),
      arg,
    )
  }
}
