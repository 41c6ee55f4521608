// How the k largest are found; select.ts says what they are. A GPU's workgroup takes the best that comes after the last one
// taken, k times over; a CPU keeps a sorted list and inserts what beats its end. Both first on parts of a long row, then on
// what the parts have given: lists of k ids, with NO_ID where a part had fewer.

import type { Caps } from '../base/caps.ts'
import { type LaneScope, type Readable, type Scope, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { combineLanes, lanesFor, subgroupOf } from './lanes.ts'
import { NOTHING, NO_ID, combineBest, orderKey } from './order.ts'
import type { Work } from './record.ts'

const PART = 4096
/** Largest k: room for the sorted list of a CPU. */
export const MOST_CHOSEN = 256
/** Above the key of any value. */
const ABOVE_ALL = 0x7fffffff

type Stage = 'whole' | 'cut' | 'join'

export function topkWork(caps: Caps, { cols, k }: { readonly cols: number; readonly k: number }): Work {
  const written = (stage: Stage, candidates: number): Kernel => topkKernel(caps, lanesFor(caps, candidates), stage)
  const parts = Math.ceil(cols / PART)
  if (parts === 1)
    return { launches: [{ kernel: written('whole', cols), uniforms: { total: cols, part: cols, count: k }, grid: [1, 1, 1] }] }
  return {
    launches: [
      { kernel: written('cut', PART), uniforms: { total: cols, part: PART, count: k }, grid: [parts, 1, 1] },
      { kernel: written('join', parts * k), uniforms: { total: parts * k, part: parts * k, count: k }, grid: [1, 1, 1] },
    ],
    scratch: { partial: 4 * parts * k },
  }
}

function topkKernel(caps: Caps, lanes: number, stage: Stage): Kernel {
  return kernel(
    'topk',
    {
      params: {
        x: buffer('f32', 'read'),
        ...(stage === 'whole' ? {} : { partial: buffer('u32', stage === 'cut' ? 'write' : 'read') }),
        ...(stage === 'cut' ? {} : { y: buffer('u32', 'write') }),
        total: uniform('u32'),
        part: uniform('u32'),
        count: uniform('u32'),
      },
      workgroup: [lanes],
      ...subgroupOf(caps, lanes),
      variant: `${stage}, width ${caps.width}`,
    },
    (p, k) => {
      const from = k.let('from', k.workgroupId.x.mul(p.part))
      const to = k.let('to', from.add(p.part).min(p.total))
      const ids = stage === 'join' ? (p.partial as Readable<'u32', Uniformity>) : undefined
      const write = (round: Value<'u32'>, id: Value<'u32'>): void => {
        if (stage === 'cut') return (p.partial as Writable<'u32'>).set(k.workgroupId.x.mul(p.count).add(round), id)
        p.y!.set(round, id)
        return p.y!.set(p.count.add(round), p.x.at(id).as('u32'))
      }
      const search: Search = { x: p.x, ids, from, to, count: p.count, write }
      if (lanes === 1) insertSorted(k, search, caps.width)
      else takeInTurn(k, caps, lanes, search)
    },
  )
}

interface Search {
  readonly x: Readable<'f32', Uniformity>
  /** the candidates from..to; absent: they are the ids */
  readonly ids: Readable<'u32', Uniformity> | undefined
  readonly from: Value<'u32', 'uniform'>
  readonly to: Value<'u32', 'uniform'>
  readonly count: Value<'u32', 'uniform'>
  write(round: Value<'u32'>, id: Value<'u32'>): void
}

function takeInTurn(k: Scope, caps: Caps, lanes: number, { x, ids, from, to, count, write }: Search): void {
  const combine = combineLanes(k, caps, lanes)
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
      const id = ids.at(c)
      return k.when(id.ne(NO_ID), () => include(id))
    })
    const found = combineBest(combine, best.get(), chosen.get())
    lastKey.set(found.key)
    lastId.set(found.id)
    k.when(k.lane.eq(0), () => write(round, found.id))
  })
}

function insertSorted(k: LaneScope, { x, ids, from, to, count, write }: Search, width: 2 | 4 | 8 | 16): void {
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
      const highest = orderKey(x.load(c, width) as unknown as Value<'f32'>).hmax()
      k.when(highest.gt(least.get()), () => k.for({ name: 'id', from: c, to: c.add(width) }, insert))
    })
    k.for({ name: 'id', from: whole, to }, insert)
  } else {
    k.for({ name: 'c', from, to }, (c) => {
      const id = ids.at(c)
      k.when(id.ne(NO_ID), () => insert(id))
    })
  }
  k.for({ name: 'i', to: count }, (i) => write(i, kept.at(i)))
}
