// Uniformity: which values are the same for all lanes of a workgroup, of a subgroup, or differ from lane to lane, and under
// which conditions each statement runs. Conservative: 'lane' means "not known to be uniform". Does not check anything; the
// verifier does, with this.
//
// Variables and loops make it a fixpoint: levels only rise, from 'workgroup' to 'lane', until nothing changes.

import { type Kernel, isShared, lanesOf, memoryOf } from './kernel.ts'
import type { Node } from './node.ts'
import type { IndexName } from './op.ts'

export type Level = 'workgroup' | 'subgroup' | 'lane'

export interface Uniformity {
  /** How far a value is the same; locals and variables must be those of this kernel. */
  of(node: Node): Level
  /** Level of a `let`, loop variable or `var` by id. */
  ofId(id: number): Level
  /** Visits every statement in order with the level of the control flow it runs under. */
  eachStatement(visit: (statement: Node, control: Level) => void): void
}

const LEVELS = ['workgroup', 'subgroup', 'lane'] as const
const WORKGROUP = 0
const LANE = 2

/** Finds the uniformity of everything in a kernel. */
export function analyseUniformity(kernel: Kernel): Uniformity {
  const flow = new Flow(kernel)
  while (flow.pass());
  return {
    of: (node) => LEVELS[flow.level(node)] as Level,
    ofId: (id) => LEVELS[flow.levelOfId(id)] as Level,
    eachStatement: (visit) => {
      flow.pass((statement, control) => visit(statement, LEVELS[control] as Level))
    },
  }
}

class Flow {
  readonly #kernel: Kernel
  /** The level of what all lanes of a subgroup share: 0 if a subgroup is the whole workgroup. */
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
    this.#ofSubgroup = kernel.subgroup > 0 && lanes <= kernel.subgroup ? 0 : 1
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
    const worst = (): number => node.src.reduce((level, child) => Math.max(level, this.level(child)), WORKGROUP)
    switch (node.op) {
      case 'index':
        return this.#ofIndex(node.arg as IndexName)
      case 'local':
      case 'get':
        this.#read.add(node.arg as number)
        return this.levelOfId(node.arg as number)
      case 'load':
        return this.#readOnly(node) ? worst() : LANE
      case 'atomic':
      case 'subShuffle':
      case 'subShuffleXor':
      case 'subShuffleDown':
        return LANE
      case 'subSum':
      case 'subMax':
      case 'subMin':
      case 'subAny':
      case 'subAll':
      case 'subBroadcast':
        return this.#ofSubgroup
      case 'tileFill':
      case 'tileLoad':
      case 'tileMma':
        return this.#ofSubgroup
      default:
        return worst()
    }
  }

  #ofIndex(name: IndexName): number {
    if (name.startsWith('workgroup.') || name.startsWith('grid.')) return WORKGROUP
    return name === 'subgroup' ? this.#ofSubgroup : LANE
  }

  #readOnly(load: Node): boolean {
    const memory = memoryOf(this.#kernel, (load.arg as { mem: string }).mem)
    return memory !== undefined && !isShared(memory) && memory.role === 'read'
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
    const [first, second, third, fourth] = node.src
    const level = first === undefined || first.dtype === 'void' ? WORKGROUP : this.level(first)
    const idOf = (): number => (node.arg as { id: number }).id
    switch (node.op) {
      case 'let':
        return this.#raise(idOf(), level)
      case 'var':
        return this.#raise(idOf(), level)
      case 'set':
        return this.#raise(node.arg as number, Math.max(level, control))
      case 'if':
        for (const branch of node.src.slice(1)) this.#block(branch, Math.max(control, level), loop)
        return undefined
      case 'for': {
        const ofBound = (bound: Node | undefined): number => (bound === undefined ? WORKGROUP : this.level(bound))
        const inner = Math.max(control, level, ofBound(second), ofBound(third))
        this.#raise(idOf(), inner)
        return fourth === undefined ? undefined : this.#block(fourth, inner, undefined)
      }
      case 'loop':
        if (first !== undefined) this.#block(first, Math.max(control, this.#breaks.get(node) ?? WORKGROUP), node)
        return undefined
      case 'breakIf':
        return this.#break(loop, Math.max(control, level))
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
