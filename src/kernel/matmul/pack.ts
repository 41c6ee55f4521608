// Bringing parts of matrices to workgroup memory, where micro-kernel.ts reads them one after the other: rows of a as they are, and columns
// of b in panels as wide as a tile, in each of which the numbers of one l are neighbours. Whichever way a matrix lies in memory, it is read
// along its rows; what must be turned around is, four by four numbers at a time in registers. Along l both are filled up with zeros.

import type { Width } from '../../base/dtype.ts'
import type { LaneScope, Shared } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../../quant/format.ts'

type U32 = Value<'u32'>
type Four = Value<'f32x4'>

/** A matrix, or one of a batch: elements from `start` on, each row of memory `length` of them. */
export interface Matrix {
  readonly format: Format
  readonly memory: Weights
  readonly start: U32
  readonly rows: U32
  readonly length: U32
}

/** The part of a sum over l that is done at once. */
export interface Run {
  readonly from: U32
  readonly length: U32
  /** with the zeros behind it */
  readonly padded: U32
  /** steps that lie there already: it comes behind them; none if not given */
  readonly after?: U32
}

/** Workgroup memory for numbers in rows of `pitch`. */
export interface Packed {
  readonly memory: Shared<'f32'>
  readonly pitch: number
}

/** The same for panels of `lanes` columns, each of which has `pitch` rows of them, in vectors of `width`. */
export interface Panels extends Packed {
  readonly lanes: number
  readonly width: Width
}

/**
 * Columns of a matrix that are turned at a time: all that a line of memory holds, since lines of different rows may drive each other out.
 */
const LINE = 16

/** Some rows of a matrix, as many as there are whole tiles. Those past the end repeat the last one, and nobody looks at what they give. */
export function packRows(k: LaneScope, { memory, pitch }: Packed, a: Matrix, first: U32, count: U32, run: Run, width: Width): void {
  const { vector, one } = elementOf(a)
  const whole = k.let('whole', run.length.div(width).mul(width))
  k.for({ name: 'r', to: count }, (r) => {
    const at = k.let('at', first.add(r).min(a.rows.sub(1)).mul(a.length).add(a.start).add(run.from))
    const to = k.let('to', behind(run, r.mul(pitch)))
    k.for({ name: 'l', to: whole, step: width }, (l) => memory.store(to.add(l), vector(a.memory, at.add(l), width)))
    k.for({ name: 'l', from: whole, to: run.length }, (l) => memory.set(to.add(l), one(a.memory, at.add(l))))
    k.for({ name: 'l', from: run.length, to: run.padded }, (l) => memory.set(to.add(l), 0))
  })
}

/** The same of a matrix that lies the other way around. */
export function packRowsTurned(k: LaneScope, { memory, pitch }: Packed, a: Matrix, first: U32, count: U32, run: Run): void {
  const { four, one } = elementOf(a)
  const whole = k.let('whole', run.length.div(4).mul(4))
  const at = k.let('at', run.from.mul(a.length).add(a.start).add(first))
  k.for({ name: 'r', to: count, step: LINE }, (r) => {
    const column = k.let('column', at.add(r))
    const to = k.let('to', r.mul(pitch))
    k.when(
      first.add(r).add(LINE).le(a.length),
      () => {
        k.for({ name: 'l', to: whole, step: 4 }, (l) => {
          const rows = [0, 1, 2, 3].map((q) => k.let('from', l.add(q).mul(a.length).add(column)))
          for (let part = 0; part < LINE; part += 4) {
            const turned = turn(rows.map((row) => k.let('four', four(a.memory, row.add(part)))))
            turned.forEach((numbers, q) => memory.store(to.add(l).add((part + q) * pitch), numbers))
          }
        })
        k.for({ name: 'l', from: whole, to: run.length }, (l) => {
          k.for({ name: 'q', to: LINE }, (q) => memory.set(q.mul(pitch).add(to).add(l), one(a.memory, l.mul(a.length).add(column).add(q))))
        })
      },
      () =>
        k.for({ name: 'q', to: count.sub(r).min(LINE) }, (q) => {
          const own = k.let('own', first.add(r).add(q).min(a.length.sub(1)).sub(first).add(at))
          k.for({ name: 'l', to: run.length }, (l) => memory.set(q.mul(pitch).add(to).add(l), one(a.memory, l.mul(a.length).add(own))))
        }),
    )
    k.for({ name: 'q', to: count.sub(r).min(LINE) }, (q) => {
      k.for({ name: 'l', from: run.length, to: run.padded }, (l) => memory.set(q.mul(pitch).add(to).add(l), 0))
    })
  })
}

/** Some columns of a matrix, which may have any format, in panels of `lanes`. Those past the end are zeros. */
export function packColumns(k: LaneScope, panels: Panels, b: Matrix, first: U32, count: U32, run: Run): void {
  if (b.format.element === undefined) return packRuns(k, panels, b, first, count, run)
  const { memory, pitch, lanes, width } = panels
  const { vector, one } = elementOf(b)
  const zero = k.const('f32', 0).splat(width)
  const at = k.let('at', run.from.mul(b.length).add(b.start).add(first))
  const inside = k.let('inside', b.length.sub(first).min(count))
  const whole = k.let('whole', inside.div(lanes).mul(lanes))
  // Row by row, since memory is fastest in long stretches.
  k.for({ name: 'l', to: run.length }, (l) => {
    const from = k.let('from', at.add(l.mul(b.length)))
    const to = k.let('to', behind(run, l).mul(lanes))
    k.for({ name: 'j', to: whole, step: lanes }, (j) => {
      for (let v = 0; v < lanes; v += width) memory.store(j.mul(pitch).add(to).add(v), vector(b.memory, from.add(j).add(v), width))
    })
    k.when(whole.lt(count), () => {
      const last = k.let('last', whole.mul(pitch).add(to))
      for (let v = 0; v < lanes; v += width) memory.store(last.add(v), zero)
      k.for({ name: 'j', from: whole, to: inside }, (j) => memory.set(last.add(j).sub(whole), one(b.memory, from.add(j))))
    })
  })
  k.for({ name: 'j', to: count, step: lanes }, (j) => {
    k.for({ name: 'l', from: run.length, to: run.padded }, (l) => {
      for (let v = 0; v < lanes; v += width) memory.store(j.mul(pitch).add(behind(run, l).mul(lanes)).add(v), zero)
    })
  })
}

/** The same of a format whose numbers come in runs: rows of the matrix are whole runs, and `first` begins one. */
function packRuns(k: LaneScope, { memory, pitch, lanes, width }: Panels, b: Matrix, first: U32, count: U32, run: Run): void {
  k.for({ name: 'l', to: run.length }, (l) => {
    const from = k.let('from', run.from.add(l).mul(b.length).add(b.start).add(first))
    const to = k.let('to', l.mul(lanes))
    k.for({ name: 'j', to: count, step: CHUNK }, (j) => {
      const place = k.let('place', j.mul(pitch).add(to))
      b.format.decode(k, b.memory, from.add(j).div(CHUNK)).forEach((four, i) => {
        const column = 4 * i
        memory.store(place.add(Math.floor(column / lanes) * lanes * pitch + (column % lanes)), four)
      })
    })
  })
  const zero = k.const('f32', 0).splat(width)
  k.for({ name: 'j', to: count, step: lanes }, (j) => {
    k.for({ name: 'l', from: run.length, to: run.padded }, (l) => {
      for (let v = 0; v < lanes; v += width) memory.store(j.mul(pitch).add(l.mul(lanes)).add(v), zero)
    })
  })
}

/** The same of a matrix that lies the other way around, which may have any format. Columns past the end repeat the last one. */
export function packColumnsTurned(k: LaneScope, { memory, pitch, lanes }: Panels, b: Matrix, first: U32, count: U32, run: Run): void {
  const { element } = b.format
  k.for({ name: 'j', to: count, step: lanes }, (j) => {
    k.for({ name: 'c', to: lanes, step: 4 }, (c) => {
      const starts = [0, 1, 2, 3].map((q) =>
        k.let('at', first.add(j).add(c).add(q).min(b.rows.sub(1)).mul(b.length).add(b.start).add(run.from)),
      )
      const to = k.let('to', behind(run, k.const('u32', 0)).mul(lanes).add(j.mul(pitch)).add(c))
      const put = (l: U32, rows: readonly Four[]): void =>
        turn(rows).forEach((numbers, q) => memory.store(to.add(l.mul(lanes)).add(q * lanes), numbers))
      if (element === undefined) {
        k.for({ name: 'l', to: run.length, step: CHUNK }, (l) => {
          const rows = starts.map((start) => b.format.decode(k, b.memory, start.add(l).div(CHUNK)).map((four) => k.let('four', four)))
          for (let i = 0; i < CHUNK / 4; i++)
            put(
              l.add(4 * i),
              rows.flatMap((row) => row[i] ?? []),
            )
        })
      } else {
        const whole = k.let('whole', run.length.div(4).mul(4))
        k.for({ name: 'l', to: whole, step: 4 }, (l) =>
          put(
            l,
            starts.map((start) => k.let('four', element.four(b.memory, start.add(l)))),
          ),
        )
        k.for({ name: 'l', from: whole, to: run.length }, (l) =>
          starts.forEach((start, q) => memory.set(to.add(l.mul(lanes)).add(q), element.one(b.memory, start.add(l)))),
        )
      }
      const zero = k.const('f32', 0).splat(4)
      k.for({ name: 'l', from: run.length, to: run.padded }, (l) => memory.store(to.add(l.mul(lanes)), zero))
    })
  })
}

/** The columns of four rows of four. */
function turn(rows: readonly Four[]): Four[] {
  const [a, b, c, d] = rows
  if (a === undefined || b === undefined || c === undefined || d === undefined) throw new RangeError('four rows are turned at a time')
  const [evenLow, evenHigh] = a.zip(c)
  const [oddLow, oddHigh] = b.zip(d)
  return [...evenLow.zip(oddLow), ...evenHigh.zip(oddHigh)]
}

/** A place, with the steps before the run left free. */
function behind({ after }: Run, place: U32): U32 {
  return after === undefined ? place : place.add(after)
}

function elementOf({ format: { name, element } }: Matrix): NonNullable<Format['element']> {
  if (element === undefined) throw new TypeError(`${name} has no single elements`)
  return element
}
