// What the GPU forms of attention share: the keys that several rows see, caches read four elements at a time. Sizes that
// shape the code are constants of the kernels. Knows no form.

import { type Readable, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { CACHE_BLOCK, type CacheType } from './cache-type.ts'
import { PAGING, pagingUniforms } from './pages.ts'
import { type AttentionParams, seen } from './params.ts'

/** What every form takes beside queries, caches and results. */
export const SHARED_PARAMS = {
  heads: uniform('u32'),
  group: uniform('u32'),
  window: uniform('u32'),
  scale: uniform('f32'),
  softcap: uniform('f32'),
  ...PAGING,
} as const

export function uniformsOf(params: AttentionParams): Record<string, number> {
  const { heads, kvHeads, window, scale, softcap } = params
  return { heads, group: heads / kvHeads, window, scale, softcap, ...pagingUniforms(params) }
}

/** The keys that any of the rows from `row` to before `end` sees that have this slot. */
export function seenByAny(
  k: Scope,
  { from: row, to: end }: Readonly<Record<'from' | 'to', Value<'u32', 'uniform'>>>,
  slot: Value<'u32', 'uniform'>,
  p: Readonly<Record<'positions' | 'slots', Readable<'u32', 'uniform'>>> & Readonly<Record<'context' | 'window', Value<'u32', 'uniform'>>>,
): { from: Value<'u32', 'uniform'>; to: Value<'u32', 'uniform'> } {
  const [from, to] = [k.var('from', p.context), k.var('to', k.const('u32', 0))]
  k.for({ name: 'r', from: row, to: end }, (r) => {
    const { first, last } = seen(p.positions.at(r), p)
    k.when(p.slots.at(r).eq(slot), () => {
      from.set(from.get().min(first))
      to.set(to.get().max(last.add(1)))
    })
  })
  return { from: from.get() as Value<'u32', 'uniform'>, to: to.get() as Value<'u32', 'uniform'> }
}

/** What every form is written for. */
export interface GpuTraits {
  readonly type: CacheType
  readonly headDim: number
  readonly cap: boolean
}

export function gpuTraits({ type, headDim, softcap }: AttentionParams): GpuTraits {
  return { type, headDim, cap: softcap > 0 }
}

/** Part of a kernel's name. */
export function nameOf({ type, headDim, cap }: GpuTraits): string {
  return `${type}_d${headDim}${cap ? '_cap' : ''}`
}

/** Four elements of a cache, 4 * index and on. */
export type ReadFour = (index: Value<'u32'>) => Value<'f32x4'>

type Storage = 'f32x4' | 'f16x4' | 'u32x2' | 'u32'
interface Caches {
  readonly keys: Readable<Storage, Uniformity>
  readonly values: Readable<Storage, Uniformity>
  readonly heads: Value<'u32', 'uniform'>
  readonly group: Value<'u32', 'uniform'>
  readonly capacity: Value<'u32', 'uniform'>
}

/** Storage of caches read four elements at a time, and how to read them: as halves, or as words of two where there are no halves. */
export function cacheOf({ type, headDim }: GpuTraits, halves: boolean) {
  const storage: Storage = type === 'f32' ? 'f32x4' : type === 'q8_0' ? 'u32' : halves ? 'f16x4' : 'u32x2'
  const reader = (cache: Caches['keys'], { heads, group, capacity }: Caches): ReadFour => {
    switch (storage) {
      case 'f32x4':
        return (index) => cache.at(index) as Value<'f32x4'>
      case 'f16x4':
        return (index) => (cache.at(index) as Value<'f16x4'>).to('f32')
      case 'u32x2':
        return (index) => {
          const words = cache.at(index) as Value<'u32x2'>
          return words.lane(0).unpackF16().join(words.lane(1).unpackF16())
        }
      case 'u32': {
        const words = cache as Readable<'u32', Uniformity>
        const scales = heads
          .div(group)
          .mul(capacity)
          .mul(headDim / 4)
        return (index) =>
          words
            .at(index)
            .unpackI8()
            .to('f32')
            .mul(words.at(scales.add(index.div(CACHE_BLOCK / 4))).as('f32'))
      }
    }
  }
  return {
    storage: buffer(storage, 'read'),
    readers: (p: Caches): { key: ReadFour; value: ReadFour } => ({ key: reader(p.keys, p), value: reader(p.values, p) }),
  }
}
