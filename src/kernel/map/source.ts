// What an expression is computed from, in the kernel language: walks that go side by side through the memory of its inputs, and its value
// at a place of theirs. Every kernel that begins with an expression reads through this: maps (body.ts) and reductions (reduce/).

import type { Width } from '../../base/dtype.ts'
import type { ElementType } from '../../base/element.ts'
import { type Handles, type LaneScope, type ParamSpec, uniform } from '../../ir/author.ts'
import type { Elements, Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { type ElementSource, type Hint, type Register, elements, readOne, readVector } from '../element.ts'
import { type MapExpr, writeExpr } from './expr.ts'
import { type WalkTraits, numbersOf } from './walk.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>

/** `result`: the memory that the result takes, which holds the input before. */
export type Origin = 'memory' | 'place' | 'result'

export interface InputTraits extends WalkTraits {
  readonly type: ElementType
  readonly source: Origin
}

/** What kernels can be given as numbers. */
export type SlotType = Exclude<Register, 'bool' | 'f64'>

/** What a kernel knows of an expression and of what it reads. */
export interface SourceTraits {
  /** with slots for its constants */
  readonly expr: MapExpr
  readonly inputs: readonly InputTraits[]
  readonly slots: readonly SlotType[]
  /** axes after merging */
  readonly rank: number
}

const many = <P extends ParamSpec>(count: number, spec: P): P[] => Array.from({ length: count }, () => spec)

/** Numbers of walks are given one walk after the other; those of `others`, which are no inputs, come last. */
export const sourceParams = ({ inputs, slots, rank }: SourceTraits, others: readonly WalkTraits[] = []) => ({
  in: inputs.filter(({ source }) => source === 'memory').map(({ type }) => elements(type, 'read')),
  size: many(rank, uniform('u32')),
  walk: many(
    [...inputs, ...others].reduce((sum, walk) => sum + numbersOf(walk, rank), 0),
    uniform('u32'),
  ),
  slot: slots.map((slot) => uniform(slot)),
})

export type SourceHandles = Handles<ReturnType<typeof sourceParams>>

/** Where each walk is; undefined: at the start of its memory. */
export type Places<U extends Uniformity = Uniformity> = readonly (U32<U> | undefined)[]

interface Steps {
  readonly traits: WalkTraits
  readonly offset: U32<'uniform'> | undefined
  /** by axis; the last is absent where it is known */
  readonly steps: readonly U32<'uniform'>[]
}

export class Walks {
  readonly #k: LaneScope
  readonly #sizes: readonly U32<'uniform'>[]
  readonly #walks: readonly Steps[]

  constructor(k: LaneScope, walks: readonly WalkTraits[], { size, walk }: Pick<SourceHandles, 'size' | 'walk'>) {
    this.#k = k
    this.#sizes = size
    const rest = [...walk]
    this.#walks = walks.map((traits) => {
      const [offset] = traits.offset ? rest.splice(0, 1) : []
      return { traits, offset, steps: rest.splice(0, numbersOf(traits, size.length) - Number(traits.offset)) }
    })
  }

  /** elements along an axis; -1 is the last */
  size(axis: number): U32<'uniform'> {
    return this.#sizes.at(axis) ?? this.#k.const('u32', 1)
  }

  start(): Places<'uniform'> {
    return this.#walks.map(({ offset }) => offset)
  }

  /** So many steps further along an axis that is not the last. */
  step<U extends Uniformity, V extends Uniformity>(places: Places<U>, axis: number, index: U32<V>): Places<U | V | 'uniform'> {
    return this.#walks.map(({ steps, traits }, walk) => {
      const step = index.mul(steps[axis] ?? 0)
      const start = places[walk]
      return start === undefined ? step : traits.back.includes(axis) ? start.sub(step) : start.add(step)
    })
  }

  /** At element number `index` of these axes, which are counted as one, the last of them fastest. */
  seek<U extends Uniformity, V extends Uniformity>(places: Places<U>, axes: readonly number[], index: U32<V>): Places<U | V | 'uniform'> {
    let found: Places<U | V | 'uniform'> = places
    let rest: U32<V | 'uniform'> = index
    for (const [i, axis] of [...axes.entries()].toReversed()) {
      found = this.step(found, axis, i === 0 ? rest : rest.rem(this.size(axis)))
      rest = rest.div(this.size(axis))
    }
    return found.map((place, walk) => place && this.#k.let(`start${walk}`, place))
  }

  /** The place of a walk so many steps further along the last axis. */
  at(walk: number, places: Places, column: U32): U32 {
    const start = places[walk] ?? this.#k.const('u32', 0)
    const { traits, steps } = this.#walks[walk] ?? {}
    const step = column.mul(steps?.at(-1) ?? 1)
    switch (traits?.along) {
      case 'next':
        return places[walk] === undefined ? column : start.add(column)
      case 'steps':
        return start.add(step)
      case 'back':
        return start.sub(step)
      default:
        return start
    }
  }
}

/** The values of an expression. */
export class Source {
  readonly #k: LaneScope
  readonly #traits: SourceTraits
  readonly #slots: readonly Value<SlotType>[]
  readonly #walks: Walks
  readonly #memories: readonly (ElementSource | undefined)[]

  /** `walks` has those of the inputs first; `result` is the memory of an input that the result takes the place of. */
  constructor(k: LaneScope, traits: SourceTraits, p: SourceHandles, walks: Walks, result?: ElementSource) {
    this.#k = k
    this.#traits = traits
    this.#slots = p.slot
    this.#walks = walks
    const memories = [...p.in]
    this.#memories = traits.inputs.map(({ source }) => (source === 'memory' ? memories.shift() : source === 'result' ? result : undefined))
  }

  /** Its value in a column of the rows that walks have come to. */
  one(places: Places, column: U32): Value<Register> {
    const { expr, inputs } = this.#traits
    const values = inputs.map((input, i) => this.#one(input, i, this.#walks.at(i, places, column)))
    return writeExpr(this.#k, expr, { inputs: values, types: inputs.map(({ type }) => type), slots: this.#slots })
  }

  /** The same for `width` neighbours. */
  vector(places: Places, column: U32, width: Width, hint?: Hint): VectorOf<Register> {
    const { expr, inputs } = this.#traits
    const values = inputs.map((input, i) => this.#vector(input, i, places, column, width, hint))
    const slots = this.#slots.map((slot): VectorOf<Register> => slot.splat(width))
    return writeExpr(this.#k, expr, { inputs: values, types: inputs.map(({ type }) => type), slots }, width)
  }

  /** One, or a vector of that width. */
  some(places: Places, column: U32, width: 1 | Width, hint?: Hint): Elements<Register> {
    return width === 1 ? this.one(places, column) : this.vector(places, column, width, hint)
  }

  #one({ type, source }: InputTraits, input: number, place: U32): Value<Register> {
    const memory = this.#memories[input]
    return source === 'place' || memory === undefined ? place : readOne(type, memory, place)
  }

  #vector(input: InputTraits, number: number, places: Places, column: U32, width: Width, hint: Hint | undefined): VectorOf<Register> {
    const memory = this.#memories[number]
    const place = this.#walks.at(number, places, column)
    if (input.along === 'same') return this.#one(input, number, place).splat(width)
    if (input.along === 'next' && memory !== undefined) return readVector(this.#k, input.type, memory, place, width, hint)
    const each = Array.from({ length: width }, (_, i) => this.#walks.at(number, places, column.add(i)))
    return this.#k.vec(...each.map((one) => this.#one(input, number, one)))
  }
}
