// Results side by side, as a workgroup of a CPU takes them where the last axis is kept: a strip, long enough that memory is read in long
// runs, whose states are in memory of the workgroup's own, which caches keep. It goes along the strip in vectors, and one by one where
// they end; several rows are read before the states are changed.

import type { Width } from '../../base/dtype.ts'
import type { Scope, Shared } from '../../ir/author.ts'
import type { Elements, Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { flatGroup } from '../lanes.ts'
import type { Places } from '../map/source.ts'
import type { Fold, State } from './fold.ts'
import { AHEAD, type Frame, type Span } from './frame.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>
type Uniform = U32<'uniform'>

/** Results of a strip, at most. */
export const STRIP = 4096

/** Gets a place in the strip, and how many neighbours are meant. */
type Visit = (c: U32, width: 1 | Width) => void

export class Strip {
  readonly part: Uniform
  /** number of the first among all results */
  readonly first: Uniform
  readonly spans: readonly Span[]
  /** Where the values of its rows begin, outer axes aside. */
  readonly places: Places
  readonly #k: Scope
  readonly #frame: Frame
  readonly #width: Width
  readonly #column: Uniform
  readonly #count: Uniform
  readonly #whole: Uniform

  private constructor(
    k: Scope,
    frame: Frame,
    width: Width,
    { group, strips, rows, part }: Record<'group' | 'strips' | 'rows' | 'part', Uniform>,
  ) {
    const columns = frame.walks.size(-1)
    const row = k.let('row', group.div(strips).rem(rows))
    this.#k = k
    this.#frame = frame
    this.#width = width
    this.#column = k.let('column', group.rem(strips).mul(STRIP))
    this.#count = k.let('count', columns.sub(this.#column).min(STRIP))
    this.#whole = k.let('whole', this.#count.div(width).mul(width))
    this.part = part
    this.first = k.let('first', row.mul(columns).add(this.#column))
    this.spans = frame.spans(part)
    this.places = frame.walks.seek(frame.walks.start(), frame.kept.slice(0, -1), row)
  }

  /** The strip of this workgroup, and which part of the reduced axes it takes. */
  static take(k: Scope, frame: Frame, width: Width, body: (strip: Strip) => void): void {
    const strips = k.let(
      'strips',
      frame.walks
        .size(-1)
        .add(STRIP - 1)
        .div(STRIP),
    )
    const rows = frame.kept.slice(0, -1).reduce((product, axis) => product.mul(frame.walks.size(axis)), k.const('u32', 1))
    const group = k.let('group', flatGroup(k))
    const part = k.let('number', group.div(strips).div(rows))
    k.when(part.lt(frame.parts), () => body(new Strip(k, frame, width, { group, strips, rows, part })))
  }

  /** Goes along the strip. */
  each(visit: Visit): void {
    this.#k.for({ name: 'c', to: this.#whole, step: this.#width }, (c) => visit(c, this.#width))
    this.#k.for({ name: 'c', from: this.#whole, to: this.#count }, (c) => visit(c, 1))
  }

  /** Goes one by one. */
  eachOne(visit: (c: U32) => void): void {
    this.#k.for({ name: 'c', to: this.#count }, visit)
  }

  /** The values of a row at a place of the strip. */
  values(fold: Fold, row: Places, c: U32, width: 1 | Width): Elements<State> {
    return fold.of(this.#frame.source.some(row, this.#column.add(c), width, AHEAD))
  }

  /** Goes over the rows, `count` at a time where there are so many; `visit` gets them with their numbers. */
  rows(count: number, visit: (rows: readonly Places[], ordinals: readonly U32[]) => void): void {
    const [k, { walks, reduced }] = [this.#k, this.#frame]
    const inner = reduced.at(-1) ?? 0
    const { from, to } = this.spans.at(-1) ?? { from: this.part, to: this.part }
    this.#frame.loops(this.places, this.spans, reduced.length - 1, (outer, ordinal) => {
      const wholes = count === 1 ? to : k.let('wholes', from.add(to.sub(from).div(count).mul(count)))
      const some = (r: U32, length: number): void => {
        const numbers = Array.from({ length }, (_, i) => r.add(i))
        visit(
          numbers.map((number) => walks.step(outer, inner, number)),
          numbers.map((number) => ordinal.mul(walks.size(inner)).add(number)),
        )
      }
      k.for({ name: 'r', from, to: wholes, step: count }, (r) => some(r, count))
      if (count > 1) k.for({ name: 'r', from: wholes, to }, (r) => some(r, 1))
    })
  }
}

/** What a strip's memory holds at a place. */
export function getCells(memory: Shared<State>, c: U32, width: 1 | Width): Elements<State> {
  return width === 1 ? memory.at(c) : memory.load(c, width)
}

export function setCells(memory: Shared<State>, c: U32, values: Elements<State>, width: 1 | Width): void {
  if (width === 1) memory.set(c, values as Value<State>)
  else memory.store(c, values as VectorOf<State>)
}
