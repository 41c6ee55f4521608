// What most workgroups have in common: guards that hold for all lanes, such as that an index is in range, and errors that no lane runs into.
// If the first and the last lane of a workgroup tell that it is so, a phase is run without looking again.

import type { Builder } from '../build.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, isDeclaration, walk } from '../node.ts'
import { opRecord } from '../op.ts'
import { constantOf } from './constant.ts'
import { Facts } from './fact.ts'
import { Shapes } from './lane-shape.ts'
import { LaneValues } from './lane-value.ts'
import { isAssignment } from './lane-vector.ts'
import type { Phase, PhaseTree } from './phase.ts'
import { u32 } from './rewrite.ts'

/** A condition that can be looked at before a phase, and what is known in the phase if it holds. */
export interface Assumption {
  readonly clean: Node
  readonly facts: Facts
}

export class Assumptions {
  readonly #builder: Builder
  /** undefined: the number of lanes is no power of two */
  readonly #values: LaneValues | undefined

  constructor(kernel: Kernel, builder: Builder, trees: readonly PhaseTree[], begun: ReadonlySet<number>) {
    this.#builder = builder
    const lanes = lanesOf(kernel)
    const isPower = Number.isInteger(Math.log2(lanes))
    this.#values = isPower ? new LaneValues(kernel, builder, new Shapes(kernel, lanes, trees, begun), u32(builder, 0)) : undefined
  }

  /** Undefined where nothing can be said before. */
  of({ statements }: Phase): Assumption | undefined {
    const facts = new Facts(this.#builder)
    const own = new Set<number>()
    for (const statement of statements) walk(statement, (node) => (isDeclaration(node) ? own.add(node.arg.id) : undefined))
    let clean = this.#builder.constant(1, 'bool')
    const assume = (condition: Node, holds: boolean): void => {
      const ends = isFree(condition, own) ? this.#values?.ends(condition) : undefined
      if (ends === undefined) return
      const holding = holds ? ends.all : this.#builder.make('not', 'bool', [ends.any])
      if (constantOf(holding) !== undefined) return
      clean = this.#builder.make('and', 'bool', [clean, holding])
      facts.assume(condition, holds)
    }
    const visit = (node: Node): void => {
      if (node.op === 'if') guardsOf(node).forEach(([condition, holds]) => assume(condition, holds))
      if (opRecord(node.op).blocks === 'branches') for (const { src } of blocksOf(node)) src.forEach(visit)
    }
    statements.forEach(visit)
    return constantOf(clean) === undefined ? { clean, facts } : undefined
  }
}

/** What is expected of a branch: one that only sets variables, to note an error, is not taken; all others are. */
function guardsOf({ src: [condition, then, otherwise] }: NodeOf<'if'>): [Node, boolean][] {
  if (otherwise !== undefined) return []
  if (!then.src.every(isAssignment)) return [[condition, true]]
  return (condition.op === 'and' ? condition.src : [condition]).map((part) => [part, false])
}

/** True if a value can be computed before the statements that name these. */
function isFree(condition: Node, own: ReadonlySet<number>): boolean {
  let free = true
  walk(condition, (node) => {
    if (node.op === 'local' && own.has(node.arg)) free = false
  })
  return free
}
