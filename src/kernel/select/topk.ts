// The k largest of each row, sorted: ids, then the bits of their values. A GPU's workgroup takes the best that comes after the last
// one taken, k times over; a CPU keeps a sorted list and inserts what beats its end. Both first on parts of a long row, then on
// what the parts have given: lists of k ids, with NO_ID where a part had fewer.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type LaneScope, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, teamFor } from '../lanes.ts'
import { type Write, template } from '../template.ts'
import { NOTHING, NO_ID, combineBest, orderKey, ranking } from './float-order.ts'

export interface TopkParams {
  readonly rows: number
  readonly cols: number
  readonly k: number
}

const PART = 4096
/** Largest k: room for the sorted list of a CPU. */
export const MOST_CHOSEN = 256
/** Above the key of any value. */
const ABOVE_ALL = 0x7fffffff

/** A workgroup takes a part of the row (`cut`, and `whole` with one part), or what parts have given (`join`). */
type Stage = 'whole' | 'cut' | 'join'
type TopkTraits = Team & { readonly stage: Stage; readonly width: Width }

const sorted = template({ family: 'topk', form: 'sorted list' }, writeTopk)
const inTurn = template({ family: 'topk', form: 'in turn' }, writeTopk)

export const topk = family<TopkParams>({
  name: 'topk',
  about: 'the k largest of each row: ids, then the bits of their values, largest first',
  tolerance: () => 0,
  cases: [
    { rows: 1, cols: 1000, k: 40 },
    { rows: 1, cols: 1, k: 1 },
    { rows: 3, cols: 67, k: 67 },
    { rows: 1, cols: 193, k: 7 },
    { rows: 2, cols: 9001, k: 40 },
    { rows: 1, cols: 5000, k: 1 },
  ],
  buffers: ({ rows, cols, k }) => [
    { name: 'x', role: 'in', type: 'f32', elements: rows * cols },
    { name: 'y', role: 'out', type: 'u32', elements: rows * 2 * k },
  ],
  inputs: ({ rows, cols }, random) => ({ x: logits(rows * cols, random) }),
  forms: [
    {
      name: 'sorted list',
      fits: isCpu,
      work: (caps, params) => work(caps, params, sorted),
      kernels: ({ width }) => (['whole', 'cut', 'join'] as const).map((stage) => sorted({ stage, width, lanes: 1, subgroup: 0 })),
    },
    { name: 'in turn', fits: isGpu, work: (caps, params) => work(caps, params, inTurn) },
  ],
  cost: ({ rows, cols }) => ({ operations: rows * cols, arithmetic: 'f32' }),
  define: ({ x = NONE }, { rows, cols, k }) => {
    const best = Array.from({ length: rows }, (_, row) => {
      const own = x.subarray(row * cols, (row + 1) * cols)
      const ids = ranking(Array.from(own)).slice(0, k)
      const bits = new Uint32Array(Float32Array.from(ids, (id) => own[id] ?? Number.NaN).buffer)
      return [...ids, ...bits]
    })
    return { y: Uint32Array.from(best.flat()) }
  },
})

/** Values with ties, infinities and a few NaN. */
export function logits(length: number, random: () => number): Float32Array {
  return Float32Array.from({ length }, () => {
    const luck = random()
    if (luck < 0.02) return Number.NaN
    if (luck < 0.04) return -Infinity
    return Math.round(60 * random() - 30) / 4
  })
}

function work(caps: Caps, { rows, cols, k }: TopkParams, write: (traits: TopkTraits) => Kernel): Work {
  if (k < 1 || k > cols || k > MOST_CHOSEN) {
    throw new IngotError('bad-argument', 'k is out of range', { op: 'topk', got: k, wanted: `1 to ${Math.min(cols, MOST_CHOSEN)}` })
  }
  const kernelFor = (stage: Stage, candidates: number): Kernel => write({ stage, width: caps.width, ...teamFor(caps, candidates) })
  const parts = Math.ceil(cols / PART)
  if (parts === 1) {
    return { launches: [{ kernel: kernelFor('whole', cols), uniforms: { cols, total: cols, part: cols, count: k }, grid: [1, rows, 1] }] }
  }
  const all = parts * k
  return {
    launches: [
      {
        kernel: kernelFor('cut', PART),
        uniforms: { cols, total: cols, part: PART, count: k },
        grid: [parts, rows, 1],
        binds: { y: 'partial' },
      },
      {
        kernel: kernelFor('join', all),
        uniforms: { cols, total: all, part: all, count: k },
        grid: [1, rows, 1],
        binds: { found: 'partial' },
      },
    ],
    scratch: { partial: 4 * rows * all },
  }
}

function writeTopk({ stage, width, lanes, subgroup }: TopkTraits, kernel: Write): Kernel {
  const params = {
    x: buffer('f32', 'read'),
    ...(stage === 'join' ? { found: buffer('u32', 'read') } : {}),
    y: buffer('u32', 'write'),
    cols: uniform('u32'),
    total: uniform('u32'),
    part: uniform('u32'),
    count: uniform('u32'),
  }
  return kernel('topk', { params, workgroup: [lanes], subgroup }, (p, k) => {
    const row = k.workgroupId.y
    const first = k.let('first', row.mul(p.cols))
    const from = k.let('from', k.workgroupId.x.mul(p.part))
    const to = k.let('to', from.add(p.part).min(p.total))
    const write = (round: Value<'u32'>, id: Value<'u32'>): void => {
      if (stage === 'cut') return p.y.set(row.mul(k.gridSize.x).add(k.workgroupId.x).mul(p.count).add(round), id)
      const place = row.mul(2).mul(p.count).add(round)
      p.y.set(place, id)
      return p.y.set(place.add(p.count), p.x.at(first.add(id)).as('u32'))
    }
    const { found } = p
    const search: Search = {
      x: { at: (id) => p.x.at(first.add(id)), load: (id) => p.x.load(first.add(id), width) },
      ids: found === undefined ? undefined : (i) => found.at(row.mul(p.total).add(i)),
      from,
      to,
      count: p.count,
      write,
    }
    if (lanes === 1) insertSorted(k, search, width)
    else takeInTurn(k, { lanes, subgroup }, search)
  })
}

interface Search {
  /** of the row, by ids: one value, or a vector of them */
  readonly x: { at(id: Value<'u32'>): Value<'f32'>; load(id: Value<'u32'>): VectorOf<'f32'> }
  /** the candidates from..to; absent: they are the ids */
  readonly ids: ((i: Value<'u32'>) => Value<'u32'>) | undefined
  readonly from: Value<'u32', 'uniform'>
  readonly to: Value<'u32', 'uniform'>
  readonly count: Value<'u32', 'uniform'>
  write(round: Value<'u32'>, id: Value<'u32'>): void
}

function takeInTurn(k: Scope, team: Team, { x, ids, from, to, count, write }: Search): void {
  const { lanes } = team
  const combine = combineLanes(k, team)
  const lastKey = k.var('lastKey', k.const('i32', ABOVE_ALL))
  const lastId = k.var('lastId', k.const('u32', 0))
  k.for({ name: 'round', to: count }, (round) => {
    const [beforeKey, beforeId] = [lastKey.get(), lastId.get()]
    const best = k.var('best', k.const('i32', NOTHING))
    const chosen = k.var('chosen', k.const('u32', NO_ID))
    const include = (id: Value<'u32'>): void => {
      const key = orderKey(x.at(id))
      const after = key.lt(beforeKey).or(key.eq(beforeKey).and(id.gt(beforeId)))
      // Candidates come with rising ids where keys are equal, so the first of a lane is the lowest.
      const better = after.and(key.gt(best.get()))
      chosen.set(better.select(id, chosen.get()))
      best.set(better.select(key, best.get()))
    }
    k.for({ name: 'c', from: from.add(k.lane), to, step: lanes }, (c) => {
      if (ids === undefined) return include(c)
      const id = k.let('id', ids(c))
      return k.when(id.ne(NO_ID), () => include(id))
    })
    const found = combineBest(combine, best.get(), chosen.get())
    lastKey.set(found.key)
    lastId.set(found.id)
    k.when(k.lane.eq(0), () => write(round, found.id))
  })
}

function insertSorted(k: LaneScope, { x, ids, from, to, count, write }: Search, width: Width): void {
  const keys = k.shared('keys', 'i32', MOST_CHOSEN)
  const kept = k.shared('kept', 'u32', MOST_CHOSEN)
  k.for({ name: 'i', to: count }, (i) => {
    keys.set(i, NOTHING)
    kept.set(i, NO_ID)
  })
  const least = k.var('least', k.const('i32', NOTHING)) // what a key must beat to be kept
  const insert = (id: Value<'u32'>): void => {
    const key = k.let('key', orderKey(x.at(id)))
    k.when(key.gt(least.get()), () => {
      const place = k.var('place', count.sub(1))
      k.loop(() => {
        k.breakIf(place.get().eq(0))
        const before = place.get().sub(1)
        const above = keys.at(before)
        k.breakIf(above.ge(key))
        keys.set(place.get(), above)
        kept.set(place.get(), kept.at(before))
        place.set(before)
      })
      keys.set(place.get(), key)
      kept.set(place.get(), id)
      least.set(keys.at(count.sub(1)))
    })
  }
  if (ids === undefined) {
    const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    k.for({ name: 'c', from, to: whole, step: width }, (c) => {
      const highest = orderKey(x.load(c)).hmax()
      k.when(highest.gt(least.get()), () => k.for({ name: 'id', from: c, to: c.add(width) }, insert))
    })
    k.for({ name: 'id', from: whole, to }, insert)
  } else {
    k.for({ name: 'c', from, to }, (c) => {
      const id = k.let('id', ids(c))
      k.when(id.ne(NO_ID), () => insert(id))
    })
  }
  k.for({ name: 'i', to: count }, (i) => write(i, kept.at(i)))
}
