// Which statements of a kernel need no lane: they compute the same for all lanes of a workgroup from what is known outside of the loops over
// lanes, and change no memory. serialize runs them once, before the phase they stand in; control flow that lanes wait in may rest on them.
//
// Optimistic: every name is taken to be such until a statement speaks against it, over and over until none does. A variable that also
// occurs in a statement that is left to the lanes is none, since that statement runs later than it stands.

import { type Kernel, isReadOnly, memoryOf } from '../kernel.ts'
import { type Node, blocksOf, idOf, isDeclaration, walk } from '../node.ts'
import { opRecord } from '../op.ts'
import { indexRecord } from '../op/position.ts'
import { leaves } from './variable.ts'

export interface Outer {
  /** Whether a statement, all of it, needs no lane. */
  covers(statement: Node): boolean
  /** Whether a `loop` that lanes wait in is left by all of them at once. */
  isTogether(loop: Node): boolean
}

/** `isPoint` says in which statements lanes wait for each other. */
export function findOuter(kernel: Kernel, isPoint: (node: Node) => boolean): Outer {
  const survey = new Survey(kernel, isPoint)
  while (survey.pass());
  return { covers: (node) => survey.covers(node), isTogether: (loop) => survey.isTogether(loop) }
}

class Survey implements Outer {
  readonly #kernel: Kernel
  readonly #isPoint: (node: Node) => boolean
  /** names that some lane must compute */
  readonly #inner = new Set<number>()
  readonly #apart = new Set<Node>()
  /** what is known in this pass */
  readonly #nodes = new Map<Node, boolean>()
  #changed = false

  constructor(kernel: Kernel, isPoint: (node: Node) => boolean) {
    this.#kernel = kernel
    this.#isPoint = isPoint
  }

  /** True if a name was found to be a lane's. */
  pass(): boolean {
    this.#changed = false
    this.#nodes.clear()
    this.#block(this.#kernel.body, true, undefined)
    return this.#changed
  }

  isTogether(loop: Node): boolean {
    return !this.#apart.has(loop)
  }

  covers(node: Node): boolean {
    switch (node.op) {
      case 'let':
        return !this.#inner.has(node.arg.id) && this.#isOuterEffect(node.src[0])
      case 'var':
      case 'set':
        return !this.#inner.has(idOf(node)) && this.#isOuter(node.src[0])
      case 'breakIf':
        return this.#isOuter(node.src[0])
      case 'if':
      case 'for':
      case 'loop':
        return (
          node.src.every((each) => each.op === 'block' || this.#isOuter(each)) &&
          blocksOf(node).every(({ src }) => src.every((inner) => this.covers(inner)))
        )
      default:
        return false
    }
  }

  #isOuterEffect(value: Node): boolean {
    if (value.op === 'get') return !this.#inner.has(value.arg)
    if (value.op !== 'load') return this.#isOuter(value)
    const memory = memoryOf(this.#kernel, value.arg.mem)
    return memory !== undefined && isReadOnly(memory) && this.#isOuter(value.src[0])
  }

  #isOuter(node: Node): boolean {
    let isOuter = this.#nodes.get(node)
    if (isOuter === undefined) {
      isOuter =
        node.op === 'local'
          ? !this.#inner.has(node.arg)
          : node.op === 'index'
            ? indexRecord(node.arg).uniform === 'workgroup'
            : opRecord(node.op).kind === 'pure' && node.src.every((child) => this.#isOuter(child))
      this.#nodes.set(node, isOuter)
    }
    return isOuter
  }

  /** `together`: all lanes come by here. */
  #block(block: Node, together: boolean, loop: Node | undefined): void {
    for (const node of block.src) this.#statement(node, together, loop)
  }

  #statement(node: Node, together: boolean, loop: Node | undefined): void {
    if (this.#isPoint(node)) return this.#point(node, together, loop)
    if (loop !== undefined && leaves(node)) return this.#leave(node, together, loop)
    if (!together || !this.covers(node)) this.#leaveToLanes(node)
  }

  /** A statement that lanes wait in; what it names is theirs, but for the counter of a loop with known bounds. */
  #point(node: Node, together: boolean, loop: Node | undefined): void {
    const known = node.src.every((each) => each.op === 'block' || this.#isOuter(each))
    switch (node.op) {
      case 'if':
        if (loop !== undefined && !(together && known) && leaves(node)) this.#breakApart(loop)
        return blocksOf(node).forEach((inner) => this.#block(inner, together && known, loop))
      case 'for':
        if (!known) this.#mark(node.arg.id)
        return this.#block(node.src[3], together && known, undefined)
      case 'loop':
        if (!together) this.#breakApart(node)
        return this.#block(node.src[0], !this.#apart.has(node), node)
      default:
        return this.#leaveToLanes(node)
    }
  }

  /** A statement, without points, that leaves a loop with points. */
  #leave(node: Node, together: boolean, loop: Node): void {
    if (node.op === 'if') {
      const known = together && this.#isOuter(node.src[0])
      if (!known) this.#breakApart(loop)
      return blocksOf(node).forEach((inner) => this.#block(inner, known, loop))
    }
    if (!together || !this.covers(node)) this.#breakApart(loop)
  }

  #breakApart(loop: Node): void {
    if (this.#apart.has(loop)) return
    this.#apart.add(loop)
    this.#changed = true
  }

  #leaveToLanes(statement: Node): void {
    walk(statement, (node) => {
      if (isDeclaration(node) || node.op === 'set' || node.op === 'get') this.#mark(idOf(node))
    })
  }

  #mark(id: number): void {
    if (this.#inner.has(id)) return
    this.#inner.add(id)
    this.#nodes.clear()
    this.#changed = true
  }
}
