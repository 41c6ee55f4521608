// What all forms of attention share: parameters, buffers, where a workgroup's head and row are, and the softcap.

import type { Vector } from '../../base/dtype.ts'
import { type LaneScope, type Readable, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { CACHE_BLOCK, type CacheType } from './cache-type.ts'
import { PAGING, type PageTable, type Paging, pagingUniforms } from './pages.ts'

export interface AttentionParams extends Paging {
  /** of the caches */
  readonly type: CacheType
  readonly rows: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  /** each row has a sequence of its own, so that rows share no keys */
  readonly apart: boolean
  readonly scale: number
  /** how many of the latest positions a row sees; 0: all */
  readonly window: number
  /** scores become cap * tanh(score / cap); 0: none */
  readonly softcap: number
}

/** Below every score; finite, so that differences of two of them are no NaN. */
export const LOWEST = -1e30

/** After every key: the first one of rows that see none. */
export const NOTHING = 0xffff_ffff

/** Parameters of a kernel whose caches have this storage. */
export const attentionParams = <T extends 'f32' | 'u32'>(storage: T) =>
  ({
    q: buffer('f32', 'read'),
    keys: buffer(storage, 'read'),
    values: buffer(storage, 'read'),
    y: buffer('f32', 'write'),
    ...PAGING,
    heads: uniform('u32'),
    group: uniform('u32'),
    dim: uniform('u32'),
    window: uniform('u32'),
    scale: uniform('f32'),
    softcap: uniform('f32'),
  }) as const

/** Two neighbouring elements of a cache, by the number of the pair. */
export type Pair = (index: Value<'u32'>) => Value<'f32x2'>

interface Caches {
  readonly keys: Readable<'f32' | 'u32', Uniformity>
  readonly values: Readable<'f32' | 'u32', Uniformity>
  readonly heads: Value<'u32', 'uniform'>
  readonly group: Value<'u32', 'uniform'>
  readonly dim: Value<'u32', 'uniform'>
  readonly capacity: Value<'u32', 'uniform'>
}

export function pairs(type: CacheType, p: Caches): { key: Pair; value: Pair } {
  const reader = (cache: Caches['keys']): Pair => {
    if (type === 'f32') return (index) => cache.load(index.mul(2), 2) as Value<'f32x2'>
    const words = cache as Readable<'u32', Uniformity>
    if (type === 'f16') return (index) => words.at(index).unpackF16()
    const scales = p.heads.div(p.group).mul(p.capacity).mul(p.dim.shr(2))
    return (index) => {
      const four = words.at(index.shr(1)).unpackI8().to('f32')
      const scale = words.at(scales.add(index.div(CACHE_BLOCK / 2))).as('f32')
      return index.and(1).eq(0).select(four.slice(0, 2), four.slice(2, 2)).mul(scale)
    }
  }
  return { key: reader(p.keys), value: reader(p.values) }
}

/** Values of those uniforms. */
export function attentionUniforms(params: AttentionParams): Record<string, number> {
  const { heads, kvHeads, headDim, window, scale, softcap } = params
  return { heads, group: heads / kvHeads, dim: headDim, window, scale, softcap, ...pagingUniforms(params) }
}

/** Where this workgroup's head and row are, and which keys the row sees. */
export function locate(
  k: Scope,
  p: PageTable & {
    positions: Readable<'u32', 'uniform'>
    slots: Readable<'u32', 'uniform'>
    heads: Value<'u32', 'uniform'>
    group: Value<'u32', 'uniform'>
    dim: Value<'u32', 'uniform'>
    capacity: Value<'u32', 'uniform'>
    context: Value<'u32', 'uniform'>
    window: Value<'u32', 'uniform'>
  },
  head: Value<'u32', 'uniform'> = k.workgroupId.x,
) {
  const row = k.workgroupId.y
  const { first, last } = seen(p.positions.at(row), p)
  return {
    /** first element of q and y */
    start: k.let('start', row.mul(p.heads).add(head).mul(p.dim)),
    /** first row of the caches */
    cache: k.let('cache', head.div(p.group).mul(p.capacity)),
    slot: k.let('slot', p.slots.at(row)),
    from: k.let('from', first),
    to: k.let('to', last.add(1)),
    half: k.let('half', p.dim.shr(1)),
  }
}

/** The first and last key that the row at this position sees. */
export function seen<U extends Uniformity>(
  position: Value<'u32', U>,
  { context, window }: { context: Value<'u32', 'uniform'>; window: Value<'u32', 'uniform'> },
): { first: Value<'u32', U>; last: Value<'u32', U> } {
  const last = position.min(context.sub(1)) as Value<'u32', U>
  const hidden = last.add(1).sub(window.min(last.add(1))) as Value<'u32', U>
  return { first: window.gt(0).select(hidden, 0) as Value<'u32', U>, last }
}

/** A score, or several, with the model's cap, if it has one: written into the kernel only then, since tanh is dear. */
export function capped<D extends 'f32' | Vector<'f32'>>(k: LaneScope, score: Value<D>, cap: boolean, softcap: Value<'f32'>): Value<D> {
  return cap ? k.let('score', score.div(softcap.like(score)).tanh().mul(softcap.like(score))) : score
}

/** The same decided by the uniform, for kernels that are compiled ahead of time: a branch that always goes one way costs little. */
export function cappedIf<D extends 'f32' | Vector<'f32'>>(k: LaneScope, score: Value<D>, softcap: Value<'f32', 'uniform'>): Value<D> {
  const result = k.var('score', score)
  k.when(softcap.gt(0), () => result.set(capped(k, score, true, softcap)))
  return result.get()
}
