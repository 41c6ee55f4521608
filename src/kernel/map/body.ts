// What the kernels of map.ts are written with: parameters, places, and one element or a vector of them.

import type { Width } from '../../base/dtype.ts'
import type { Handles, LaneScope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type ElementSource, elements, writeOne, writeVector } from '../element.ts'
import type { MapTraits } from './params.ts'
import { type Places, Source, Walks, sourceParams } from './source.ts'

type U32 = Value<'u32'>

export const paramsOf = ({ type, to, ...source }: MapTraits) => {
  const isReadToo = source.inputs.some((input) => input.source === 'result')
  return {
    ...sourceParams(source, to ? [to] : []),
    y: isReadToo || to ? elements(type, 'readwrite') : elements(type, 'write'),
  }
}

type MapHandles = Handles<ReturnType<typeof paramsOf>>

export class Body {
  readonly #traits: MapTraits
  readonly #y: MapHandles['y']
  readonly #k: LaneScope
  readonly #walks: Walks
  readonly #source: Source

  constructor(traits: MapTraits, p: MapHandles, k: LaneScope) {
    this.#traits = traits
    this.#y = p.y
    this.#k = k
    this.#walks = new Walks(k, [...traits.inputs, ...(traits.to ? [traits.to] : [])], p)
    this.#source = new Source(k, traits, p, this.#walks, p.y as ElementSource & MapHandles['y'])
  }

  /** elements of the last axis */
  get columns(): Value<'u32', 'uniform'> {
    return this.#walks.size(-1)
  }

  /** Where each walk's row starts that holds the elements of outer index `row`. */
  rowStarts(row: U32): Places {
    const outer = Array.from({ length: this.#traits.rank - 1 }, (_, axis) => axis)
    return this.#walks.seek(this.#walks.start(), outer, row)
  }

  /** Computes element `at` of the result, which is column `column` of rows that start at `starts`. */
  writeOne(at: U32, starts: Places, column: U32): void {
    writeOne(this.#traits.type, this.#y, this.#target(at, starts, column), this.#source.one(starts, column))
  }

  /** The same for `width` neighbours. */
  writeVector(at: U32, starts: Places, column: U32, width: Width): void {
    const { type, to } = this.#traits
    const vector = this.#source.vector(starts, column, width)
    if (to === undefined || to.along === 'next') return writeVector(type, this.#y, this.#target(at, starts, column), vector, width)
    const named = this.#k.let('values', vector)
    for (let i = 0; i < width; i++) writeOne(type, this.#y, this.#target(at, starts, column.add(i)), named.lane(i))
  }

  #target(at: U32, starts: Places, column: U32): U32 {
    return this.#traits.to === undefined ? at : this.#walks.at(this.#traits.inputs.length, starts, column)
  }
}
