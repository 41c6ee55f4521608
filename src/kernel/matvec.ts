// y [n, m] = x [n, k] times w [m, k] transposed, for few rows of x: n up to 8. Reads each weight once, decodes it in registers and
// uses it for all n rows. Forms: subgroups share a few rows of w and sum at the end; without subgroups a workgroup does; on
// CPUs one lane takes a few rows with vectors.

import type { Caps } from '../base/caps.ts'
import { type LaneScope, type Readable, type Scope, buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../quant/format.ts'
import { formatOf } from '../quant/index.ts'
import { combineLanes, flatGrid, flatGroup } from './lanes.ts'
import { type LinearParams, defineLinear, linearBuffers } from './linear-params.ts'
import { canBlock32, matvecBlock32 } from './matvec-block32.ts'
import { canQ4K, matvecQ4K } from './matvec-q4k.ts'
import { canQ6K, matvecQ6K } from './matvec-q6k.ts'
import type { KernelRecord, Work } from './record.ts'

/** more rows of x than this go to matmul */
export const MATVEC_ROWS = 8

export const matvec: KernelRecord<LinearParams> = {
  name: 'matvec',
  about: 'one to eight vectors times a weight matrix of any format',
  tolerance: 5e-7,
  cases: [
    { format: 'q4_k', m: 64, k: 256, n: 1, bias: false },
    { format: 'q4_k', m: 67, k: 1024, n: 1, bias: true },
    { format: 'q4_k', m: 16, k: 512, n: 3, bias: false },
    { format: 'q6_k', m: 35, k: 1024, n: 1, bias: true },
    ...['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'mxfp4'].flatMap((format) => [
      { format, m: 16, k: 256, n: 1, bias: false },
      { format, m: 17, k: 96, n: 5, bias: false },
    ]),
    ...['q5_k', 'q6_k'].flatMap((format) => [1, 2, 4, 8].map((n) => ({ format, m: 16, k: 512, n, bias: false }))),
    ...['f32', 'f16', 'bf16'].flatMap((format) => [
      { format, m: 16, k: 256, n: 1, bias: false },
      { format, m: 83, k: 193, n: 1, bias: true },
      { format, m: 5, k: 67, n: 7, bias: false },
      { format, m: 1, k: 4, n: 8, bias: false },
    ]),
  ],
  buffers: linearBuffers,
  work,
  define: defineLinear,
}

/** rows of w that a subgroup, workgroup or lane takes: more share the loads of x, fewer leave registers free */
const ROWS = 4
/**
 * Rows of x that a GPU takes in one walk along k; more come in further walks, whose weights are then in the nearest cache. Keeps
 * registers few, and one kernel serves every n above 1: drivers need seconds to compile one that has all eight written out.
 * Small subgroups are those of emulated GPUs, which feel it most.
 */
const columnsFor = ({ subgroup }: Caps): number => (subgroup >= 16 ? 4 : 2)

function work(caps: Caps, params: LinearParams): Work {
  const special = params.n === 1 && caps.lanes > 1 ? specialFor(caps, params) : undefined
  if (special !== undefined) return special
  const { format: name, m, k: inner, n, bias } = params
  const format = formatOf(name)
  const subgroups = caps.lanes > 1 && caps.subgroup > 1
  const lanes = caps.lanes === 1 ? 1 : 64
  const groups = subgroups ? lanes / caps.subgroup : 1
  const width = subgroups ? caps.subgroup : lanes // lanes that share rows
  const walks = lanes > 1 && n > 1
  const columns = walks ? columnsFor(caps) : n
  const rows = n > (walks ? 1 : 4) ? 2 : ROWS
  const whole = format.element === undefined || inner % 4 === 0
  const written = kernel(
    `matvec_${name}${walks ? '_few' : n > 1 ? `_n${n}` : ''}`,
    {
      params: {
        x: buffer(whole ? 'f32x4' : 'f32', 'read'),
        w: buffer(format.storage, 'read'),
        ...(bias ? { bias: buffer('f32', 'read') } : {}),
        y: buffer('f32', 'write'),
        m: uniform('u32'),
        k: uniform('u32'),
        ...(walks ? { n: uniform('u32') } : {}),
      },
      workgroup: [lanes],
      ...(subgroups ? { subgroup: caps.subgroup } : {}),
      // On CPUs the name and the parameters say all; a GPU's form also depends on its caps, and is always written.
      ...(lanes === 1 ? { variant: 'serial' } : {}),
    },
    (p, k) => {
      const combine = subgroups || lanes === 1 ? undefined : combineLanes(k, caps, lanes)
      const total = (value: Value<'f32'>): Value<'f32'> =>
        subgroups ? k.subSum(value) : combine === undefined ? value : combine('sum', value)
      const first = k.let(
        'first',
        flatGroup(k)
          .mul(groups)
          .add(subgroups ? k.subgroupId : 0)
          .mul(rows),
      )
      // Rows past the end repeat the last one and are not stored, so that no lane leaves early.
      const rowOf = Array.from({ length: rows }, (_, r) => k.let('row', first.add(r).min(p.m.sub(1))))
      const me = subgroups ? k.sublane : k.lane
      const x = whole ? inFours(p.x as Readable<'f32x4', 'lane'>) : inOnes(p.x as Readable<'f32', 'lane'>)
      const walk = (columnOf: readonly Value<'u32'>[], isColumn: (column: number) => Value<'bool'> | undefined): void => {
        const sums = rowOf.map(() => columnOf.map(() => k.var('sum', k.const('f32', 0))))
        accumulate(k, { format, x, w: p.w, inner: p.k, rowOf, columnOf, me, width, weightsFirst: walks && columns > 2 }, sums)
        sums.forEach((ofRow, r) =>
          ofRow.forEach((sum, column) => {
            const result = total(sum.get())
            const value = p.bias === undefined ? result : result.add(p.bias.at(rowOf[r]!))
            const mine = me.eq(0).and(first.add(r).lt(p.m))
            const inside = isColumn(column)
            k.when(inside === undefined ? mine : mine.and(inside), () => p.y.set(p.m.mul(columnOf[column]!).add(first).add(r), value))
          }),
        )
      }
      const { n: all } = p
      const counted = Array.from({ length: columns }, (_, column) => column)
      if (all === undefined)
        walk(
          counted.map((column) => k.const('u32', column)),
          () => undefined,
        )
      else {
        k.for({ name: 'column', to: all, step: columns }, (start) => {
          walk(
            counted.map((column) => k.let('column', start.add(column).min(all.sub(1)))),
            (column) => (column === 0 ? undefined : start.add(column).lt(all)),
          )
        })
      }
    },
  )
  const uniforms = { m, k: inner, ...(walks ? { n } : {}) }
  return { launches: [{ kernel: written, uniforms, grid: flatGrid(caps, Math.ceil(m / (groups * rows))) }] }
}

/** The form written for a format and one vector, where there is one. */
function specialFor(caps: Caps, params: LinearParams): Work | undefined {
  if (params.format === 'q4_k' && canQ4K(caps)) return matvecQ4K(caps, params)
  if (params.format === 'q6_k' && canQ6K(caps)) return matvecQ6K(caps, params)
  return canBlock32(caps, params.format) ? matvecBlock32(caps, params) : undefined
}

interface Share {
  readonly format: Format
  readonly x: Activations
  readonly w: Weights
  readonly inner: Value<'u32'>
  readonly rowOf: readonly Value<'u32'>[]
  /** rows of x */
  readonly columnOf: readonly Value<'u32'>[]
  readonly me: Value<'u32'>
  readonly width: number
  /** hold the weights of all rows and let the activations of one column after the other pass by, instead of the other way round */
  readonly weightsFirst: boolean
}
interface Activations {
  /** four from here on; where rows are whole, `index` is a multiple of four */
  four(index: Value<'u32'>, plus: number): Value<'f32x4'>
  /** absent where rows are whole and have no tail */
  readonly one?: (index: Value<'u32'>) => Value<'f32'>
}
type Sums = readonly (readonly { get(): Value<'f32'>; set(value: Value<'f32'>): void }[])[]

/** One load of 16 bytes is a quarter of the work of four loads, for the GPU and for its compiler. */
function inFours(x: Readable<'f32x4', 'lane'>): Activations {
  return { four: (index, plus) => x.at(index.shr(2).add(plus / 4)) }
}

function inOnes(x: Readable<'f32', 'lane'>): Activations {
  return { four: (index, plus) => x.load(index.add(plus), 4), one: (index) => x.at(index) }
}

/** Adds this lane's share of every dot product: runs of 32 for block formats, of 4 for single elements. */
function accumulate(k: Scope, share: Share, sums: Sums): void {
  const { format, x, w, inner, rowOf, columnOf, me, width } = share
  const unit = format.element === undefined ? CHUNK : 4
  const units = k.let('units', inner.div(unit))
  k.for({ name: 'c', from: me, to: units, step: width }, (c: Value<'u32'>, body: LaneScope) => {
    const read = (column: Value<'u32'>): Value<'f32x4'>[] =>
      Array.from({ length: unit / 4 }, (_, i) => x.four(inner.mul(column).add(c.mul(unit)), 4 * i))
    const decode = (row: Value<'u32'>): Value<'f32x4'>[] =>
      format.element === undefined ? format.decode(body, w, row.mul(units).add(c)) : [format.element.four(w, row.mul(inner).add(c.mul(4)))]
    const add = (r: number, column: number, weights: readonly Value<'f32x4'>[], activations: readonly Value<'f32x4'>[]): void => {
      const sum = sums[r]![column]!
      sum.set(
        sum.get().add(
          weights
            .map((four, i) => four.mul(activations[i]!))
            .reduce((a, b) => a.add(b))
            .hsum(),
        ),
      )
    }
    if (share.weightsFirst) {
      const weights = rowOf.map((row) => decode(row).map((four) => body.let('weight', four)))
      columnOf.forEach((at, column) => {
        const activations = read(at)
        rowOf.forEach((_, r) => add(r, column, weights[r]!, activations))
      })
      return
    }
    const activations = columnOf.map(read)
    rowOf.forEach((row, r) => {
      const weights = decode(row)
      columnOf.forEach((_, column) => add(r, column, weights, activations[column]!))
    })
  })
  const { element } = format
  const { one } = x
  if (one === undefined || element === undefined) return
  k.for({ name: 'i', from: units.mul(4).add(me), to: inner, step: width }, (i: Value<'u32'>) => {
    rowOf.forEach((row, r) =>
      sums[r]!.forEach((sum, column) => {
        sum.set(sum.get().add(element.one(w, row.mul(inner).add(i)).mul(one(inner.mul(columnOf[column]!).add(i)))))
      }),
    )
  })
}
