// Pass, for targets that run one lane at a time: a workgroup becomes loops over its lanes. Statements between two points where
// lanes wait for each other (barriers, subgroup and tile operations) form a phase, and each phase becomes one loop. Control flow
// that contains such points goes around the loops: as it is if its condition is the same for all lanes and known outside of
// them, else for all lanes at once with an array that says which of them are active.
//
// Here the phases are found, still written in terms of one lane; lane-loop.ts makes the loops.

import { isTile } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../build.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, idOf, convergenceOf, isDeclaration, valuesOf, walk } from '../node.ts'
import { opRecord } from '../op.ts'
import { indexRecord } from '../op/position.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { Collective, type Phases } from './collective.ts'
import { LaneArrays } from './lane-array.ts'
import { writeLoops } from './lane-loop.ts'
import { positionOf } from './lane-position.ts'
import { type Outer, findOuter } from './outer.ts'
import type { PhaseTree } from './phase.ts'
import { builderFor, copy, finish, rebuilder, valueOf, when } from './rewrite.ts'
import { simplify } from './simplify.ts'
import { leaves } from './variable.ts'

export function serialize(kernel: Kernel, target: Target): Kernel {
  if (target.lanes) return kernel
  const serializer = new Serializer(kernel)
  if (lanesOf(kernel) === 1 && !serializer.hasPoints) return kernel
  return simplify(serializer.run(target))
}

class Serializer implements Phases {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #collective: Collective
  /** statements with a point where lanes wait somewhere inside */
  readonly #points = new Map<Node, boolean>()
  /** what pure names stand for */
  readonly #known = new Map<number, Node>()
  readonly expression: (node: Node) => Node
  readonly #outer: Outer
  /** names of what is computed outside of the loops over lanes, and variables of loops that go around them */
  readonly #outside = new Set<number>()
  readonly #outsideNodes = new Map<Node, boolean>()
  /** variables of loops that lanes count for themselves, and where */
  readonly #counters = new Map<number, string>()
  #trees: PhaseTree[] = []
  #phase: Node[] = []
  /** the masks that leaving the innermost loop around phases clears */
  #broken: readonly string[] | undefined
  mask: string | undefined

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#builder = builderFor(kernel)
    this.expression = rebuilder(this.#builder, (node) =>
      node.op === 'local'
        ? this.#known.get(node.arg)
        : node.op === 'index' && indexRecord(node.arg).uniform !== 'workgroup'
          ? positionOf(kernel, node, valueOf(this.#builder, this.#builder.index('lane')))
          : undefined,
    )
    this.#outer = findOuter(kernel, (node) => this.#hasPoint(node))
    this.#arrays = new LaneArrays(kernel, lanesOf(kernel))
    this.#collective = new Collective(this.#builder, this.#arrays, kernel, lanesOf(kernel))
  }

  get hasPoints(): boolean {
    return this.#hasPoint(this.#kernel.body)
  }

  run(target: Target): Kernel {
    const trees = this.#treesOf(this.#kernel.body)
    writeLoops(this.#kernel, this.#builder, this.#arrays, trees, this.#counters, target)
    return finish(this.#builder, this.#kernel, {
      workgroup: [1, 1, 1],
      subgroup: 0,
      shared: [...this.#kernel.shared, ...this.#arrays.list],
    })
  }

  each(write: () => void): void {
    this.#phase.push(...this.#builder.block(write).src)
  }

  lead(write: () => void): void {
    this.split()
    this.#trees.push({ kind: 'phase', lead: true, mask: this.mask, statements: this.#builder.block(write).src })
  }

  split(): void {
    if (this.#phase.length > 0) this.#trees.push({ kind: 'phase', lead: false, mask: this.mask, statements: this.#phase })
    this.#phase = []
  }

  /** The trees of a block, run under a mask. */
  #treesOf(block: Node, mask = this.mask, after: () => void = () => {}): PhaseTree[] {
    const outer = { trees: this.#trees, phase: this.#phase, mask: this.mask }
    this.#trees = []
    this.#phase = []
    this.mask = mask
    block.src.forEach(this.#statement)
    after()
    this.split()
    const trees = this.#trees
    this.#trees = outer.trees
    this.#phase = outer.phase
    this.mask = outer.mask
    return trees
  }

  readonly #statement = (node: Node): void => {
    if (isDissolved(node) && !isTile(node.src[0].dtype)) this.#known.set(node.arg.id, this.expression(node.src[0]))
    else if (this.#isOnce(node)) this.#once(node)
    else if (this.#hasPoint(node) || (this.#broken !== undefined && leaves(node))) this.#point(node)
    else this.each(() => this.#copy(node))
  }

  /** True for a statement that needs no lane. */
  #isOnce(node: Node): boolean {
    return this.mask === undefined && node.op !== 'breakIf' && !this.#hasPoint(node) && !leaves(node) && this.#outer.covers(node)
  }

  /** It comes before the phase it stands in: nothing in there changes what it reads, and what it names is used by that name only. */
  #once(statement: Node): void {
    const statements = this.#builder.block(() => this.#copy(statement)).src
    walk(statement, (node) => {
      if (isDeclaration(node)) this.#outside.add(node.arg.id)
    })
    this.#trees.push({ kind: 'once', statements })
  }

  /** A statement that a lane runs alone. */
  readonly #copy = (node: Node): void => {
    if (isDissolved(node)) this.#known.set(node.arg.id, this.expression(node.src[0]))
    else copy(this.#builder, node, this.expression, this.#copy)
  }

  /** A statement in which lanes wait for each other, or leave a loop that others stay in. */
  #point(node: Node): void {
    switch (node.op) {
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
      case 'let':
      case 'var':
      case 'set':
        return this.#assign(node)
      default:
        throw new IngotError('bad-kernel', `${node.op} is no statement in which lanes wait`, { op: this.#kernel.name })
    }
  }

  #assign(node: NodeOf<'let' | 'var' | 'set'>): void {
    const [value] = node.src
    const id = idOf(node)
    if (isTile(value.dtype)) this.#collective.assign(this, id, value)
    else this.#known.set(id, this.#collective.subgroup(this, value, node.op === 'set' ? '' : node.arg.name, id))
  }

  #if(node: NodeOf<'if'>): void {
    const condition = this.expression(node.src[0])
    const [then, otherwise] = [node.src[1], node.src[2]]
    if (this.#isOutside(condition)) {
      this.split()
      const [yes, no] = [this.#treesOf(then), otherwise === undefined ? [] : this.#treesOf(otherwise)]
      this.#trees.push({ kind: 'if', condition, yes, no })
      return
    }
    // both masks first: a branch may change what the condition was made of
    const yes = this.#fillMask(condition)
    const no = otherwise === undefined ? undefined : this.#fillMask(this.#builder.make('not', 'bool', [condition]))
    this.#branch(then, yes)
    if (otherwise !== undefined && no !== undefined) this.#branch(otherwise, no)
  }

  #branch(block: Node, mask: string): void {
    const outer = this.#broken
    if (outer !== undefined) this.#broken = [...outer, mask]
    this.#trees.push(...this.#treesOf(block, mask))
    this.#broken = outer
  }

  #for({ src, arg }: NodeOf<'for'>): void {
    const [from, to, step] = [this.expression(src[0]), this.expression(src[1]), this.expression(src[2])]
    const outer = this.#broken
    this.#broken = undefined
    if ([from, to, step].every((node) => this.#isOutside(node))) {
      this.split()
      this.#outside.add(arg.id)
      this.#trees.push({ kind: 'for', bounds: [from, to, step], arg, body: this.#treesOf(src[3]) })
    } else this.#countEach(arg.id, from, to, step, src[3])
    this.#broken = outer
  }

  /** A loop that lanes may go through differently often: each counts for itself. */
  #countEach(id: number, from: Node, to: Node, step: Node, block: Node): void {
    const [builder, lane] = [this.#builder, this.#builder.index('lane')]
    const value = (node: Node): Value<'u32'> => valueOf(builder, node)
    const counter = this.#arrays.make('counter', 'u32', lanesOf(this.#kernel))
    this.#counters.set(id, counter)
    const local = value(builder.local(id, 'u32'))
    this.each(() => builder.store(counter, lane, from))
    this.split()
    const mask = this.#arrays.make('active', 'u32', lanesOf(this.#kernel))
    const nothing = builder.block(() => {})
    const head = this.#treesOf(nothing, this.mask, () => this.#setMask(mask, local.lt(value(to)).node))
    const body = this.#treesOf(block, mask, () => {
      this.each(() => builder.store(counter, lane, local.add(value(step)).node))
    })
    this.#trees.push({ kind: 'loop', head, mask, body })
  }

  #loop(node: NodeOf<'loop'>): void {
    const [block] = node.src
    const outer = this.#broken
    if (this.mask === undefined && this.#outer.isTogether(node)) {
      this.split()
      this.#broken = []
      this.#trees.push({ kind: 'around', body: this.#treesOf(block) })
      this.#broken = outer
      return
    }
    const mask = this.#fillMask(this.#builder.constant(1, 'bool'))
    this.#broken = [mask]
    this.#trees.push({ kind: 'loop', head: [], mask, body: this.#treesOf(block, mask) })
    this.#broken = outer
  }

  #break({ src }: NodeOf<'breakIf'>): void {
    const builder = this.#builder
    const condition = this.expression(src[0])
    if (this.#broken?.length === 0) {
      this.split()
      this.#trees.push({ kind: 'break', condition })
      return
    }
    this.each(() =>
      when(builder, condition, () => {
        for (const mask of this.#broken ?? []) builder.store(mask, builder.index('lane'), builder.constant(0, 'u32'))
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
    const builder = this.#builder
    const lane = builder.index('lane')
    this.split()
    if (this.mask !== undefined) {
      const statements = builder.block(() => builder.store(mask, lane, builder.constant(0, 'u32'))).src
      this.#trees.push({ kind: 'phase', lead: false, mask: undefined, statements })
    }
    this.each(() => builder.store(mask, lane, builder.make('cast', 'u32', [condition])))
    this.split()
  }

  /** True if a statement makes lanes wait for each other. */
  #hasPoint(node: Node): boolean {
    let isPoint = this.#points.get(node)
    if (isPoint === undefined) {
      const inner = node.op === 'block' ? node.src : blocksOf(node)
      isPoint = isPointItself(node) || inner.some((each) => this.#hasPoint(each))
      this.#points.set(node, isPoint)
    }
    return isPoint
  }

  /** True if an expression is the same for all lanes and can be computed outside of the loops over them. */
  #isOutside(node: Node): boolean {
    let isOutside = this.#outsideNodes.get(node)
    if (isOutside === undefined) {
      isOutside =
        node.op === 'local'
          ? this.#outside.has(node.arg)
          : node.op === 'index'
            ? indexRecord(node.arg).uniform === 'workgroup'
            : opRecord(node.op).kind === 'pure' && node.src.every((child) => this.#isOutside(child))
      this.#outsideNodes.set(node, isOutside)
    }
    return isOutside
  }
}

/** True for the name of a pure value, which stands for that wherever it is used; steps of a sum are done where they stand. */
function isDissolved(node: Node): node is NodeOf<'let'> {
  return node.op === 'let' && node.src[0].op !== 'fma' && opRecord(node.src[0].op).kind === 'pure'
}

/** True if lanes wait for each other in a statement, whatever its blocks hold. */
function isPointItself(node: Node): boolean {
  return [node, ...valuesOf(node)].some((each) => isTile(each.dtype) || convergenceOf(each) !== undefined)
}
