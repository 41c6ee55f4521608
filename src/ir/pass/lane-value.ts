// Values of lanes that run side by side. What is the same for all of them, or grows evenly from lane to lane, is computed once, for the
// first lane; all else is a vector with an element for each. What no vector can do is done lane by lane. Makes expressions only; which names
// stand for what is told by who binds them.

import { asWidth, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Builder } from '../build.ts'
import type { Kernel } from '../kernel.ts'
import type { Node } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Value } from '../value.ts'
import { positionOf } from './lane-position.ts'
import type { Shapes } from './lane-shape.ts'

/** What is known of a condition without looking at each lane. */
export interface Ends {
  /** if true, it holds for all lanes */
  readonly all: Node
  /** if false, it holds for none */
  readonly any: Node
}

export class LaneValues {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #shapes: Shapes
  /** number of the first lane */
  readonly #lane: Value<'u32'>
  readonly #width: number
  /** what names stand for: the first lane's value, or a vector of all */
  readonly #named = new Map<number, Node>()
  readonly #ones = new Map<number, Map<Node, Node>>()
  readonly #wides = new Map<Node, Node>()

  constructor(kernel: Kernel, builder: Builder, shapes: Shapes, lane: Value<'u32'>) {
    this.#kernel = kernel
    this.#builder = builder
    this.#shapes = shapes
    this.#lane = lane
    this.#width = shapes.width
  }

  /** Says what a name stands for: a vector if its values have no other shape. */
  name(id: number, node: Node): void {
    this.#named.set(id, node)
  }

  first(node: Node): Node {
    return this.one(node, 0)
  }

  /** The value of one lane; the first is 0. */
  one(node: Node, lane: number): Node {
    let ones = this.#ones.get(lane)
    if (ones === undefined) this.#ones.set(lane, (ones = new Map<Node, Node>()))
    let made = ones.get(node)
    if (made === undefined) ones.set(node, (made = this.#one(node, lane)))
    return made
  }

  #one(node: Node, lane: number): Node {
    const { by } = this.#shapes.of(node)
    if (lane > 0 && typeof by === 'number') return this.plus(this.first(node), by * lane)
    if (node.op === 'index') return positionOf(this.#kernel, node, this.#lane.add(lane))
    if (node.op === 'local') {
      const named = this.#named.get(node.arg)
      if (named === undefined) return this.#builder.local(node.arg, node.dtype) // from outside of the lanes
      return widthOf(named.dtype) > widthOf(node.dtype) ? this.#builder.make('extract', node.dtype, [named], lane) : named
    }
    return this.#builder.make(
      node.op,
      node.dtype,
      node.src.map((each) => this.one(each, lane)),
      node.arg,
    )
  }

  plus(node: Node, amount: number): Node {
    if (amount === 0) return node
    const wrapped = node.dtype === 'i32' ? amount | 0 : amount >>> 0
    return this.#builder.make('add', node.dtype, [node, this.#builder.constant(wrapped, node.dtype)])
  }

  /** The values of all lanes as a vector. */
  wide(node: Node): Node {
    let made = this.#wides.get(node)
    if (made === undefined) this.#wides.set(node, (made = this.#wide(node)))
    return made
  }

  #wide(node: Node): Node {
    const { by } = this.#shapes.of(node)
    if (typeof by === 'number') return this.steps(this.first(node), by)
    const named = node.op === 'local' ? this.#named.get(node.arg) : undefined
    if (named !== undefined) return named
    if (!isElementwise(node)) return this.each((lane) => this.one(node, lane))
    return this.#builder.make(
      node.op,
      vector(scalarOf(node.dtype), asWidth(this.#width)),
      node.src.map((each) => this.wide(each)),
      node.arg,
    )
  }

  /** A vector of what `make` gives for each lane. */
  each(make: (lane: number) => Node): Node {
    return this.#builder.vec(Array.from({ length: this.#width }, (_, lane) => make(lane)))
  }

  /** A vector that begins with a value and grows from lane to lane. */
  steps(first: Node, by: number): Node {
    const dtype = vector(scalarOf(first.dtype), asWidth(this.#width))
    const all = this.#builder.make('splat', dtype, [first])
    if (by === 0) return all
    const constant = (value: number): Node => this.#builder.constant(first.dtype === 'i32' ? value | 0 : value >>> 0, first.dtype)
    return this.#builder.make('add', dtype, [all, this.each((lane) => constant(by * lane))])
  }

  /** Undefined where it takes a look at each lane. */
  ends(node: Node): Ends | undefined {
    const { by } = this.#shapes.of(node)
    if (by === 0) return { all: this.first(node), any: this.first(node) }
    return by === 'ends' ? this.#ends(node) : undefined
  }

  #ends(node: Node): Ends | undefined {
    const parts = node.src.map((each) => (each.dtype === 'bool' ? this.ends(each) : undefined))
    const [a, b, c] = parts
    const make = (op: 'and' | 'or' | 'not' | 'select', ...src: readonly Node[]): Node => this.#builder.make(op, 'bool', src)
    switch (node.op) {
      case 'not':
        return a === undefined ? undefined : { all: make('not', a.any), any: make('not', a.all) }
      case 'and':
      case 'or':
        return a === undefined || b === undefined ? undefined : { all: make(node.op, a.all, b.all), any: make(node.op, a.any, b.any) }
      case 'select':
        return a === undefined || b === undefined || c === undefined
          ? undefined
          : { all: make('select', a.all, b.all, c.all), any: make('select', a.all, b.any, c.any) }
      default: {
        const [first, last] = [this.first(node), this.one(node, this.#width - 1)]
        return { all: make('and', first, last), any: make('or', first, last) }
      }
    }
  }

  /** False only if a condition holds for no lane, as far as the ends tell; undefined if they tell nothing. */
  mayHold(node: Node): Node | undefined {
    const ends = this.ends(node)
    if (ends !== undefined || node.op !== 'and') return ends?.any
    const [a, b] = [this.mayHold(node.src[0]), this.mayHold(node.src[1])]
    return a === undefined || b === undefined ? (a ?? b) : this.#builder.make('and', 'bool', [a, b])
  }
}

/** True for what an op of vectors does with each element alone; slow functions of f64 have no vectors anywhere. */
function isElementwise({ op, dtype, src }: Node): boolean {
  const { js, slow = false } = opRecord(op)
  const isPlain = widthOf(dtype) === 1 && src.every((each) => widthOf(each.dtype) === 1)
  return js !== undefined && isPlain && op !== 'table' && !(slow && scalarOf(dtype) === 'f64')
}
