// Products with few rows of x, up to eight, in any format. Reads each weight once, decodes it in registers and uses it for all rows of x.
// On GPUs subgroups, or where there are none a workgroup, share a few rows of w and sum at the end; on CPUs one lane takes a few rows with
// vectors.

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import type { LaneScope, Readable, Scope } from '../../ir/author.ts'
import { uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, isCpu, isGpu } from '../family.ts'
import { combineLanes, flatGrid, flatGroup } from '../lanes.ts'
import { addJoined, joinedOf } from '../matmul/joined.ts'
import { type Write, template } from '../template.ts'
import { type LinearParams, MATVEC_ROWS, linearParams } from './params.ts'

/** What a kernel is written for. */
interface MatvecTraits {
  readonly format: string
  readonly bias: boolean
  readonly joined: boolean
  /** rows of x are multiples of four elements, or the format wants whole blocks */
  readonly aligned: boolean
  readonly lanes: number
  readonly subgroup: number
  /** rows of w that a subgroup, workgroup or lane takes: more share the loads of x, fewer leave registers free */
  readonly rows: number
  /** rows of x that are taken in one walk along k */
  readonly columns: number
  /** more rows of x come in further walks, whose weights are then in the nearest cache */
  readonly walks: boolean
}

const ROWS = 4
/** with several columns there are fewer registers to spare */
const FEW_ROWS = 2
const LANES = 64

const onLanes = template<MatvecTraits>({ family: 'linear', form: 'matvec lanes' }, writeMatvec)
const serial = template<MatvecTraits>({ family: 'linear', form: 'matvec serial' }, writeMatvec)

const isAligned = (format: Format, inner: number): boolean => format.element === undefined || inner % 4 === 0

/** A walk of a CPU takes all rows of x, and may have room for more. */
const SERIAL_COLUMNS = [1, 2, 4, MATVEC_ROWS]

function serialTraits(format: string, bias: boolean, joined: boolean, aligned: boolean, columns: number): MatvecTraits {
  return { format, bias, joined, aligned, lanes: 1, subgroup: 0, rows: columns > 4 ? FEW_ROWS : ROWS, columns, walks: columns > 1 }
}

export const matvecSerial: Form<LinearParams> = {
  name: 'matvec serial',
  fits: (caps, { n }) => isCpu(caps) && n <= MATVEC_ROWS,
  work: (caps, { format, m, k, n, bias, rank = 0 }) => {
    const traits = serialTraits(format, bias, rank > 0, isAligned(formatOf(format), k), SERIAL_COLUMNS.find((size) => size >= n) ?? n)
    const uniforms = { m, k, ...(traits.walks ? { n } : {}), ...(rank > 0 ? { rank } : {}) }
    return { launches: [{ kernel: serial(traits), uniforms, grid: flatGrid(caps, Math.ceil(m / traits.rows)) }] }
  },
}

/**
 * Rows of x in one walk on a GPU. Keeps registers few, and one kernel serves every n above 1: drivers need seconds to compile one that has
 * all eight written out. Small subgroups are those of emulated GPUs, which feel it most.
 */
const columnsFor = ({ subgroup }: Caps): number => (subgroup >= 16 ? 4 : 2)

export const matvecLanes: Form<LinearParams> = {
  name: 'matvec lanes',
  fits: (caps, { n }) => isGpu(caps) && n <= MATVEC_ROWS,
  work: (caps, { format, m, k, n, bias, rank = 0 }) => {
    const subgroup = caps.subgroup > 1 ? caps.subgroup : 0
    const walks = n > 1
    const rows = walks ? FEW_ROWS : ROWS
    const aligned = isAligned(formatOf(format), k)
    const joined = rank > 0
    const kernel = onLanes({ format, bias, joined, aligned, lanes: LANES, subgroup, rows, columns: walks ? columnsFor(caps) : 1, walks })
    const groups = subgroup > 0 ? LANES / subgroup : 1
    const uniforms = { m, k, ...(walks ? { n } : {}), ...(joined ? { rank } : {}) }
    return { launches: [{ kernel, uniforms, grid: flatGrid(caps, Math.ceil(m / (groups * rows))) }] }
  },
}

function writeMatvec(traits: MatvecTraits, kernel: Write): Kernel {
  const { format: name, bias, joined, aligned, lanes, subgroup, rows, columns, walks } = traits
  const format = formatOf(name)
  const groups = subgroup > 0 ? lanes / subgroup : 1
  const width = subgroup > 0 ? subgroup : lanes // lanes that share rows
  const params = { ...linearParams(format, bias, aligned, joined), ...(walks ? { n: uniform('u32') } : {}) }
  const title = `matvec_${name}${walks ? `_n${columns}` : ''}${joined ? '_joined' : ''}`
  return kernel(title, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = subgroup > 0 || lanes === 1 ? undefined : combineLanes(k, { lanes, subgroup })
    const total = (value: Value<'f32'>): Value<'f32'> => (subgroup > 0 ? k.subSum(value) : (combine?.('sum', value) ?? value))
    const first = k.let(
      'first',
      flatGroup(k)
        .mul(groups)
        .add(subgroup > 0 ? k.subgroupId : 0)
        .mul(rows),
    )
    // Rows past the end repeat the last one and are not stored, so that no lane leaves early.
    const rowOf = Array.from({ length: rows }, (_, r) => k.let('row', first.add(r).min(p.m.sub(1))))
    const more = joinedOf(p)
    const me = subgroup > 0 ? k.sublane : k.lane
    const x = aligned ? inFours(p.x as Readable<'f32x4', Uniformity>) : inOnes(p.x as Readable<'f32', Uniformity>)
    const walk = (columnOf: readonly Value<'u32'>[], isColumn: (column: number) => Value<'bool'> | undefined): void => {
      const sums = rowOf.map((row) => ({ row, columns: columnOf.map((at) => ({ at, sum: k.var('sum', k.const('f32', 0)) })) }))
      accumulate(k, { format, x, w: p.w, inner: p.k, me, width, weightsFirst: lanes > 1 && columns > 2 }, sums)
      if (more !== undefined) {
        const all = sums.map((ofRow) => ofRow.columns.map(({ sum }) => sum))
        k.for({ name: 'l', from: me, to: more.rank, step: width }, (l) => addJoined(more, l, rowOf, columnOf, all))
      }
      sums.forEach(({ row, columns: ofRow }, r) =>
        ofRow.forEach(({ at, sum }, column) => {
          const result = total(sum.get())
          const value = p.bias === undefined ? result : result.add(p.bias.at(row))
          const mine = me.eq(0).and(first.add(r).lt(p.m))
          const inside = isColumn(column)
          k.when(inside === undefined ? mine : mine.and(inside), () => p.y.set(p.m.mul(at).add(first).add(r), value))
        }),
      )
    }
    const { n: all } = p
    const counted = Array.from({ length: columns }, (_, column) => column)
    if (all === undefined) {
      walk(
        counted.map((column) => k.const('u32', column)),
        () => undefined,
      )
      return
    }
    k.for({ name: 'column', to: all, step: columns }, (start) => {
      walk(
        counted.map((column) => k.let('column', start.add(column).min(all.sub(1)))),
        (column) => (column === 0 ? undefined : start.add(column).lt(all)),
      )
    })
  })
}

interface Share {
  readonly format: Format
  readonly x: Activations
  readonly w: Weights
  readonly inner: Value<'u32'>
  readonly me: Value<'u32'>
  readonly width: number
  /** hold the weights of all rows and let the activations of one column after the other pass by, instead of the other way round */
  readonly weightsFirst: boolean
}
interface Activations {
  /** four from here on; where rows are aligned, `index` is a multiple of four */
  four(index: Value<'u32'>, plus: number): Value<'f32x4'>
  /** absent where rows are aligned and have no tail */
  readonly one?: (index: Value<'u32'>) => Value<'f32'>
}
/** A row of w, with a sum for each row of x. */
interface RowSums {
  readonly row: Value<'u32'>
  readonly columns: readonly { readonly at: Value<'u32'>; readonly sum: { get(): Value<'f32'>; set(value: Value<'f32'>): void } }[]
}

/** One load of 16 bytes is a quarter of the work of four loads, for the GPU and for its compiler. */
function inFours(x: Readable<'f32x4', Uniformity>): Activations {
  return { four: (index, plus) => x.at(index.shr(2).add(plus / 4)) }
}

function inOnes(x: Readable<'f32', Uniformity>): Activations {
  return { four: (index, plus) => x.load(index.add(plus), 4), one: (index) => x.at(index) }
}

/** Adds this lane's share of every dot product: runs of 32 for block formats, of 4 for single elements. */
function accumulate(k: Scope, { format, x, w, inner, me, width, weightsFirst }: Share, sums: readonly RowSums[]): void {
  const { element } = format
  const unit = element === undefined ? CHUNK : 4
  const units = k.let('units', inner.div(unit))
  const columns = sums[0]?.columns ?? []
  k.for({ name: 'c', from: me, to: units, step: width }, (c: Value<'u32'>, body: LaneScope) => {
    const read = (column: Value<'u32'>): Value<'f32x4'>[] =>
      Array.from({ length: unit / 4 }, (_, i) => x.four(inner.mul(column).add(c.mul(unit)), 4 * i))
    const decode = (row: Value<'u32'>): Value<'f32x4'>[] =>
      element === undefined ? format.decode(body, w, row.mul(units).add(c)) : [element.four(w, row.mul(inner).add(c.mul(4)))]
    const dot = (weights: readonly Value<'f32x4'>[], activations: readonly Value<'f32x4'>[]): Value<'f32'> =>
      weights
        .map((four, i) => four.mul(item(activations, i)))
        .reduce((a, b) => a.add(b))
        .hsum()
    if (weightsFirst) {
      const weights = sums.map(({ row }) => decode(row).map((four) => body.let('weight', four)))
      columns.forEach(({ at }, column) => {
        const activations = read(at)
        sums.forEach((ofRow, r) => {
          const { sum } = item(ofRow.columns, column)
          sum.set(sum.get().add(dot(item(weights, r), activations)))
        })
      })
      return
    }
    const activations = columns.map(({ at }) => read(at))
    sums.forEach(({ row, columns: ofRow }) => {
      const weights = decode(row)
      ofRow.forEach(({ sum }, column) => sum.set(sum.get().add(dot(weights, item(activations, column)))))
    })
  })
  const { one } = x
  if (one === undefined || element === undefined) return
  k.for({ name: 'i', from: units.mul(4).add(me), to: inner, step: width }, (i: Value<'u32'>) => {
    for (const { row, columns: ofRow } of sums) {
      for (const { at, sum } of ofRow) sum.set(sum.get().add(element.one(w, row.mul(inner).add(i)).mul(one(inner.mul(at).add(i)))))
    }
  })
}
