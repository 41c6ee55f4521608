// Uniformity: which values are the same for all lanes of a workgroup, of a subgroup, or differ from lane to lane, and under
// which conditions each statement runs. Conservative: 'lane' means "not known to be uniform". Does not check anything; the
// verifier does, with this.
//
// Variables and loops make it a fixpoint: levels only rise, from 'workgroup' to 'lane', until nothing changes.

import { type Kernel, isReadOnly, lanesOf, memoryOf } from '../kernel.ts'
import { type Node, blocksOf } from '../node.ts'
import { opRecord } from '../op.ts'
import { type Level, indexRecord } from '../op/position.ts'

export interface Uniformity {
  /** How far a value is the same; locals and variables must be those of this kernel. */
  of(node: Node): Level
  /** Level of a `let`, loop variable or `var` by id. */
  ofId(id: number): Level
  /** Visits every statement in order with the level of the control flow it runs under. */
  eachStatement(visit: (statement: Node, control: Level) => void): void
}

const WORKGROUP = 0
const SUBGROUP = 1
const LANE = 2
const RANK = { workgroup: WORKGROUP, subgroup: SUBGROUP, lane: LANE } as const satisfies Record<Level, number>

const levelOf = (rank: number): Level => (rank === WORKGROUP ? 'workgroup' : rank === SUBGROUP ? 'subgroup' : 'lane')

/** Finds the uniformity of everything in a kernel. */
export function analyseUniformity(kernel: Kernel): Uniformity {
  const flow = new Flow(kernel)
  while (flow.pass());
  return {
    of: (node) => levelOf(flow.level(node)),
    ofId: (id) => levelOf(flow.levelOfId(id)),
    eachStatement: (visit) => {
      flow.pass((statement, control) => visit(statement, levelOf(control)))
    },
  }
}

class Flow {
  readonly #kernel: Kernel
  /** The level of what all lanes of a subgroup share: the workgroup's if that is one subgroup. */
  readonly #ofSubgroup: number
  readonly #single: boolean
  readonly #ids = new Map<number, number>()
  /** What leaving a loop early does to the control flow inside it. */
  readonly #breaks = new Map<Node, number>()
  readonly #nodes = new Map<Node, number>()
  /** Ids that levels in #nodes rest on. */
  readonly #read = new Set<number>()
  #changed = false
  #visit: ((statement: Node, control: number) => void) | undefined

  constructor(kernel: Kernel) {
    const lanes = lanesOf(kernel)
    this.#kernel = kernel
    this.#single = lanes === 1
    this.#ofSubgroup = kernel.subgroup > 0 && lanes <= kernel.subgroup ? WORKGROUP : SUBGROUP
  }

  /** Goes through the body once; true if a level rose. */
  pass(visit?: (statement: Node, control: number) => void): boolean {
    this.#changed = false
    this.#forget()
    this.#visit = visit
    this.#block(this.#kernel.body, WORKGROUP, undefined)
    return this.#changed
  }

  levelOfId(id: number): number {
    return this.#single ? WORKGROUP : (this.#ids.get(id) ?? WORKGROUP)
  }

  level(node: Node): number {
    if (this.#single) return WORKGROUP
    const known = this.#nodes.get(node)
    if (known !== undefined) return known
    const level = this.#compute(node)
    this.#nodes.set(node, level)
    return level
  }

  #compute(node: Node): number {
    switch (node.op) {
      case 'index':
        return this.#rank(indexRecord(node.arg).uniform)
      case 'local':
      case 'get':
        this.#read.add(node.arg)
        return this.levelOfId(node.arg)
      case 'load':
        return this.#isReadOnly(node.arg.mem) ? this.#worstOf(node.src) : LANE
      default: {
        const { uniform } = opRecord(node.op)
        return uniform === undefined ? this.#worstOf(node.src) : this.#rank(uniform)
      }
    }
  }

  #worstOf(nodes: readonly Node[]): number {
    return nodes.reduce((level, node) => Math.max(level, this.level(node)), WORKGROUP)
  }

  #rank(level: Level): number {
    return level === 'subgroup' ? this.#ofSubgroup : RANK[level]
  }

  #isReadOnly(mem: string): boolean {
    const memory = memoryOf(this.#kernel, mem)
    return memory !== undefined && isReadOnly(memory)
  }

  #forget(): void {
    this.#nodes.clear()
    this.#read.clear()
  }

  #raise(id: number, level: number): void {
    if (level <= (this.#ids.get(id) ?? WORKGROUP)) return
    this.#ids.set(id, level)
    if (this.#read.has(id)) this.#forget()
    this.#changed = true
  }

  #block(block: Node, control: number, loop: Node | undefined): void {
    for (const node of block.src) {
      this.#visit?.(node, control)
      this.#statement(node, control, loop)
    }
  }

  #statement(node: Node, control: number, loop: Node | undefined): void {
    switch (node.op) {
      case 'let':
      case 'var':
        return this.#raise(node.arg.id, this.level(node.src[0]))
      case 'set':
        return this.#raise(node.arg, Math.max(control, this.level(node.src[0])))
      case 'if': {
        const inner = Math.max(control, this.level(node.src[0]))
        for (const branch of blocksOf(node)) this.#block(branch, inner, loop)
        return undefined
      }
      case 'for': {
        const [from, to, step, body] = node.src
        const inner = Math.max(control, this.#worstOf([from, to, step]))
        this.#raise(node.arg.id, inner)
        return this.#block(body, inner, undefined)
      }
      case 'loop':
        return this.#block(node.src[0], Math.max(control, this.#breaks.get(node) ?? WORKGROUP), node)
      case 'breakIf':
        return this.#break(loop, Math.max(control, this.level(node.src[0])))
      default:
        return undefined
    }
  }

  #break(loop: Node | undefined, level: number): void {
    if (loop === undefined || level <= (this.#breaks.get(loop) ?? WORKGROUP)) return
    this.#breaks.set(loop, level)
    this.#changed = true
  }
}
