// Which names phases have in common: what a lane must keep from one loop over the lanes to the next.

import type { DType } from '../../base/dtype.ts'
import { type Node, isDeclaration } from '../node.ts'
import type { Phase, PhaseTree } from './phase.ts'
import { type Usage, usageOf } from './variable.ts'

/** Which locals and variables occur in more than one phase. */
export class Survey {
  readonly counters: ReadonlyMap<number, string>
  /** what each phase reads that another defines, in order of first use */
  readonly #reads = new Map<Phase, Map<number, Node>>()
  readonly #seenIn = new Map<number, Phase>()
  readonly #kept = new Set<number>()
  readonly #usages = new Map<Phase, Usage>()
  /** variables, by their types */
  readonly #variables = new Map<number, DType>()
  /** variables that some phase reads before it sets them */
  readonly #exposed = new Set<number>()
  readonly #defined = new Map<number, Phase>()

  constructor(counters: ReadonlyMap<number, string>) {
    this.counters = counters
  }

  tree(tree: PhaseTree): void {
    if (tree.kind === 'phase') this.#phase(tree)
    if (tree.kind === 'if') for (const inner of [...tree.yes, ...tree.no]) this.tree(inner)
    if (tree.kind === 'loop') for (const inner of tree.head) this.tree(inner)
    if (tree.kind === 'for' || tree.kind === 'loop' || tree.kind === 'around') for (const inner of tree.body) this.tree(inner)
  }

  /** Whether a name occurs in several phases. */
  isShared(id: number): boolean {
    return this.#kept.has(id)
  }

  /** Of a variable: whether a phase may read what another has set. */
  isKept(id: number): boolean {
    return this.#kept.has(id) && (!this.#variables.has(id) || this.#exposed.has(id))
  }

  isDeclaredIn(id: number, phase: Phase): boolean {
    return this.#defined.get(id) === phase
  }

  /** The variables that a phase has in common with others or that those declare, by their types. */
  variablesOf(phase: Phase): [number, DType][] {
    const { set, read } = this.usageOf(phase)
    return [...this.#variables].filter(([id]) => (this.isDeclaredIn(id, phase) ? this.isKept(id) : set.has(id) || read.has(id)))
  }

  usageOf(phase: Phase): Usage {
    return this.#usages.get(phase) ?? usageOf(phase.statements)
  }

  /** The locals that a phase must fetch before it begins. */
  fetched(phase: Phase): [number, Node][] {
    const isElsewhere = (id: number): boolean => this.#defined.has(id) && this.#defined.get(id) !== phase
    return [...(this.#reads.get(phase) ?? [])].filter(([id]) => this.counters.has(id) || isElsewhere(id))
  }

  #phase(phase: Phase): void {
    const seen = new Set<Node>()
    const reads = new Map<number, Node>()
    const note = (id: number): void => {
      const before = this.#seenIn.get(id)
      if (before !== undefined && before !== phase) this.#kept.add(id)
      this.#seenIn.set(id, phase)
    }
    const visit = (node: Node): void => {
      if (seen.has(node)) return
      seen.add(node)
      if (isDeclaration(node)) {
        note(node.arg.id)
        this.#defined.set(node.arg.id, phase)
        if (node.op === 'var') this.#variables.set(node.arg.id, node.src[0].dtype)
      }
      if (node.op === 'get' || node.op === 'set' || node.op === 'local') note(node.arg)
      if (node.op === 'local') reads.set(node.arg, node)
      for (const child of node.src) visit(child)
    }
    for (const statement of phase.statements) visit(statement)
    const usage = usageOf(phase.statements)
    this.#usages.set(phase, usage)
    for (const id of usage.exposed) this.#exposed.add(id)
    this.#reads.set(phase, reads)
  }
}
