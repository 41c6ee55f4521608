// The second half of serialize: phases become loops over the lanes. What a lane keeps from one phase to the next goes to
// workgroup arrays; what lives and dies in one phase stays a local. Numbers of lanes and subgroups become expressions of the
// loop's variable.

import type { Builder } from '../build.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, type NodeOf, idOf, isDeclaration } from '../node.ts'
import type { ArgOf } from '../op.ts'
import type { Value } from '../value.ts'
import { isActive } from './collective.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import { copy, rebuilder, repeat, valueOf, when } from './rewrite.ts'

export interface Phase {
  readonly kind: 'phase'
  /** once per subgroup instead of for every lane */
  readonly lead: boolean
  readonly mask: string | undefined
  readonly statements: readonly Node[]
}
export type PhaseTree =
  | Phase
  /** what needs no lane */
  | { readonly kind: 'once'; readonly statements: readonly Node[] }
  /** a loop that all lanes leave at once, and where */
  | { readonly kind: 'around'; readonly body: readonly PhaseTree[] }
  | { readonly kind: 'break'; readonly condition: Node }
  | { readonly kind: 'if'; readonly condition: Node; readonly yes: readonly PhaseTree[]; readonly no: readonly PhaseTree[] }
  | { readonly kind: 'for'; readonly bounds: readonly Node[]; readonly arg: ArgOf<'for'>; readonly body: readonly PhaseTree[] }
  /** repeats head and body until, after the head, no lane of the mask is active */
  | { readonly kind: 'loop'; readonly head: readonly PhaseTree[]; readonly mask: string; readonly body: readonly PhaseTree[] }

/** Writes the trees; `counters` are the arrays of loop variables that lanes count for themselves. */
export function writeLoops(
  kernel: Kernel,
  builder: Builder,
  arrays: LaneArrays,
  trees: readonly PhaseTree[],
  counters: ReadonlyMap<number, string>,
): void {
  const survey = new Survey(counters)
  for (const tree of trees) survey.tree(tree)
  new Loops(kernel, builder, arrays, survey).trees(trees)
}

/** Which locals and variables occur in more than one phase. */
class Survey {
  readonly counters: ReadonlyMap<number, string>
  /** what each phase reads that another defines, in order of first use */
  readonly #reads = new Map<Phase, Map<number, Node>>()
  readonly #seenIn = new Map<number, Phase>()
  readonly #kept = new Set<number>()
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

  isKept(id: number): boolean {
    return this.#kept.has(id)
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
      }
      if (node.op === 'get' || node.op === 'set' || node.op === 'local') note(node.arg)
      if (node.op === 'local') reads.set(node.arg, node)
      for (const child of node.src) visit(child)
    }
    for (const statement of phase.statements) visit(statement)
    this.#reads.set(phase, reads)
  }
}

class Loops {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #survey: Survey

  constructor(kernel: Kernel, builder: Builder, arrays: LaneArrays, survey: Survey) {
    this.#kernel = kernel
    this.#builder = builder
    this.#arrays = arrays
    this.#survey = survey
  }

  trees(trees: readonly PhaseTree[]): void {
    for (const tree of trees) this.#tree(tree)
  }

  #tree(tree: PhaseTree): void {
    const builder = this.#builder
    switch (tree.kind) {
      case 'phase':
        return this.#phase(tree)
      case 'once':
        return tree.statements.forEach((node) => builder.add(node.op, node.src, node.arg))
      case 'around':
        return builder.loop(() => this.trees(tree.body))
      case 'break':
        return builder.add('breakIf', [tree.condition])
      case 'if':
        return builder.if(tree.condition, () => this.trees(tree.yes), tree.no.length > 0 ? () => this.trees(tree.no) : undefined)
      case 'for':
        return builder.add('for', [...tree.bounds, builder.block(() => this.trees(tree.body))], tree.arg)
      case 'loop':
        return builder.loop(() => {
          this.trees(tree.head)
          this.#leaveWhenNone(tree.mask)
          this.trees(tree.body)
        })
    }
  }

  #leaveWhenNone(mask: string): void {
    const builder = this.#builder
    const id = builder.variable('any', builder.constant(0, 'u32'))
    const get = (): Value<'u32'> => valueOf(builder, builder.get('any', id, 'u32'))
    repeat(builder, 'lane', lanesOf(this.#kernel), 1, (lane) => {
      const active = valueOf<'u32'>(builder, builder.load(mask, lane.node, 'u32'))
      builder.set(id, get().or(active).node)
    })
    builder.add('breakIf', [get().eq(0).node])
  }

  #phase(phase: Phase): void {
    const builder = this.#builder
    const step = phase.lead ? this.#kernel.subgroup : 1
    repeat(builder, 'lane', lanesOf(this.#kernel), step, (lane) => {
      const body = (): void => new OneLane(this.#kernel, builder, this.#arrays, this.#survey, lane).run(phase)
      if (phase.mask === undefined) body()
      else when(builder, isActive(builder, phase.mask, lane), body)
    })
  }
}

/** A phase written for the lane of the loop that is being filled. */
class OneLane {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #survey: Survey
  readonly #lane: Value<'u32'>
  /** what this lane kept from other phases, by the locals that stand for it */
  readonly #recalled = new Map<Node, Node>()
  readonly #expression: (node: Node) => Node

  constructor(kernel: Kernel, builder: Builder, arrays: LaneArrays, survey: Survey, lane: Value<'u32'>) {
    this.#kernel = kernel
    this.#builder = builder
    this.#arrays = arrays
    this.#survey = survey
    this.#lane = lane
    this.#expression = rebuilder(builder, (node) => (node.op === 'index' ? this.#index(node) : this.#recalled.get(node)))
  }

  run(phase: Phase): void {
    for (const [id, local] of this.#survey.fetched(phase)) {
      const mem = this.#survey.counters.get(id) ?? this.#arrays.home(id, local.dtype)
      this.#recalled.set(local, recall(this.#builder, mem, this.#lane, local.dtype, 'kept'))
    }
    phase.statements.forEach(this.#statement)
  }

  readonly #statement = (node: Node): void => {
    if (node.op === 'let') return this.#let(node)
    const isKept = (node.op === 'var' || node.op === 'set') && this.#survey.isKept(idOf(node))
    return isKept ? this.#keep(idOf(node), node.src[0]) : copy(this.#builder, node, this.#expression, this.#statement)
  }

  #let(node: NodeOf<'let'>): void {
    const [value] = node.src
    const { id, name } = node.arg
    const named = this.#builder.local(id, value.dtype)
    if (value.op === 'get' && this.#survey.isKept(value.arg)) {
      const mem = this.#arrays.home(value.arg, value.dtype)
      this.#recalled.set(named, recall(this.#builder, mem, this.#lane, value.dtype, name, id))
    } else copy(this.#builder, node, this.#expression, this.#statement)
    if (this.#survey.isKept(id)) this.#keep(id, named)
  }

  #keep(id: number, value: Node): void {
    keep(this.#builder, this.#arrays.home(id, value.dtype), this.#lane, this.#expression(value))
  }

  /** A position as an expression of the loop's variable. */
  #index(node: NodeOf<'index'>): Node {
    const lane = this.#lane
    const {
      workgroup: [x, y, z],
      subgroup,
    } = this.#kernel
    switch (node.arg) {
      case 'lane':
        return lane.node
      case 'lane.x':
        return y * z === 1 ? lane.node : lane.rem(x).node
      case 'lane.y':
        return z === 1 ? (y === 1 ? lane.sub(lane) : lane.div(x)).node : lane.div(x).rem(y).node
      case 'lane.z':
        return z === 1 ? lane.sub(lane).node : lane.div(x * y).node
      case 'subgroup':
        return lane.div(subgroup).node
      case 'sublane':
        return lane.rem(subgroup).node
      default:
        return node
    }
  }
}
