// What the GPU forms of attention share: the keys that several rows see, caches read four elements at a time. Sizes that
// shape the code are constants of the kernels. Knows no form.

import { type Readable, type Scope, buffer, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { type AttentionParams, seen } from './attention-params.ts'

/** The uniforms of every form. */
export const UNIFORMS = {
  heads: uniform('u32'),
  group: uniform('u32'),
  capacity: uniform('u32'),
  window: uniform('u32'),
  scale: uniform('f32'),
  softcap: uniform('f32'),
} as const

export function uniformsOf({ heads, kvHeads, capacity, window, scale, softcap }: AttentionParams): Record<keyof typeof UNIFORMS, number> {
  return { heads, group: heads / kvHeads, capacity, window, scale, softcap }
}

/** The keys that any of the rows from `row` to `end` (at least one) sees. */
export function seenByAny(
  k: Scope,
  row: Value<'u32', 'uniform'>,
  end: Value<'u32', 'uniform'>,
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
