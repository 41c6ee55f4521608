// The kernels of pool.ts: a row of windows at a time for CPUs, and a window for each lane.

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { type LaneScope, uniform } from '../../ir/author.ts'
import type { Elements, Value, VectorOf } from '../../ir/value.ts'
import { elements, readOne, readVector, writeOne, writeVector } from '../element.ts'
import { flatLane } from '../lanes.ts'
import { NOTHING, NO_ID, orderKey } from '../select/float-order.ts'
import { template } from '../template.ts'
import { type AxisHandle, axisHandle, elementUnder, splitIndex, stepsBelow, windowParams } from './windows.ts'

export type PoolKind = 'max' | 'average' | 'l2' | 'argmax'
export const POOL_TYPES = ['f32', 'f16', 'bf16', 'i32', 'u32', 'i8', 'u8'] as const
/** Means and roots are of floats. */
export type PoolType = (typeof POOL_TYPES)[number]

/** Columns that scratch memory holds. */
export const SPAN = 4096

type U32 = Value<'u32'>
/** What registers hold of an element. */
export type Numeric = 'f32' | 'i32' | 'u32'

export interface PoolTraits {
  readonly kind: PoolKind
  readonly type: PoolType
  readonly register: Numeric
}

const paramsOf = ({ kind, type, register }: PoolTraits) => ({
  x: elements(type, 'read'),
  y: elements(kind === 'argmax' ? 'u32' : type, 'write'),
  ...windowParams(2),
  /** what a window without elements has */
  start: uniform(register),
  /** places that a mean counts: from here on, and below there */
  countFrom: [uniform('u32'), uniform('u32')],
  countTo: [uniform('u32'), uniform('u32')],
})

/** An element as it is combined with others; and two together. */
function prepare<V extends Value<Numeric> | VectorOf<Numeric>>(kind: PoolKind, value: V): V
function prepare(kind: PoolKind, value: Value<Numeric>): Value<Numeric> {
  return kind === 'l2' ? value.mul(value) : value
}
function combine<V extends Value<Numeric> | VectorOf<Numeric>>(kind: PoolKind, a: V, b: V): V
function combine(kind: PoolKind, a: Value<Numeric>, b: Value<Numeric>): Value<Numeric> {
  return kind === 'max' ? a.max(b) : a.add(b)
}

/** An integer of the same order. */
function keyOf(register: Numeric, value: Value<Numeric>): Value<'i32'>
function keyOf(register: Numeric, value: VectorOf<Numeric>): VectorOf<'i32'>
function keyOf(register: Numeric, value: Elements<Numeric>): Elements<'i32'> {
  if (register === 'f32') return orderKey(value as Value<'f32'>)
  return register === 'u32' ? (value as Elements<'u32'>).xor(0x80000000).as('i32') : (value as Elements<'i32'>)
}

/** How many taps of a window a mean counts along an axis. */
function countTaps({ stride, dilation, kernel }: AxisHandle, window: U32, from: U32, to: U32): U32 {
  const start = window.mul(stride)
  const below = (end: U32): U32 => stepsBelow(start, end, dilation).min(kernel)
  return below(to).sub(below(from))
}

/** What has been combined as a result; `count`: of how many elements. */
function finish(kind: PoolKind, value: Value<Numeric>, count: () => Value<'f32'>): Value<Numeric> {
  if (kind === 'max') return value
  return kind === 'l2' ? value.sqrt() : (value as Value<'f32'>).div(count().max(1))
}

const rowParams = { rows: uniform('u32'), rowsEach: uniform('u32'), columnsEach: uniform('u32') } as const

/** What the windows of a workgroup see of a row, counted from the first element of padding, and what of it are elements. */
interface Span {
  readonly firstColumn: U32
  readonly columns: U32
  readonly from: U32
  readonly to: U32
  readonly begin: U32
  readonly end: U32
}

function spanOf(k: LaneScope, { columnsEach }: { readonly columnsEach: U32 }, b: AxisHandle): Span {
  const firstColumn = k.let('firstColumn', k.workgroupId.x.mul(columnsEach))
  const columns = k.let('columns', b.out.sub(firstColumn).min(columnsEach))
  const from = k.let('from', firstColumn.mul(b.stride))
  const reach = columns.sub(1).mul(b.stride).add(b.kernel.sub(1).mul(b.dilation))
  const to = k.let('to', from.add(reach).add(1))
  const [begin, end] = [b.before.clamp(from, to), b.before.add(b.in).clamp(from, to)]
  return { firstColumn, columns, from, to, begin: k.let('begin', begin), end: k.let('end', end) }
}

/** Goes over the rows of windows of a workgroup: `below` gets each row of elements under one, `across` the row of results. */
function forRows(
  k: LaneScope,
  p: { readonly rows: U32; readonly rowsEach: U32 },
  [a, b]: readonly [AxisHandle, AxisHandle],
  { from, begin, firstColumn }: Span,
  visit: {
    start(): void
    /** the first element, where it is in the span, and the row it is in */
    below(source: U32, target: U32, row: U32): void
    /** the row of windows in its image, and the first result */
    across(window: U32, result: U32): void
  },
): void {
  const first = k.let('first', k.workgroupId.y.mul(p.rowsEach))
  k.for({ name: 'row', from: first, to: first.add(p.rowsEach).min(p.rows) }, (row) => {
    const [image, window] = splitIndex(k, row, a.out)
    visit.start()
    k.for({ name: 'tap', to: a.kernel }, (tap) => {
      const at = k.let('at', elementUnder(a, window, tap))
      k.when(at.lt(a.in), () => {
        const source = k.let('source', image.mul(a.in).add(at).mul(b.in).add(begin).sub(b.before))
        visit.below(source, k.let('target', begin.sub(from)), at)
      })
    })
    visit.across(window, k.let('result', row.mul(b.out).add(firstColumn)))
  })
}

/** Elements side by side in vectors, then one by one. */
function forElements(k: LaneScope, count: U32, width: Width, vector: (i: U32) => void, one: (i: U32) => void): void {
  const whole = k.let('whole', count.div(width).mul(width))
  k.for({ name: 'i', to: whole, step: width }, vector)
  k.for({ name: 'i', from: whole, to: count }, one)
}

/** Some rows of windows for each workgroup, or a part of a row. */
export const rows = template<PoolTraits & { readonly width: Width }>({ family: 'pool', form: 'rows' }, ({ width, ...traits }, kernel) => {
  const { kind, type, register } = traits
  return kernel(`pool_${kind}`, { params: { ...paramsOf(traits), ...rowParams } }, (p, k) => {
    const [a, b] = [axisHandle(p, 0), axisHandle(p, 1)]
    const span = spanOf(k, p, b)
    const combined = k.shared('combined', register, SPAN)
    const counts = kind === 'average' ? k.shared('counts', 'f32', SPAN) : undefined
    k.for({ name: 'column', to: counts === undefined ? 0 : span.columns }, (column) =>
      counts?.set(column, countTaps(b, span.firstColumn.add(column), item(p.countFrom, 1), item(p.countTo, 1)).to('f32')),
    )
    forRows(k, p, [a, b], span, {
      start: () => k.for({ name: 'i', to: span.to.sub(span.from) }, (i) => combined.set(i, p.start)),
      below: (source, target) =>
        forElements(
          k,
          span.end.sub(span.begin),
          width,
          (i) => {
            const value = prepare(kind, readVector(k, type, p.x, source.add(i), width) as VectorOf<Numeric>)
            const before = readVector(k, register, combined, target.add(i), width) as VectorOf<Numeric>
            writeVector(register, combined, target.add(i), combine(kind, before, value), width)
          },
          (i) => {
            const value = prepare(kind, readOne(type, p.x, source.add(i)) as Value<Numeric>)
            combined.set(target.add(i), combine(kind, combined.at(target.add(i)), value))
          },
        ),
      across: (window, result) => {
        const rowCount = counts && k.let('rowCount', countTaps(a, window, item(p.countFrom, 0), item(p.countTo, 0)).to('f32'))
        k.for({ name: 'column', to: span.columns }, (column) => {
          const place = k.let('place', column.mul(b.stride))
          const total = k.var('total', combined.at(place))
          k.for({ name: 'tap', from: 1, to: b.kernel }, (tap) =>
            total.set(combine(kind, total.get(), combined.at(place.add(tap.mul(b.dilation))))),
          )
          const count = (): Value<'f32'> => (rowCount ?? k.const('f32', 1)).mul(counts?.at(column) ?? 1)
          writeOne(type, p.y, result.add(column), finish(kind, total.get(), count))
        })
      },
    })
  })
})

/**
 * The same for the place of the largest: of each column the largest element and the row that had it first; then of these the largest, the
 * one in the upper row where they are equal, the left one where rows are equal too.
 */
export const places = template<PoolTraits & { readonly width: Width }>(
  { family: 'pool', form: 'places' },
  ({ width, ...traits }, kernel) => {
    const { type, register } = traits
    return kernel('pool_argmax', { params: { ...paramsOf(traits), ...rowParams } }, (p, k) => {
      const [a, b] = [axisHandle(p, 0), axisHandle(p, 1)]
      const span = spanOf(k, p, b)
      const [keys, owners] = [k.shared('keys', 'i32', SPAN), k.shared('owners', 'u32', SPAN)] // an owner is a row, or NO_ID
      forRows(k, p, [a, b], span, {
        start: () =>
          k.for({ name: 'i', to: span.to.sub(span.from) }, (i) => {
            keys.set(i, NOTHING)
            owners.set(i, NO_ID)
          }),
        below: (source, target, row) =>
          forElements(
            k,
            span.end.sub(span.begin),
            width,
            (i) => {
              const at = k.let('place', target.add(i))
              const key = k.let('key', keyOf(register, readVector(k, type, p.x, source.add(i), width) as VectorOf<Numeric>))
              const [best, owner] = [keys.load(at, width), owners.load(at, width)]
              const isBetter = k.let('isBetter', key.gt(best).or(owner.eq(NO_ID)))
              keys.store(at, isBetter.select(key, best))
              owners.store(at, isBetter.select(row.splat(width), owner))
            },
            (i) => {
              const at = k.let('place', target.add(i))
              const key = k.let('key', keyOf(register, readOne(type, p.x, source.add(i)) as Value<Numeric>))
              const isBetter = k.let('isBetter', key.gt(keys.at(at)).or(owners.at(at).eq(NO_ID)))
              keys.set(at, isBetter.select(key, keys.at(at)))
              owners.set(at, isBetter.select(row, owners.at(at)))
            },
          ),
        across: (_window, result) =>
          k.for({ name: 'column', to: span.columns }, (column) => {
            const [key, owner] = [k.var('key', k.const('i32', NOTHING)), k.var('owner', k.const('u32', NO_ID))]
            const found = k.var('found', k.const('u32', 0))
            k.for({ name: 'tap', to: b.kernel }, (tap) => {
              const place = k.let('place', column.mul(b.stride).add(tap.mul(b.dilation)))
              const [other, row] = [keys.at(place), owners.at(place)]
              // What has no owner is no element; it neither has a larger key nor comes from an upper row.
              const isBetter = k.let('isBetter', other.gt(key.get()).or(other.eq(key.get()).and(row.lt(owner.get()))))
              key.set(isBetter.select(other, key.get()))
              owner.set(isBetter.select(row, owner.get()))
              found.set(isBetter.select(row.mul(b.in).add(span.from).add(place).sub(b.before), found.get()))
            })
            writeOne('u32', p.y, result.add(column), found.get())
          }),
      })
    })
  },
)

/** A window for each lane. */
export const lanes = template<PoolTraits & { readonly lanes: number }>(
  { family: 'pool', form: 'lanes' },
  ({ lanes, ...traits }, kernel) => {
    const { kind, type } = traits
    return kernel(`pool_${kind}`, { params: { ...paramsOf(traits), total: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
      const [a, b] = [axisHandle(p, 0), axisHandle(p, 1)]
      const at = k.let('at', flatLane(k, lanes))
      k.when(at.lt(p.total), () => {
        const [afterB, windowB] = splitIndex(k, at, b.out)
        const [image, windowA] = splitIndex(k, afterB, a.out)
        /** Visits what lies under the window; the body gets its number in the image. */
        const visit = (body: (value: Value<Numeric>, number: U32) => void): void =>
          k.for({ name: 'tapA', to: a.kernel }, (tapA) => {
            const atA = k.let('atA', elementUnder(a, windowA, tapA))
            k.when(atA.lt(a.in), () =>
              k.for({ name: 'tapB', to: b.kernel }, (tapB) => {
                const atB = k.let('atB', elementUnder(b, windowB, tapB))
                k.when(atB.lt(b.in), () => {
                  const number = k.let('number', atA.mul(b.in).add(atB))
                  body(readOne(type, p.x, image.mul(a.in).mul(b.in).add(number)) as Value<Numeric>, number)
                })
              }),
            )
          })
        if (kind === 'argmax') {
          const [best, chosen] = [k.var('best', k.const('i32', NOTHING)), k.var('chosen', k.const('u32', NO_ID))]
          visit((value, number) => {
            const key = k.let('key', keyOf(traits.register, value))
            const isBetter = chosen.get().eq(NO_ID).or(key.gt(best.get()))
            chosen.set(isBetter.select(number, chosen.get()))
            best.set(isBetter.select(key, best.get()))
          })
          return writeOne('u32', p.y, at, chosen.get().eq(NO_ID).select(k.const('u32', 0), chosen.get()))
        }
        const total = k.var('total', p.start)
        visit((value) => total.set(combine(kind, total.get(), prepare(kind, value))))
        const count = (): Value<'f32'> =>
          countTaps(a, windowA, item(p.countFrom, 0), item(p.countTo, 0))
            .mul(countTaps(b, windowB, item(p.countFrom, 1), item(p.countTo, 1)))
            .to('f32')
        return writeOne(type, p.y, at, finish(kind, total.get(), count))
      })
    })
  },
)
