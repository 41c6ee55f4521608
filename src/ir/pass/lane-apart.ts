// A statement that lanes side by side cannot run together: they run it one after the other. What it needs of vectors is put into arrays
// before, one element for each lane, and variables that it sets are fetched from there afterwards.

import { type DType, scalarOf, widthOf } from '../../base/dtype.ts'
import type { Builder } from '../build.ts'
import type { Kernel } from '../kernel.ts'
import { type Node, blocksOf, isDeclaration, valuesOf, walk } from '../node.ts'
import type { Value } from '../value.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import { positionOf } from './lane-position.ts'
import type { Shapes } from './lane-shape.ts'
import type { LaneValues } from './lane-value.ts'
import { rebuilder, repeat, u32 } from './rewrite.ts'

/** A variable of the kernel that is written, of one lane or of all. */
export interface Variable {
  readonly id: number
  readonly dtype: DType
}

export class Apart {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #shapes: Shapes
  readonly #values: LaneValues
  readonly #lane: Value<'u32'>

  constructor(kernel: Kernel, builder: Builder, arrays: LaneArrays, shapes: Shapes, values: LaneValues, lane: Value<'u32'>) {
    this.#kernel = kernel
    this.#builder = builder
    this.#arrays = arrays
    this.#shapes = shapes
    this.#values = values
    this.#lane = lane
  }

  /** `variables`: those that are declared around the statement. */
  run(statement: Node, variables: ReadonlyMap<number, Variable>): void {
    const { width } = this.#shapes
    const builder = this.#builder
    const { locals, read, set } = namesIn(statement)
    const spilled = new Map<number, string>()
    const spill = (id: number, all: Node): void => {
      const mem = this.#arrays.spill(id, all.dtype)
      keep(builder, mem, u32(builder, 0), all)
      spilled.set(id, mem)
    }
    for (const [id, local] of locals) if (this.#shapes.of(local).by === undefined) spill(id, this.#values.wide(local))
    const used = [...variables].filter(([id]) => read.has(id) || set.has(id))
    for (const [id, variable] of used) if (isWide(variable, width)) spill(id, builder.get('spilled', variable.id, variable.dtype))
    repeat(builder, 'l', width, 1, (l) =>
      new OneOfMany(this.#kernel, builder, this.#shapes, this.#values, this.#lane, l, spilled, used).run(statement),
    )
    for (const [id, variable] of used) {
      const mem = spilled.get(id)
      if (mem !== undefined && set.has(id)) builder.set(variable.id, recall(builder, mem, u32(builder, 0), variable.dtype, 'set'))
    }
  }
}

function isWide({ dtype }: Variable, width: number): boolean {
  return widthOf(dtype) === width
}

/** The names from outside that a statement uses. */
function namesIn(statement: Node): { locals: Map<number, Node>; read: Set<number>; set: Set<number> } {
  const locals = new Map<number, Node>()
  const [read, set, declared] = [new Set<number>(), new Set<number>(), new Set<number>()]
  walk(statement, (node) => {
    if (node.op === 'local') locals.set(node.arg, node)
    if (node.op === 'get') read.add(node.arg)
    if (node.op === 'set') set.add(node.arg)
    if (isDeclaration(node)) declared.add(node.arg.id)
  })
  for (const id of declared) for (const names of [locals, read, set]) names.delete(id)
  return { locals, read, set }
}

/** A statement written for one of the lanes; all that it declares gets new ids. */
class OneOfMany {
  readonly #builder: Builder
  readonly #spilled: ReadonlyMap<number, string>
  readonly #used: readonly (readonly [number, Variable])[]
  readonly #shapes: Shapes
  readonly #l: Value<'u32'>
  readonly #named = new Map<number, Node>()
  readonly #variables = new Map<number, number>()
  readonly #expression: (node: Node) => Node

  constructor(
    kernel: Kernel,
    builder: Builder,
    shapes: Shapes,
    values: LaneValues,
    lane: Value<'u32'>,
    l: Value<'u32'>,
    spilled: ReadonlyMap<number, string>,
    used: readonly (readonly [number, Variable])[],
  ) {
    this.#builder = builder
    this.#shapes = shapes
    this.#spilled = spilled
    this.#used = used
    this.#l = l
    this.#expression = rebuilder(builder, (node) => {
      if (node.op === 'index') return positionOf(kernel, node, lane.add(l))
      return node.op === 'local' ? (this.#named.get(node.arg) ?? this.#even(values.first(node), shapes.of(node).by)) : undefined
    })
  }

  /** What grows evenly from lane to lane. */
  #even(first: Node, by: number | 'ends' | undefined): Node {
    if (typeof by !== 'number' || by === 0) return first
    const builder = this.#builder
    const steps = builder.make('mul', 'u32', [this.#l.node, builder.constant(by >>> 0, 'u32')])
    return builder.make('add', first.dtype, [first, first.dtype === 'u32' ? steps : builder.make('bitcast', first.dtype, [steps])])
  }

  run(statement: Node): void {
    const builder = this.#builder
    const variables = new Map(this.#used)
    for (const [id, mem] of this.#spilled) {
      const variable = variables.get(id)
      if (variable === undefined) continue
      const dtype = scalarOf(variable.dtype)
      this.#variables.set(id, builder.variable('own', recall(builder, mem, this.#l, dtype, 'own')))
    }
    this.#fetchLocals(statement)
    this.#statement(statement)
    for (const [id, variable] of variables) {
      const [mem, own] = [this.#spilled.get(id), this.#variables.get(id)]
      if (mem !== undefined && own !== undefined) keep(builder, mem, this.#l, builder.get('own', own, scalarOf(variable.dtype)))
    }
  }

  #fetchLocals(statement: Node): void {
    walk(statement, (node) => {
      const mem = node.op === 'local' ? this.#spilled.get(node.arg) : undefined
      if (node.op !== 'local' || mem === undefined || this.#named.has(node.arg)) return
      this.#named.set(node.arg, recall(this.#builder, mem, this.#l, node.dtype, 'own'))
    })
  }

  readonly #statement = (node: Node): void => {
    const builder = this.#builder
    switch (node.op) {
      case 'let': {
        const [value] = node.src
        const made = value.op === 'get' ? this.#get(value) : this.#expression(value)
        this.#named.set(node.arg.id, builder.bind(node.arg.name, made))
        return
      }
      case 'var':
        this.#variables.set(node.arg.id, builder.variable(node.arg.name, this.#expression(node.src[0])))
        return
      case 'set':
        return builder.set(this.#ownOf(node.arg), this.#expression(node.src[0]))
      case 'for': {
        const [from, to, step, body] = node.src
        const bounds = [this.#expression(from), this.#expression(to), this.#expression(step)] as const
        const { id, name, unroll } = node.arg
        return builder.for(
          name,
          bounds,
          (counter) => {
            this.#named.set(id, counter)
            body.src.forEach(this.#statement)
          },
          unroll,
        )
      }
      default: {
        const blocks = blocksOf(node).map(({ src }) => builder.block(() => src.forEach(this.#statement)))
        return builder.add(node.op, [...valuesOf(node).map(this.#expression), ...blocks], node.arg)
      }
    }
  }

  #get({ arg, dtype }: Node & { readonly op: 'get' }): Node {
    const own = this.#variables.get(arg)
    if (own !== undefined) return this.#builder.make('get', dtype, [], own)
    const variable = this.#used.find(([id]) => id === arg)?.[1]
    if (variable === undefined) throw new TypeError(`variable ${arg} is not known to a lane`)
    return this.#even(this.#builder.get('first', variable.id, dtype), this.#shapes.ofId(arg).by)
  }

  #ownOf(id: number): number {
    const own = this.#variables.get(id)
    if (own === undefined) throw new TypeError(`variable ${id} is set by a lane alone, but is one of all`)
    return own
  }
}
