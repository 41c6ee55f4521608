// The second half of serialize: parts become loops over the lanes. What a lane keeps from one part to the next goes to
// workgroup arrays; what lives and dies in one part stays a local. Numbers of lanes and subgroups become expressions of the
// loop's variable.

import { type Kernel, lanesOf } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { Arg } from '../op.ts'
import type { Value } from '../value.ts'
import { isActive } from './collective.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import { type Writer, idOf, nameOf } from './writer.ts'

export interface Part {
  readonly kind: 'part'
  /** once per subgroup instead of for every lane */
  readonly lead: boolean
  readonly mask: string | undefined
  readonly statements: readonly Node[]
}
export type Step =
  | Part
  | { readonly kind: 'if'; readonly condition: Node; readonly yes: readonly Step[]; readonly no: readonly Step[] }
  | { readonly kind: 'for'; readonly bounds: readonly Node[]; readonly arg: Arg; readonly body: readonly Step[] }
  /** repeats head and body until, after the head, no lane of the mask is active */
  | { readonly kind: 'loop'; readonly head: readonly Step[]; readonly mask: string; readonly body: readonly Step[] }

/** Writes the steps; `counters` are the arrays of loop variables that lanes count for themselves. */
export function writeLoops(
  kernel: Kernel,
  writer: Writer,
  arrays: LaneArrays,
  steps: readonly Step[],
  counters: ReadonlyMap<number, string>,
): void {
  const survey = new Survey(counters)
  for (const step of steps) survey.step(step)
  new Loops(kernel, writer, arrays, survey).steps(steps)
}

/** Which locals and variables occur in more than one part. */
class Survey {
  readonly counters: ReadonlyMap<number, string>
  /** what each part reads that another defines, in order of first use */
  readonly #reads = new Map<Part, Map<number, Node>>()
  readonly #seenIn = new Map<number, Part>()
  readonly #kept = new Set<number>()
  readonly #defined = new Map<number, Part>()

  constructor(counters: ReadonlyMap<number, string>) {
    this.counters = counters
  }

  step(step: Step): void {
    if (step.kind === 'part') this.#part(step)
    if (step.kind === 'if') for (const inner of [...step.yes, ...step.no]) this.step(inner)
    if (step.kind === 'loop') for (const inner of step.head) this.step(inner)
    if (step.kind === 'for' || step.kind === 'loop') for (const inner of step.body) this.step(inner)
  }

  isKept(id: number): boolean {
    return this.#kept.has(id)
  }

  /** The locals that a part must fetch before it begins. */
  fetched(part: Part): [number, Node][] {
    const isElsewhere = (id: number): boolean => this.#defined.has(id) && this.#defined.get(id) !== part
    return [...(this.#reads.get(part) ?? [])].filter(([id]) => this.counters.has(id) || isElsewhere(id))
  }

  #part(part: Part): void {
    const seen = new Set<Node>()
    const reads = new Map<number, Node>()
    const note = (id: number): void => {
      const before = this.#seenIn.get(id)
      if (before !== undefined && before !== part) this.#kept.add(id)
      this.#seenIn.set(id, part)
    }
    const visit = (node: Node): void => {
      if (seen.has(node)) return
      seen.add(node)
      if (node.op === 'let' || node.op === 'var' || node.op === 'for') {
        note(idOf(node.arg))
        this.#defined.set(idOf(node.arg), part)
      }
      if (node.op === 'get' || node.op === 'set' || node.op === 'local') note(node.arg as number)
      if (node.op === 'local') reads.set(node.arg as number, node)
      for (const child of node.src) visit(child)
    }
    for (const statement of part.statements) visit(statement)
    this.#reads.set(part, reads)
  }
}

class Loops {
  readonly #kernel: Kernel
  readonly #writer: Writer
  readonly #arrays: LaneArrays
  readonly #survey: Survey
  #done = new Map<Node, Node>()
  #lane: Value<'u32'> | undefined

  constructor(kernel: Kernel, writer: Writer, arrays: LaneArrays, survey: Survey) {
    this.#kernel = kernel
    this.#writer = writer
    this.#arrays = arrays
    this.#survey = survey
  }

  steps(steps: readonly Step[]): void {
    for (const step of steps) this.#step(step)
  }

  #step(step: Step): void {
    const writer = this.#writer
    switch (step.kind) {
      case 'part':
        return this.#part(step)
      case 'if': {
        const blocks = [step.yes, step.no].map((inner) => writer.inside(() => this.steps(inner)))
        return writer.add('if', [step.condition, ...(step.no.length > 0 ? blocks : blocks.slice(0, 1))])
      }
      case 'for':
        return writer.add('for', [...step.bounds, writer.inside(() => this.steps(step.body))], step.arg)
      case 'loop':
        return writer.add('loop', [
          writer.inside(() => {
            this.steps(step.head)
            this.#leaveWhenNone(step.mask)
            this.steps(step.body)
          }),
        ])
    }
  }

  #leaveWhenNone(mask: string): void {
    const writer = this.#writer
    const id = writer.freshId()
    const get = (): Value<'u32'> => writer.value(writer.bind('any', writer.make('get', 'u32', [], id)))
    writer.add('var', [writer.u32(0).node], { id, name: 'any' })
    writer.repeat('lane', lanesOf(this.#kernel), 1, (lane) => {
      const active = writer.value<'u32'>(writer.load(mask, lane, 'u32'))
      writer.add('set', [get().or(active).node], id)
    })
    writer.add('breakIf', [get().eq(0).node])
  }

  #part(part: Part): void {
    const writer = this.#writer
    const step = part.lead ? this.#kernel.subgroup : 1
    writer.repeat('lane', lanesOf(this.#kernel), step, (lane) => {
      this.#done = new Map()
      this.#lane = lane
      if (part.mask === undefined) this.#body(part)
      else writer.if(isActive(writer, part.mask, lane), () => this.#body(part))
    })
  }

  #body(part: Part): void {
    const lane = this.#lane as Value<'u32'>
    for (const [id, local] of this.#survey.fetched(part)) {
      const mem = this.#survey.counters.get(id) ?? this.#arrays.home(id, local.dtype)
      this.#done.set(local, recall(this.#writer, mem, lane, local.dtype, 'kept'))
    }
    for (const statement of part.statements) this.#statement(statement)
  }

  readonly #statement = (node: Node): void => {
    const { op, src, arg } = node
    const [writer, lane] = [this.#writer, this.#lane as Value<'u32'>]
    const value = src[0]
    if (value === undefined || (op !== 'let' && op !== 'var' && op !== 'set')) {
      return writer.copy(node, this.#expression, this.#statement)
    }
    const id = op === 'set' ? (arg as number) : idOf(arg)
    const isKept = this.#survey.isKept(id)
    if (op !== 'let') {
      if (!isKept) return writer.copy(node, this.#expression, this.#statement)
      return keep(writer, this.#arrays.home(id, value.dtype), lane, this.#expression(value))
    }
    const named = writer.make('local', value.dtype, [], id)
    if (value.op === 'get' && this.#survey.isKept(value.arg as number)) {
      const mem = this.#arrays.home(value.arg as number, value.dtype)
      this.#done.set(named, recall(writer, mem, lane, value.dtype, nameOf(arg), id))
    } else writer.copy(node, this.#expression, this.#statement)
    return isKept ? keep(writer, this.#arrays.home(id, value.dtype), lane, this.#expression(named)) : undefined
  }

  readonly #expression = (node: Node): Node => {
    const known = this.#done.get(node)
    if (known !== undefined) return known
    const made = node.op === 'index' ? this.#index(node) : this.#writer.make(node.op, node.dtype, node.src.map(this.#expression), node.arg)
    this.#done.set(node, made)
    return made
  }

  #index(node: Node): Node {
    const lane = this.#lane as Value<'u32'>
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
