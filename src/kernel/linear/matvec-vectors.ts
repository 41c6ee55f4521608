// Products of few rows of x with weights of single elements (f32, f16, bf16), on CPUs: a workgroup takes a few rows of w, each in vectors
// as wide as a register and a cache line at a time, and asks memory for the lines ahead.

import type { Width } from '../../base/dtype.ts'
import { storageBytes } from '../../base/dtype.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { FORMATS, formatOf } from '../../quant/index.ts'
import { type Form, isCpu } from '../family.ts'
import { JOINED_PARAMS, addJoined, joinedBinds } from '../matmul/joined.ts'
import { combinations, template } from '../template.ts'
import { type LinearParams, MATVEC_ROWS, linearParams } from './params.ts'

interface VectorTraits {
  readonly format: string
  readonly bias: boolean
  readonly width: Width
  /** rows of x that a walk along k has room for */
  readonly columns: number
}

const COLUMNS = [1, 2, 4, MATVEC_ROWS]
/** rows of w: more share the loads of x, fewer leave registers free */
const rowsFor = (columns: number): number => (columns > 2 ? 2 : 4)
const LINE = 64
/** Bytes between what is read and what is asked for from memory. */
const AHEAD = 2048

const ELEMENT_FORMATS = FORMATS.filter(({ element }) => element !== undefined).map(({ name }) => name)

export const matvecVectors: Form<LinearParams> = {
  name: 'matvec vectors',
  fits: (caps, { format, n }) => isCpu(caps) && n <= MATVEC_ROWS && formatOf(format).element !== undefined,
  work: ({ width }, { format, m, k, n, bias, rank = 0 }) => {
    const columns = COLUMNS.find((size) => size >= n) ?? MATVEC_ROWS
    const uniforms = { m, k, rank, ...(columns > 1 ? { n } : {}) }
    const kernel = vectors({ format, bias, width, columns })
    return { launches: [{ kernel, uniforms, grid: [Math.ceil(m / rowsFor(columns)), 1, 1], binds: joinedBinds(rank, 'x') }] }
  },
  kernels: ({ width }) =>
    combinations<VectorTraits>({ format: ELEMENT_FORMATS, bias: [false, true], width: [width], columns: COLUMNS }).map(vectors),
}

const vectors = template<VectorTraits>({ family: 'linear', form: 'matvec vectors' }, ({ format: name, bias, width, columns }, kernel) => {
  const format = formatOf(name)
  const { element } = format
  if (element === undefined) throw new TypeError(`${name} has no single elements`)
  const rows = rowsFor(columns)
  const line = LINE / storageBytes(format.storage) // elements
  const params = {
    ...linearParams(format, bias, false, false),
    ...JOINED_PARAMS,
    x: buffer('f32', 'read'),
    ...(columns > 1 ? { n: uniform('u32') } : {}),
  }
  return kernel(`matvec_${name}${columns > 1 ? `_n${columns}` : ''}`, { params }, (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(rows))
    // Rows past the end repeat the last one and are not stored.
    const starts = Array.from({ length: rows }, (_, r) => k.let('start', first.add(r).min(p.m.sub(1)).mul(p.k)))
    const last = p.n === undefined ? undefined : p.n.sub(1)
    const inputs = Array.from({ length: columns }, (_, c) =>
      k.let('input', (last === undefined ? k.const('u32', c) : last.min(c)).mul(p.k)),
    )
    const sums = starts.map(() => inputs.map(() => k.var('sum', k.const('f32', 0).splat(width))))
    const whole = k.let('whole', p.k.div(line).mul(line))
    k.for({ name: 'i', to: whole, step: line }, (i) => {
      for (let at = 0; at < line; at += width) {
        const values = inputs.map((input): VectorOf<'f32'> => k.let('values', p.x.load(input.add(i).add(at), width)))
        starts.forEach((start, r) => {
          const weights = k.let('weights', element.vector(p.w, start.add(i).add(at), width, at === 0 ? { ahead: AHEAD } : undefined))
          sums[r]?.forEach((sum, c) => values[c] !== undefined && sum.set(weights.fma(values[c], sum.get())))
        })
      }
    })
    const totals = sums.map((ofRow) => ofRow.map((sum) => k.var('total', sum.get().hsum())))
    k.for({ name: 'i', from: whole, to: p.k }, (i) => {
      starts.forEach((start, r) => {
        const weight = k.let('weight', element.one(p.w, start.add(i)))
        inputs.forEach((input, c) => add(totals[r]?.[c], weight.mul(p.x.at(input.add(i)))))
      })
    })
    const outs = totals.map((_, r) => k.let('out', first.add(r).min(p.m.sub(1))))
    const rowsOfU = inputs.map((_, c) => k.let('rowOfU', last === undefined ? k.const('u32', c) : last.min(c)))
    k.for({ name: 'l', to: p.rank }, (l) => addJoined(p, l, outs, rowsOfU, totals))
    totals.forEach((ofRow, r) =>
      ofRow.forEach((total, c) => {
        const row = first.add(r)
        const inside = row.lt(p.m)
        k.when(p.n === undefined || c === 0 ? inside : inside.and(p.n.gt(c)), () => {
          const value = total.get()
          p.y.set(p.m.mul(c).add(row), p.bias === undefined ? value : value.add(p.bias.at(row)))
        })
      }),
    )
  })
})

interface Total {
  get(): Value<'f32'>
  set(value: Value<'f32'>): void
}

function add(total: Total | undefined, value: Value<'f32'>): void {
  total?.set(total.get().add(value))
}
