// What the GPU forms of attention share: which keys a row sees, the cap on scores, caches read four elements at a time. Sizes that
// shape the code are constants of the kernels. Knows no form.

import { type LaneScope, type Readable, type Scope, buffer, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import type { AttentionParams } from './attention-params.ts'

/** Below every score; finite, so that differences of two of them are no NaN. */
export const LOWEST = -1e30

/** The uniforms of every form. */
export const UNIFORMS = {
  heads: uniform('u32'), group: uniform('u32'), capacity: uniform('u32'), window: uniform('u32'), scale: uniform('f32'), softcap: uniform('f32'),
} as const

export function uniformsOf({ heads, kvHeads, capacity, window, scale, softcap }: AttentionParams): Record<keyof typeof UNIFORMS, number> {
  return { heads, group: heads / kvHeads, capacity, window, scale, softcap }
}

/** The first and last key that the row at this position sees. */
export function seen<U extends Uniformity>(
  position: Value<'u32', U>, { capacity, window }: { capacity: Value<'u32', 'uniform'>; window: Value<'u32', 'uniform'> },
): { first: Value<'u32', U>; last: Value<'u32', U> } {
  const last = position.min(capacity.sub(1)) as Value<'u32', U>
  const hidden = last.add(1).sub(window.min(last.add(1))) as Value<'u32', U>
  return { first: window.gt(0).select(hidden, 0) as Value<'u32', U>, last }
}

/** The keys that any of the rows from `row` to `end` (at least one) sees. */
export function seenByAny(
  k: Scope, row: Value<'u32', 'uniform'>, end: Value<'u32', 'uniform'>,
  p: { positions: Readable<'u32', 'uniform'>; capacity: Value<'u32', 'uniform'>; window: Value<'u32', 'uniform'> },
): { from: Value<'u32', 'uniform'>; to: Value<'u32', 'uniform'> } {
  const one = seen(p.positions.at(row), p)
  const [from, to] = [k.var('from', one.first), k.var('to', one.last.add(1))]
  k.for({ name: 'r', from: row.add(1), to: end }, (r) => {
    const other = seen(p.positions.at(r), p)
    from.set(from.get().min(other.first))
    to.set(to.get().max(other.last.add(1)))
  })
  return { from: from.get() as Value<'u32', 'uniform'>, to: to.get() as Value<'u32', 'uniform'> }
}

/** A score, or several, with the model's cap, if it has one: written into the kernel only then, since tanh is dear. */
export function capped<D extends 'f32' | 'f32x4'>(k: LaneScope, score: Value<D>, params: AttentionParams, softcap: Value<'f32'>): Value<D> {
  return params.softcap > 0 ? k.let('score', score.div(softcap as never).tanh().mul(softcap as never)) : score
}

/** Part of a kernel's name: what its code depends on. */
export function nameOf({ type, headDim, softcap }: AttentionParams): string {
  return `${type}_d${headDim}${softcap > 0 ? '_cap' : ''}`
}

/** Storage of a cache read four elements at a time, and how to read them: as halves, or as words of two where there are no halves. */
export function cacheOf(type: 'f32' | 'f16', halves: boolean) {
  const storage = type === 'f32' ? 'f32x4' : halves ? 'f16x4' : 'u32x2'
  return {
    storage: buffer(storage, 'read'),
    /** elements 4 * index and on */
    four: (cache: Readable<'f32x4' | 'f16x4' | 'u32x2', Uniformity>, index: Value<'u32'>): Value<'f32x4'> => {
      if (storage === 'f32x4') return cache.at(index) as Value<'f32x4'>
      if (storage === 'f16x4') return (cache.at(index) as Value<'f16x4'>).to('f32')
      const words = cache.at(index) as Value<'u32x2'>
      return words.lane(0).unpackF16().join(words.lane(1).unpackF16())
    },
  } as const
}
