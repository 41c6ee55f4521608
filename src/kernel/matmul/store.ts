// Where sums of tiles go: into y, on top of those of earlier runs of l, with the bias in the end. Types that are too narrow to hold sums
// get them only when they are whole; until then they are kept as f32.

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Readable, Shared, Var, Writable } from '../../ir/author.ts'
import type { Elements, Uniformity, Value } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import { type ElementStorage, type ElementType, writeElements } from './element.ts'
import type { Packed } from './pack.ts'
import type { Sums, TileShape } from './micro-kernel.ts'

type U32 = Value<'u32'>

/** The matrices that a kernel writes to. */
export interface Output {
  readonly type: ElementType
  readonly y: Readable<ElementStorage, Uniformity> & Writable<ElementStorage>
  readonly bias: Readable<ElementStorage, Uniformity> | undefined
  readonly n: U32
  /** element of y that this product begins with */
  readonly first: U32
  /** as large as a tile */
  readonly edge: Shared<'f32'>
  /** undefined: y holds the sums of earlier runs */
  readonly kept: Packed | undefined
}

/** A tile of y. */
export interface Place {
  readonly row: U32
  readonly column: U32
  /** its first element of what is kept */
  readonly kept: U32
  /** of what is left from here on, which may be less than a tile, or more */
  readonly rows: U32
  readonly columns: U32
  /** of the runs of l */
  readonly isFirst: Value<'bool'>
  readonly isLast: Value<'bool'>
}

/** Vectors where the whole tile lies within y, else one by one. */
export function storeTile(k: LaneScope, { width, rows, vectors }: TileShape, output: Output, place: Place, sums: Sums): void {
  const lanes = vectors * width
  const { n, first, edge, kept } = output
  const corner = k.let('corner', place.row.mul(n).add(place.column).add(first))
  k.when(
    place.rows.ge(rows).and(place.columns.ge(lanes)),
    () => {
      const starts = sums.map((_, r) => k.let('start', corner.add(n.mul(r))))
      const write = new Write(k, output, width, (r, v) => ({
        at: item(starts, r).add(v * width),
        kept: place.kept.add(r * (kept?.pitch ?? 0) + v * width),
        column: place.column.add(v * width),
      }))
      write.all(sums, place)
    },
    () => {
      sums.forEach((ofRow, r) => ofRow.forEach((sum, v) => edge.store(k.const('u32', r * lanes + v * width), sum.get())))
      k.for({ name: 'r', to: place.rows.min(rows) }, (r) => {
        const start = k.let('start', corner.add(n.mul(r)))
        k.for({ name: 'c', to: place.columns.min(lanes) }, (c) => {
          const sum = k.var('sum', edge.at(r.mul(lanes).add(c)))
          const write = new Write(k, output, 1, () => ({
            at: start.add(c),
            kept: place.kept.add(r.mul(kept?.pitch ?? 0)).add(c),
            column: place.column.add(c),
          }))
          write.all([[sum]], place)
        })
      })
    },
  )
}

type Sum = Var<'f32' | `f32x${Width}`>

/** Where a sum belongs, in elements. */
interface Spot {
  readonly at: U32
  readonly kept: U32
  readonly column: U32
}

/** Writes vectors of some width, or single numbers. */
class Write {
  readonly #k: LaneScope
  readonly #output: Output
  readonly #width: 1 | Width
  readonly #spot: (row: number, vector: number) => Spot

  constructor(k: LaneScope, output: Output, width: 1 | Width, spot: (row: number, vector: number) => Spot) {
    this.#k = k
    this.#output = output
    this.#width = width
    this.#spot = spot
  }

  all(sums: readonly (readonly Sum[])[], { isFirst, isLast }: Place): void {
    const each = (visit: (sum: Sum, spot: Spot) => void): void =>
      sums.forEach((ofRow, r) => ofRow.forEach((sum, v) => visit(sum, this.#spot(r, v))))
    const { type, y, bias, kept } = this.#output
    const write = (): void => each((sum, { at }) => writeElements(type, y, at, sum.get(), this.#width))
    this.#k.when(isFirst.not(), () =>
      each((sum, { at, kept: own }) =>
        sum.set(sum.get().add(kept === undefined ? this.#load('f32', y, at) : this.#load('f32', kept.memory, own))),
      ),
    )
    if (bias !== undefined) this.#k.when(isLast, () => each((sum, { column }) => sum.set(sum.get().add(this.#load(type, bias, column)))))
    if (kept === undefined) return write()
    return this.#k.when(isLast, write, () => each((sum, { kept: own }) => writeElements('f32', kept.memory, own, sum.get(), this.#width)))
  }

  #load(type: ElementType, memory: Readable<ElementStorage, Uniformity>, at: U32): Elements<'f32'> {
    const { element } = formatOf(type)
    if (element === undefined) throw new TypeError(`${type} has no single elements`)
    return this.#width === 1 ? element.one(memory, at) : element.vector(memory, at, this.#width)
  }
}
