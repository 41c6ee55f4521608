// The second half of serialize: phases become loops over the lanes. What a lane keeps from one phase to the next goes to
// workgroup arrays; what lives and dies in one phase stays a local. Numbers of lanes and subgroups become expressions of the
// loop's variable.

import type { Builder } from '../build.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, type NodeOf, idOf } from '../node.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { isActive } from './collective.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import type { Facts } from './fact.ts'
import { Assumptions } from './lane-assume.ts'
import { positionOf } from './lane-position.ts'
import type { Shapes } from './lane-shape.ts'
import { Survey } from './lane-survey.ts'
import { ManyLanes, type Writing, isAbreast } from './lane-vector.ts'
import { chooseShapes, isWorthwhile } from './lane-width.ts'
import type { Phase, PhaseTree } from './phase.ts'
import { copy, rebuilder, repeat, valueOf, when } from './rewrite.ts'
import { usageOf } from './variable.ts'

/** Writes the trees; `counters` are the arrays of loop variables that lanes count for themselves. */
export function writeLoops(
  kernel: Kernel,
  builder: Builder,
  arrays: LaneArrays,
  trees: readonly PhaseTree[],
  counters: ReadonlyMap<number, string>,
  { width }: Target,
): void {
  const survey = new Survey(counters)
  for (const tree of trees) survey.tree(tree)
  const begun = usageOf(kernel.body.src).exposed
  const shapes = chooseShapes(kernel, width, trees, begun)
  const assumptions = shapes === undefined ? undefined : new Assumptions(kernel, builder, trees, begun)
  new Loops({ kernel, builder, arrays, survey }, shapes, assumptions).trees(trees)
}

class Loops {
  readonly #writing: Writing
  readonly #kernel: Kernel
  readonly #builder: Builder
  /** of lanes side by side; undefined: there are none */
  readonly #shapes: Shapes | undefined

  readonly #assumptions: Assumptions | undefined

  constructor(writing: Writing, shapes: Shapes | undefined, assumptions: Assumptions | undefined) {
    this.#assumptions = assumptions
    this.#writing = writing
    this.#kernel = writing.kernel
    this.#builder = writing.builder
    this.#shapes = shapes
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
    const lanes = lanesOf(this.#kernel)
    const shapes = this.#shapes
    if (shapes === undefined || phase.mask !== undefined || !this.#isAbreast(phase, shapes)) {
      const step = phase.lead ? this.#kernel.subgroup : 1
      return repeat(builder, 'lane', lanes, step, (lane) => this.#one(phase, lane))
    }
    const { width } = shapes
    const whole = lanes - (lanes % width)
    const run = (facts?: Facts): void =>
      repeat(builder, 'lane', whole, width, (lane) => new ManyLanes(this.#writing, shapes, lane, facts).run(phase))
    const assumption = this.#assumptions?.of(phase)
    if (assumption === undefined) run()
    else
      builder.if(
        assumption.clean,
        () => run(assumption.facts),
        () => run(),
      )
    if (whole === lanes) return undefined
    const bounds = [whole, lanes, 1].map((value) => builder.constant(value, 'u32'))
    const [from, to, step] = bounds
    return from === undefined || to === undefined || step === undefined
      ? undefined
      : builder.for('lane', [from, to, step], (lane) => this.#one(phase, valueOf(builder, lane)))
  }

  #isAbreast(phase: Phase, shapes: Shapes): boolean {
    return isAbreast(phase, shapes, this.#writing.survey) && isWorthwhile(phase.statements, shapes)
  }

  #one(phase: Phase, lane: Value<'u32'>): void {
    const builder = this.#builder
    const body = (): void => new OneLane(this.#writing, lane).run(phase)
    if (phase.mask === undefined) body()
    else when(builder, isActive(builder, phase.mask, lane), body)
  }
}

/** A phase written for the lane of the loop that is being filled. */
class OneLane {
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #survey: Survey
  readonly #lane: Value<'u32'>
  /** what this lane kept from other phases, by the locals that stand for it */
  readonly #recalled = new Map<Node, Node>()
  readonly #expression: (node: Node) => Node

  constructor({ kernel, builder, arrays, survey }: Writing, lane: Value<'u32'>) {
    this.#builder = builder
    this.#arrays = arrays
    this.#survey = survey
    this.#lane = lane
    this.#expression = rebuilder(builder, (node) => (node.op === 'index' ? positionOf(kernel, node, lane) : this.#recalled.get(node)))
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
    const isKept = (node.op === 'var' || node.op === 'set') && this.#survey.isShared(idOf(node))
    return isKept ? this.#keep(idOf(node), node.src[0]) : copy(this.#builder, node, this.#expression, this.#statement)
  }

  #let(node: NodeOf<'let'>): void {
    const [value] = node.src
    const { id, name } = node.arg
    const named = this.#builder.local(id, value.dtype)
    if (value.op === 'get' && this.#survey.isShared(value.arg)) {
      const mem = this.#arrays.home(value.arg, value.dtype)
      this.#recalled.set(named, recall(this.#builder, mem, this.#lane, value.dtype, name, id))
    } else copy(this.#builder, node, this.#expression, this.#statement)
    if (this.#survey.isShared(id)) this.#keep(id, named)
  }

  #keep(id: number, value: Node): void {
    keep(this.#builder, this.#arrays.home(id, value.dtype), this.#lane, this.#expression(value))
  }
}
