// A phase written for several lanes side by side, as far as their control flow is the same: the lanes of a vector run one statement after
// the other, together. A condition that they may decide differently is looked at first: if it holds for all, its branch runs for all; if
// lanes differ, they run the statement one after the other (lane-apart.ts). Sets of variables alone are done for all, and kept by those
// for which the condition holds. Loads and stores at places that follow each other are one of a vector.
//
// Every lane does what it would do alone, in the same order; between lanes there is none, since they do not wait for each other here.

import { type DType, type Width, asWidth, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Builder } from '../build.ts'
import { type Kernel, memoryOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, idOf, walk } from '../node.ts'
import type { Value } from '../value.ts'
import { Apart, type Variable } from './lane-apart.ts'
import type { LaneArrays } from './lane-array.ts'
import type { Shapes } from './lane-shape.ts'
import type { Survey } from './lane-survey.ts'
import { LaneValues } from './lane-value.ts'
import type { Phase } from './phase.ts'
import { constantOf } from './constant.ts'
import { Facts } from './fact.ts'
import { when } from './rewrite.ts'

/** What phases of a kernel are written with. */
export interface Writing {
  readonly kernel: Kernel
  readonly builder: Builder
  readonly arrays: LaneArrays
  readonly survey: Survey
}

/** True if a phase can be written for lanes side by side: what differs between lanes, and what they keep, is scalars. */
export function isAbreast(phase: Phase, shapes: Shapes, survey: Survey): boolean {
  const kept = [...survey.variablesOf(phase).map(([, dtype]) => dtype), ...survey.fetched(phase).map(([, { dtype }]) => dtype)]
  let isScalar = !phase.lead && kept.every((dtype) => widthOf(dtype) === 1)
  for (const statement of phase.statements) {
    walk(statement, (node) => {
      if (node.op !== 'let' && node.op !== 'var' && node.op !== 'set' && node.op !== 'store') return
      const isOne = node.op !== 'store' && shapes.ofId(idOf(node)).by === 0 && !survey.isShared(idOf(node))
      if (widthOf((node.op === 'store' ? node.src[1] : node.src[0]).dtype) > 1 && !isOne) isScalar = false
    })
  }
  return isScalar
}

export class ManyLanes {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #survey: Survey
  readonly #shapes: Shapes
  /** number of the first lane */
  readonly #lane: Value<'u32'>
  readonly #values: LaneValues
  readonly #variables = new Map<number, Variable>()
  readonly #width: 1 | Width
  /** conditions that are decided for all lanes here */
  readonly #facts: Facts

  constructor({ kernel, builder, arrays, survey }: Writing, shapes: Shapes, lane: Value<'u32'>, facts = new Facts(builder)) {
    this.#width = asWidth(shapes.width)
    this.#facts = facts
    this.#kernel = kernel
    this.#builder = builder
    this.#arrays = arrays
    this.#survey = survey
    this.#shapes = shapes
    this.#lane = lane
    this.#values = new LaneValues(kernel, builder, shapes, lane)
  }

  run(phase: Phase): void {
    const survey = this.#survey
    for (const [id, local] of survey.fetched(phase)) {
      const mem = survey.counters.get(id) ?? this.#arrays.home(id, local.dtype)
      this.#values.name(id, this.#fetch(mem, id, local.dtype, 'kept'))
    }
    const { exposed, definite, set } = survey.usageOf(phase)
    const others = survey.variablesOf(phase)
    for (const [id, dtype] of others) {
      const isFetched = survey.isKept(id) && !survey.isDeclaredIn(id, phase) && (exposed.has(id) || !definite.has(id))
      this.#declare(id, 'kept', isFetched ? this.#fetch(this.#arrays.home(id, dtype), id, dtype, 'kept') : this.#blank(id, dtype))
    }
    phase.statements.forEach(this.#statement)
    for (const [id, dtype] of others) {
      if (survey.isKept(id) && (set.has(id) || survey.isDeclaredIn(id, phase))) this.#keep(id, dtype, this.#get(id, 'kept'))
    }
  }

  // ---- what lanes keep from phase to phase

  #isWide(id: number): boolean {
    return this.#shapes.ofId(id).by === undefined
  }

  #wideType(dtype: DType): DType {
    return vector(scalarOf(dtype), this.#width)
  }

  #blank(id: number, dtype: DType): Node {
    return this.#builder.constant(0, this.#isWide(id) ? this.#wideType(dtype) : dtype)
  }

  /** What these lanes have kept: of the first, or of all. */
  #fetch(mem: string, id: number, dtype: DType, name: string): Node {
    const held = scalarOf(dtype) === 'bool' ? 'u32' : scalarOf(dtype)
    const isWide = this.#isWide(id)
    const type = vector(held, isWide ? this.#width : 1)
    const node = this.#builder.load(mem, this.#lane.node, type, isWide ? { width: this.#shapes.width } : {})
    this.#builder.rename(Number(node.arg), name)
    return scalarOf(dtype) !== 'bool'
      ? node
      : this.#builder.make('ne', isWide ? this.#wideType(dtype) : dtype, [node, this.#builder.constant(0, type)])
  }

  #keep(id: number, dtype: DType, value: Node): void {
    const all = widthOf(value.dtype) > 1 ? value : this.#values.steps(value, Number(this.#shapes.ofId(id).by))
    const held = scalarOf(dtype) === 'bool' ? this.#builder.make('cast', this.#wideType('u32'), [all]) : all
    this.#builder.store(this.#arrays.home(id, dtype), this.#lane.node, held, this.#shapes.width)
  }

  // ---- statements

  readonly #statement = (node: Node): void => {
    switch (node.op) {
      case 'let':
        return this.#let(node)
      case 'var':
        return this.#variables.has(node.arg.id)
          ? this.#set(node.arg.id, node.src[0])
          : this.#declare(node.arg.id, node.arg.name, this.#shaped(node.arg.id, node.src[0]))
      case 'set':
        return this.#set(node.arg, node.src[0])
      case 'store':
        return this.#store(node)
      case 'if':
        return this.#if(node)
      case 'for':
        return this.#for(node)
      case 'loop':
        return this.#shapes.isTorn(node) ? this.#apart(node) : this.#builder.loop(() => node.src[0].src.forEach(this.#statement))
      case 'breakIf':
        return this.#builder.add('breakIf', [this.#values.first(node.src[0])])
      default:
        return this.#apart(node)
    }
  }

  #block(block: Node): () => void {
    return () => block.src.forEach(this.#statement)
  }

  /** A value as what holds it is: of the first lane, or of all. */
  #shaped(id: number, value: Node): Node {
    return this.#isWide(id) ? this.#values.wide(value) : this.#values.first(value)
  }

  #declare(id: number, name: string, value: Node): void {
    this.#variables.set(id, { id: this.#builder.variable(name, value), dtype: value.dtype })
  }

  #variable(id: number): Variable {
    const variable = this.#variables.get(id)
    if (variable === undefined) throw new TypeError(`variable ${id} is used before it is declared`)
    return variable
  }

  #get(id: number, name: string): Node {
    const variable = this.#variable(id)
    return this.#builder.get(name, variable.id, variable.dtype)
  }

  #set(id: number, value: Node): void {
    this.#builder.set(this.#variable(id).id, this.#shaped(id, value))
  }

  #let({ src: [value], arg: { id, name } }: NodeOf<'let'>): void {
    const node = this.#effect(id, value, name)
    this.#values.name(id, node)
    if (this.#survey.isKept(id)) this.#keep(id, value.dtype, node)
  }

  #effect(id: number, value: Node, name: string): Node {
    switch (value.op) {
      case 'get':
        return this.#get(value.arg, name)
      case 'load': {
        if (this.#isWide(id)) return this.#builder.bind(name, this.#load(value.arg.mem, value.src[0], value.dtype))
        const { arg, dtype } = value
        return this.#builder.bind(name, this.#builder.make('load', dtype, [this.#values.first(value.src[0])], arg))
      }
      case 'atomic':
        return this.#atomic(value, name)
      default: {
        // a step of a sum is done where it stands, so that what it needs is not kept in registers until the sum is complete
        const made = this.#builder.variable(name, this.#shaped(id, value))
        return this.#builder.get(name, made, this.#isWide(id) ? this.#wideType(value.dtype) : value.dtype)
      }
    }
  }

  #atomic({ src: [index, value], arg, dtype }: NodeOf<'atomic'>, name: string): Node {
    const values = this.#values
    return values.each((lane) => this.#builder.effect(name, 'atomic', [values.one(index, lane), values.one(value, lane)], arg, dtype))
  }

  #for(node: NodeOf<'for'>): void {
    if (this.#shapes.isTorn(node)) return this.#apart(node)
    const [from, to, step, body] = node.src
    const bounds = [this.#values.first(from), this.#values.first(to), this.#values.first(step)] as const
    const { id, name, unroll } = node.arg
    const write = (counter: Node): void => {
      this.#values.name(id, counter)
      this.#block(body)()
    }
    return this.#builder.for(name, bounds, write, unroll)
  }

  #if(node: NodeOf<'if'>): void {
    const [condition, then, otherwise] = node.src
    const decided = constantOf(this.#facts.settle(condition))
    if (decided !== undefined) return (decided === 0 ? otherwise : then)?.src.forEach(this.#statement)
    const { by } = this.#shapes.of(condition)
    const no = otherwise === undefined ? undefined : this.#block(otherwise)
    if (by === 0) return this.#builder.if(this.#values.first(condition), this.#assuming(condition, then), no)
    if (blocksOf(node).every(({ src }) => src.every(isAssignment))) return this.#choose(node)
    const ends = this.#values.ends(condition)
    if (ends !== undefined) return this.#split(node, ends.all, ends.any)
    const guard = otherwise === undefined ? this.#values.mayHold(condition) : undefined
    const look = (): void => {
      const mask = this.#builder.bind('mask', this.#values.wide(condition))
      const decide = (op: 'hall' | 'hany'): Node => this.#builder.make(op, 'bool', [mask])
      const yes = this.#assuming(condition, then)
      // what holds for a few lanes most often holds for none
      this.#builder.if(decide('hany'), () => this.#builder.if(decide('hall'), yes, () => this.#apart(node)), no)
    }
    return guard === undefined ? look() : when(this.#builder, guard, look)
  }

  /** All lanes one way, all the other way, or one after the other. */
  #split(node: NodeOf<'if'>, all: Node, any: Node): void {
    const [condition, then, otherwise] = node.src
    this.#builder.if(all, this.#assuming(condition, then), () =>
      this.#builder.if(any, () => this.#apart(node), otherwise === undefined ? undefined : this.#block(otherwise)),
    )
  }

  /** A block in which a condition holds for all lanes. */
  #assuming(condition: Node, block: Node): () => void {
    return () => this.#facts.during(condition, this.#block(block))
  }

  /** Branches that set variables only: for all lanes, of which each keeps what its branch gives. */
  #choose({ src: [condition, then, otherwise] }: NodeOf<'if'>): void {
    const guard = otherwise === undefined ? this.#values.mayHold(condition) : undefined
    const choose = (): void => {
      const mask = this.#builder.bind('mask', this.#values.wide(condition))
      for (const node of then.src) this.#assign(node, mask)
      const others = this.#builder.make('not', mask.dtype, [mask])
      for (const node of otherwise?.src ?? []) this.#assign(node, others)
    }
    if (guard === undefined) choose()
    else when(this.#builder, guard, choose)
  }

  #assign(node: Node, mask: Node): void {
    if (node.op !== 'set') return this.#statement(node)
    const { id, dtype } = this.#variable(node.arg)
    const value = this.#values.wide(node.src[0])
    const before = this.#builder.get('before', id, dtype)
    return this.#builder.set(id, this.#builder.make('select', dtype, [mask, value, before]))
  }

  #apart(node: Node): void {
    new Apart(this.#kernel, this.#builder, this.#arrays, this.#shapes, this.#values, this.#lane).run(node, this.#variables)
  }

  // ---- memory

  #isAtomic(mem: string): boolean {
    return memoryOf(this.#kernel, mem)?.atomic === true
  }

  /** An index that a condition chooses, where that is known to hold. */
  #resolve(index: Node): Node {
    const decided = index.op === 'select' ? constantOf(this.#facts.settle(index.src[0])) : undefined
    return index.op === 'select' && decided !== undefined ? this.#resolve(decided === 0 ? index.src[2] : index.src[1]) : index
  }

  #load(mem: string, index: Node, dtype: DType): Node {
    const { width } = this.#shapes
    const [values, builder] = [this.#values, this.#builder]
    const place = this.#resolve(index)
    const by = this.#shapes.strideIn(mem, place)
    const one = (at: Node): Node => builder.load(mem, at, dtype)
    const isLoose = !this.#isAtomic(mem)
    if (isLoose && by === 1) return builder.load(mem, values.first(place), this.#wideType(dtype), { width })
    if (isLoose && by === 0) return values.steps(one(values.first(place)), 0)
    if (typeof by === 'number') return values.each((lane) => one(values.one(place, lane)))
    const choice = isLoose ? this.#choiceOf(place) : undefined
    const together = choice?.all ?? (isLoose ? this.#follow(place) : undefined)
    const scattered = (): Node => values.each((lane) => one(builder.make('extract', 'u32', [values.wide(place)], lane)))
    if (together === undefined) return scattered()
    const id = builder.variable(mem, builder.constant(0, this.#wideType(dtype)))
    builder.if(
      together,
      () => builder.set(id, choice === undefined ? this.#loadFrom(mem, place, dtype) : this.#load(mem, choice.place, dtype)),
      () => builder.set(id, scattered()),
    )
    return builder.get(mem, id, this.#wideType(dtype))
  }

  #loadFrom(mem: string, place: Node, dtype: DType): Node {
    const { width } = this.#shapes
    const first = this.#builder.make('extract', 'u32', [this.#values.wide(place)], 0)
    return this.#builder.load(mem, first, this.#wideType(dtype), { width })
  }

  /** An index that is an even one if a condition holds for all lanes. */
  #choiceOf(place: Node): { readonly all: Node; readonly place: Node } | undefined {
    if (place.op !== 'select') return undefined
    const [condition, chosen] = place.src
    const { by } = this.#shapes.of(chosen)
    const ends = by === 0 || by === 1 ? this.#values.ends(condition) : undefined
    return ends === undefined ? undefined : { all: ends.all, place: chosen }
  }

  /** Whether the places of all lanes follow each other. */
  #follow(place: Node): Node {
    const builder = this.#builder
    const all = this.#values.wide(place)
    const first = builder.make('extract', 'u32', [all], 0)
    return builder.make('hall', 'bool', [builder.make('eq', this.#wideType('bool'), [all, this.#values.steps(first, 1)])])
  }

  #store({ src: [index, value], arg: { mem } }: NodeOf<'store'>): void {
    const { width } = this.#shapes
    const [values, builder] = [this.#values, this.#builder]
    const place = this.#resolve(index)
    const by = this.#shapes.strideIn(mem, place)
    const isLoose = !this.#isAtomic(mem)
    if (isLoose && by === 1) return builder.store(mem, values.first(place), values.wide(value), width)
    // all lanes at one place: the last one stays
    if (by === 0) return builder.store(mem, values.first(place), values.one(value, width - 1))
    const scattered = (): void => {
      for (let lane = 0; lane < width; lane++) builder.store(mem, values.one(place, lane), values.one(value, lane))
    }
    if (typeof by === 'number' || !isLoose) return scattered()
    const first = builder.make('extract', 'u32', [values.wide(place)], 0)
    return builder.if(this.#follow(place), () => builder.store(mem, first, values.wide(value), width), scattered)
  }
}

/** True for a statement that changes nothing but variables. */
export function isAssignment(node: Node): boolean {
  return node.op === 'set' || (node.op === 'let' && node.src[0].op === 'get')
}
