// Mat-mat on CPUs as a sum of outer products: lanes are rows of w, so no sum runs across them. A workgroup takes two vectors of rows,
// decodes a run of them into scratch, turned so that neighbours are rows, and walks the rows of x along it, as many at a time as their sums
// fit the registers. Serves weights of any format in the layout of the file.

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { type LaneScope, type Readable, type Shared, type Writable, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../../quant/format.ts'
import { FORMATS, formatOf } from '../../quant/index.ts'
import { type Form, isCpu } from '../family.ts'
import { combinations, template } from '../template.ts'
import { type LinearParams, linearParams } from './params.ts'

/** vectors of rows of w */
const VECTORS = 2
/** rows of x, by the width of a vector: with two vectors of rows, what the register file holds beside the operands */
const COLUMNS: Readonly<Record<Width, number>> = { 2: 4, 4: 4, 8: 6, 16: 12 }
/** numbers of scratch: half of a first-level cache */
const SCRATCH = 4096

interface OuterTraits {
  readonly format: string
  readonly bias: boolean
  readonly width: Width
}

export const matmulOuter: Form<LinearParams> = {
  name: 'matmul outer',
  fits: isCpu,
  work: ({ width }, { format, m, k, n, bias }) => ({
    launches: [{ kernel: outer({ format, bias, width }), uniforms: { m, k, n }, grid: [Math.ceil(m / (VECTORS * width)), 1, 1] }],
  }),
  // Other formats are packed (packed-linear.ts).
  kernels: ({ width }) => {
    const formats = FORMATS.filter(({ packed }) => packed === undefined).map(({ name }) => name)
    return combinations<OuterTraits>({ format: formats, bias: [false, true], width: [width] }).map(outer)
  },
}

const outer = template<OuterTraits>({ family: 'linear', form: 'matmul outer' }, ({ format: name, bias, width }, kernel) => {
  const format = formatOf(name)
  const rows = VECTORS * width
  const run = SCRATCH / rows
  const columns = COLUMNS[width]
  const params = { ...linearParams(format, bias, false), x: buffer('f32', 'read'), y: buffer('f32', 'readwrite'), n: uniform('u32') }
  return kernel(`matmul_${name}`, { params, ...(name === 'f32' ? { product: { outs: rows } } : {}) }, (p, k) => {
    const panel = k.shared('panel', 'f32', SCRATCH) // [run][rows]
    const first = k.let('first', k.workgroupId.x.mul(rows))
    k.for({ name: 'from', to: p.k, step: run }, (from) => {
      const length = k.let('length', p.k.sub(from).min(run))
      k.for({ name: 'r', to: rows }, (r) => {
        // Rows past the end repeat the last one and are not stored.
        const start = k.let('start', first.add(r).min(p.m.sub(1)).mul(p.k).add(from))
        decodeColumn(k, format, p.w, start, length, (i, value) => panel.set(i.mul(rows).add(r), value))
      })
      k.for({ name: 'c', to: p.n, step: columns }, (c) => {
        const at = Array.from({ length: columns }, (_, i) => k.let('at', c.add(i).min(p.n.sub(1)).mul(p.k).add(from)))
        const sums = multiply(k, panel, p.x, at, length, width)
        sums.forEach((ofColumn, i) =>
          k.when(c.add(i).lt(p.n), () => storeColumn(k, { ...p, first, column: c.add(i), isFirst: from.eq(0) }, ofColumn, width)),
        )
      })
    })
  })
})

/** Sums over the run: [column][vector]. */
function multiply(
  k: LaneScope,
  panel: Shared<'f32'>,
  x: Readable<'f32', Uniformity>,
  at: readonly Value<'u32'>[],
  length: Value<'u32'>,
  width: Width,
): VectorOf<'f32'>[][] {
  const vectors = Array.from({ length: VECTORS }, (_, v) => v * width)
  const sums = at.map(() => vectors.map(() => k.var('sum', k.const('f32', 0).splat(width))))
  k.for({ name: 'i', to: length }, (i) => {
    const weights = vectors.map((v) => k.let('weights', panel.load(i.mul(VECTORS * width).add(v), width)))
    at.forEach((start, c) => {
      const value = k.let('value', x.at(start.add(i)).splat(width))
      weights.forEach((weight, v) => {
        const sum = item(item(sums, c), v)
        sum.set(weight.fma(value, sum.get()))
      })
    })
  })
  return sums.map((ofColumn) => ofColumn.map((sum) => sum.get()))
}

interface Result {
  readonly y: Readable<'f32', Uniformity> & Writable<'f32'>
  readonly bias?: Readable<'f32', Uniformity> | undefined
  readonly m: Value<'u32'>
  readonly first: Value<'u32'>
  readonly column: Value<'u32'>
  /** nothing is there yet to add to */
  readonly isFirst: Value<'bool'>
}

/** Vectors of rows of one column of the result; one by one where the matrix ends among them. */
function storeColumn(k: LaneScope, { y, bias, m, first, column, isFirst }: Result, sums: readonly VectorOf<'f32'>[], width: Width): void {
  sums.forEach((sum, v) => {
    const row = k.let('row', first.add(v * width))
    const at = k.let('place', column.mul(m).add(row))
    k.when(
      row.add(width).le(m),
      () => {
        k.when(
          isFirst,
          () => y.store(at, bias === undefined ? sum : sum.add(bias.load(row, width))),
          () => y.store(at, sum.add(y.load(at, width))),
        )
      },
      (inside) => {
        for (let lane = 0; lane < width; lane++) {
          const one = sum.lane(lane)
          inside.when(row.add(lane).lt(m), () => {
            k.when(
              isFirst,
              () => y.set(at.add(lane), bias === undefined ? one : one.add(bias.at(row.add(lane)))),
              () => y.set(at.add(lane), one.add(y.at(at.add(lane)))),
            )
          })
        }
      },
    )
  })
}

/** `length` weights of a row from `start` on, one by one. */
function decodeColumn(
  k: LaneScope,
  format: Format,
  w: Weights,
  start: Value<'u32'>,
  length: Value<'u32'>,
  put: (i: Value<'u32'>, value: Value<'f32'>) => void,
): void {
  const putFour = (first: Value<'u32'>, four: Value<'f32x4'>): void => {
    for (let lane = 0; lane < 4; lane++) put(first.add(lane), four.lane(lane))
  }
  const { element } = format
  if (element === undefined) {
    k.for({ name: 'c', to: length.div(CHUNK) }, (c, body) => {
      format.decode(body, w, start.div(CHUNK).add(c)).forEach((four, i) => putFour(c.mul(CHUNK).add(4 * i), body.let('four', four)))
    })
    return
  }
  const whole = k.let('whole', length.div(4).mul(4))
  k.for({ name: 'i', to: whole, step: 4 }, (i, body) => putFour(i, body.let('four', element.four(w, start.add(i)))))
  k.for({ name: 'i', from: whole, to: length }, (i) => put(i, element.one(w, start.add(i))))
}
