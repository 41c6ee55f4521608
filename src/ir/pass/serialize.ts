// Pass, for targets that run one lane at a time: a workgroup becomes loops over its lanes. Statements between two points where
// lanes wait for each other (barriers, subgroup and tile operations) form a part, and each part becomes one loop. Control flow
// that contains such points goes around the loops: as it is if its condition is the same for all lanes and known outside of
// them, else for all lanes at once with an array that says which of them are active.
//
// Here the parts are found, still written in terms of one lane; lane-loop.ts makes the loops.

import { isTile } from '../../base/dtype.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import type { Node } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { Collective, type Parts } from './collective.ts'
import { LaneArrays } from './lane-array.ts'
import { type Step, writeLoops } from './lane-loop.ts'
import { Writer, idOf, nameOf } from './writer.ts'

export function serialize(kernel: Kernel, target: Target): Kernel {
  if (target.lanes) return kernel
  const planner = new Planner(kernel)
  if (lanesOf(kernel) === 1 && !planner.hasPoints) return kernel
  return planner.run()
}

class Planner implements Parts {
  readonly #kernel: Kernel
  readonly #writer: Writer
  readonly #arrays: LaneArrays
  readonly #collective: Collective
  /** statements with a point where lanes wait somewhere inside */
  readonly #points = new Map<Node, boolean>()
  /** what pure names stand for */
  readonly #known = new Map<number, Node>()
  readonly #done = new Map<Node, Node>()
  /** variables of loops that go around the lanes */
  readonly #outside = new Set<number>()
  readonly #outsideNodes = new Map<Node, boolean>()
  /** variables of loops that lanes count for themselves, and where */
  readonly #counters = new Map<number, string>()
  #steps: Step[] = []
  #part: Node[] = []
  /** the masks that leaving the innermost loop around parts clears */
  #broken: readonly string[] | undefined
  mask: string | undefined

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#writer = new Writer(kernel)
    this.#arrays = new LaneArrays(kernel, lanesOf(kernel))
    this.#collective = new Collective(this.#writer, this.#arrays, kernel, lanesOf(kernel))
  }

  get hasPoints(): boolean {
    return this.#hasPoint(this.#kernel.body)
  }

  run(): Kernel {
    const steps = this.#plan(this.#kernel.body)
    writeLoops(this.#kernel, this.#writer, this.#arrays, steps, this.#counters)
    return this.#writer.finish(this.#kernel, {
      workgroup: [1, 1, 1],
      subgroup: 0,
      shared: [...this.#kernel.shared, ...this.#arrays.list],
    })
  }

  expression(node: Node): Node {
    const before = this.#done.get(node)
    if (before !== undefined) return before
    const made =
      (node.op === 'local' ? this.#known.get(node.arg as number) : undefined) ??
      this.#writer.make(
        node.op,
        node.dtype,
        node.src.map((child) => this.expression(child)),
        node.arg,
      )
    this.#done.set(node, made)
    return made
  }

  each(write: () => void): void {
    this.#part.push(...this.#writer.inside(write).src)
  }

  lead(write: () => void): void {
    this.split()
    this.#steps.push({ kind: 'part', lead: true, mask: this.mask, statements: this.#writer.inside(write).src })
  }

  split(): void {
    if (this.#part.length > 0) this.#steps.push({ kind: 'part', lead: false, mask: this.mask, statements: this.#part })
    this.#part = []
  }

  /** The steps of a block, run under a mask. */
  #plan(block: Node, mask = this.mask, after: () => void = () => {}): Step[] {
    const outer = { steps: this.#steps, part: this.#part, mask: this.mask }
    this.#steps = []
    this.#part = []
    this.mask = mask
    block.src.forEach(this.#statement)
    after()
    this.split()
    const steps = this.#steps
    this.#steps = outer.steps
    this.#part = outer.part
    this.mask = outer.mask
    return steps
  }

  readonly #statement = (node: Node): void => {
    const { op, src, arg } = node
    const value = src[0]
    if (op === 'let' && value !== undefined && opRecord(value.op).kind === 'pure' && !isTile(value.dtype)) {
      this.#known.set(idOf(arg), this.expression(value))
    } else if (this.#hasPoint(node) || (this.#broken !== undefined && this.#breaks(node))) this.#point(node)
    else this.each(() => this.#copy(node))
  }

  /** A statement that a lane runs alone. */
  readonly #copy = (node: Node): void => {
    const value = node.src[0]
    if (node.op === 'let' && value !== undefined && opRecord(value.op).kind === 'pure') {
      this.#known.set(idOf(node.arg), this.expression(value))
    } else this.#writer.copy(node, (child) => this.expression(child), this.#copy)
  }

  #point(node: Node): void {
    const { op, src, arg } = node
    switch (op) {
      case 'barrier':
        return this.split()
      case 'tileStore':
        return this.#collective.store(this, node)
      case 'if':
        return this.#if(node)
      case 'for':
        return this.#for(node)
      case 'loop':
        return this.#loop(node)
      case 'breakIf':
        return this.#break(node)
      default: {
        const value = src[0] as Node
        const id = op === 'set' ? (arg as number) : idOf(arg)
        if (isTile(value.dtype)) return this.#collective.assign(this, id, value)
        const result = this.#collective.subgroup(this, value, nameOf(arg), id)
        this.#known.set(id, result)
        return undefined
      }
    }
  }

  #if({ src }: Node): void {
    const condition = this.expression(src[0] as Node)
    const branches = src.slice(1)
    if (this.#isOutside(condition)) {
      this.split()
      const [yes, no] = branches.map((branch) => this.#plan(branch))
      this.#steps.push({ kind: 'if', condition, yes: yes ?? [], no: no ?? [] })
      return
    }
    const conditions = [condition, this.#writer.make('not', 'bool', [condition])]
    // both masks first: a branch may change what the condition was made of
    const masks = branches.map((_, at) => this.#fillMask(conditions[at] as Node))
    branches.forEach((branch, at) => {
      const mask = masks[at] as string
      const outer = this.#broken
      if (outer !== undefined) this.#broken = [...outer, mask]
      this.#steps.push(...this.#plan(branch, mask))
      this.#broken = outer
    })
  }

  #for({ src, arg }: Node): void {
    const [from, to, step] = src.slice(0, 3).map((node) => this.expression(node)) as [Node, Node, Node]
    const id = idOf(arg)
    const outer = this.#broken
    this.#broken = undefined
    if ([from, to, step].every((node) => this.#isOutside(node))) {
      this.split()
      this.#outside.add(id)
      this.#steps.push({ kind: 'for', bounds: [from, to, step], arg, body: this.#plan(src[3] as Node) })
    } else {
      const counter = this.#arrays.make('counter', 'u32', lanesOf(this.#kernel))
      this.#counters.set(id, counter)
      const lane = this.#writer.value<'u32'>(this.#writer.make('index', 'u32', [], 'lane'))
      const local = this.#writer.value<'u32'>(this.#writer.make('local', 'u32', [], id))
      this.each(() => this.#writer.store(counter, lane, from))
      this.split()
      const mask = this.#arrays.make('active', 'u32', lanesOf(this.#kernel))
      const head = this.#plan(
        this.#writer.inside(() => {}),
        this.mask,
        () => {
          this.#setMask(mask, local.lt(this.#writer.value<'u32'>(to)).node)
        },
      )
      const body = this.#plan(src[3] as Node, mask, () => {
        this.each(() => this.#writer.store(counter, lane, local.add(this.#writer.value<'u32'>(step)).node))
      })
      this.#steps.push({ kind: 'loop', head, mask, body })
    }
    this.#broken = outer
  }

  #loop({ src }: Node): void {
    const mask = this.#fillMask(this.#writer.interner.constant(1, 'bool'))
    const outer = this.#broken
    this.#broken = [mask]
    this.#steps.push({ kind: 'loop', head: [], mask, body: this.#plan(src[0] as Node, mask) })
    this.#broken = outer
  }

  #break({ src }: Node): void {
    const condition = this.expression(src[0] as Node)
    this.each(() =>
      this.#writer.if(condition, () => {
        const lane = this.#writer.value<'u32'>(this.#writer.make('index', 'u32', [], 'lane'))
        for (const mask of this.#broken ?? []) this.#writer.store(mask, lane, this.#writer.u32(0).node)
      }),
    )
    this.split()
  }

  #fillMask(condition: Node): string {
    const mask = this.#arrays.make('active', 'u32', lanesOf(this.#kernel))
    this.#setMask(mask, condition)
    return mask
  }

  /** Of the lanes that are active now, those for which the condition holds. */
  #setMask(mask: string, condition: Node): void {
    const lane = this.#writer.value<'u32'>(this.#writer.make('index', 'u32', [], 'lane'))
    this.split()
    if (this.mask !== undefined) {
      const statements = this.#writer.inside(() => this.#writer.store(mask, lane, this.#writer.u32(0).node)).src
      this.#steps.push({ kind: 'part', lead: false, mask: undefined, statements })
    }
    this.each(() => this.#writer.store(mask, lane, this.#writer.make('cast', 'u32', [condition])))
    this.split()
  }

  /** True if a statement makes lanes wait for each other. */
  #hasPoint(node: Node): boolean {
    const known = this.#points.get(node)
    if (known !== undefined) return known
    const isPoint =
      node.op === 'barrier' ||
      node.src.some((child) =>
        child.op === 'block' ? this.#hasBlockPoint(child) : isTile(child.dtype) || (child.op.startsWith('sub') && child.op !== 'sub'),
      ) ||
      (node.op === 'block' && this.#hasBlockPoint(node))
    this.#points.set(node, isPoint)
    return isPoint
  }

  #hasBlockPoint(block: Node): boolean {
    return block.src.some((statement) => this.#hasPoint(statement))
  }

  /** True if a statement may leave the loop it stands in. */
  #breaks(node: Node): boolean {
    return node.op === 'breakIf' || (node.op === 'if' && node.src.slice(1).some((block) => block.src.some((inner) => this.#breaks(inner))))
  }

  /** True if an expression is the same for all lanes and can be computed outside of the loops over them. */
  #isOutside(node: Node): boolean {
    const known = this.#outsideNodes.get(node)
    if (known !== undefined) return known
    const { op, arg, src } = node
    const result =
      op === 'local'
        ? this.#outside.has(arg as number)
        : op === 'index'
          ? !['lane', 'lane.x', 'lane.y', 'lane.z', 'subgroup', 'sublane'].includes(arg as string)
          : opRecord(op).kind === 'pure' && src.every((child) => this.#isOutside(child))
    this.#outsideNodes.set(node, result)
    return result
  }
}
