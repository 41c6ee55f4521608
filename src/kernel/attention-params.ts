// What all forms of attention share: parameters, buffers, where a workgroup's head and row are, and the softcap.

import { type LaneScope, type Readable, type Scope, buffer, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import type { Work } from './record.ts'

export interface AttentionParams {
  /** of the caches */
  readonly type: 'f32' | 'f16'
  readonly rows: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  /** positions the caches hold */
  readonly capacity: number
  readonly scale: number
  /** how many of the latest positions a row sees; 0: all */
  readonly window: number
  /** scores become cap * tanh(score / cap); 0: none */
  readonly softcap: number
}

/** Below every score; finite, so that differences of two of them are no NaN. */
export const LOWEST = -1e30

/** Parameters of a kernel whose caches have this storage. */
export const attentionParams = <T extends 'f32' | 'u32'>(storage: T) =>
  ({
    q: buffer('f32', 'read'),
    keys: buffer(storage, 'read'),
    values: buffer(storage, 'read'),
    positions: buffer('u32', 'read'),
    y: buffer('f32', 'write'),
    heads: uniform('u32'),
    group: uniform('u32'),
    dim: uniform('u32'),
    capacity: uniform('u32'),
    window: uniform('u32'),
    scale: uniform('f32'),
    softcap: uniform('f32'),
  }) as const

/** Two neighbouring elements of a cache, by the number of the pair. */
export type Pair = (index: Value<'u32'>) => Value<'f32x2'>
export function pairs(type: 'f32' | 'f16', cache: Readable<'f32' | 'u32', Uniformity>): Pair {
  return type === 'f16'
    ? (index) => (cache.at(index) as Value<'u32'>).unpackF16()
    : (index) => cache.load(index.mul(2), 2) as Value<'f32x2'>
}

/** One dispatch over heads and rows. */
export function launchAttention(written: Kernel, p: AttentionParams): Work {
  const { heads, kvHeads, headDim, capacity, window, scale, softcap } = p
  return {
    launches: [
      {
        kernel: written,
        uniforms: { heads, group: heads / kvHeads, dim: headDim, capacity, window, scale, softcap },
        grid: [heads, p.rows, 1],
      },
    ],
  }
}

/** Where this workgroup's head and row are, and which keys the row sees. */
export function locate(
  k: Scope,
  p: {
    positions: Readable<'u32', 'uniform'>
    heads: Value<'u32', 'uniform'>
    group: Value<'u32', 'uniform'>
    dim: Value<'u32', 'uniform'>
    capacity: Value<'u32', 'uniform'>
    window: Value<'u32', 'uniform'>
  },
  head: Value<'u32', 'uniform'> = k.workgroupId.x,
) {
  const row = k.workgroupId.y
  const last = p.positions.at(row).min(p.capacity.sub(1))
  const hasFirst = p.window.gt(0).and(last.ge(p.window))
  return {
    /** first element of q and y */
    start: k.let('start', row.mul(p.heads).add(head).mul(p.dim)),
    /** first row of the caches */
    cache: k.let('cache', head.div(p.group).mul(p.capacity)),
    from: k.let('from', hasFirst.select(last.sub(p.window).add(1), k.const('u32', 0))),
    to: k.let('to', last.add(1)),
    half: k.let('half', p.dim.shr(1)),
  }
}

/** The first and last key that the row at this position sees. */
export function seen<U extends Uniformity>(
  position: Value<'u32', U>,
  { capacity, window }: { capacity: Value<'u32', 'uniform'>; window: Value<'u32', 'uniform'> },
): { first: Value<'u32', U>; last: Value<'u32', U> } {
  const last = position.min(capacity.sub(1)) as Value<'u32', U>
  const hidden = last.add(1).sub(window.min(last.add(1))) as Value<'u32', U>
  return { first: window.gt(0).select(hidden, 0) as Value<'u32', U>, last }
}

/** A score, or several, with the model's cap, if it has one: written into the kernel only then, since tanh is dear. */
export function capped<D extends 'f32' | 'f32x4' | 'f32x16'>(
  k: LaneScope,
  score: Value<D>,
  params: AttentionParams,
  softcap: Value<'f32'>,
): Value<D> {
  return params.softcap > 0
    ? k.let(
        'score',
        score
          .div(softcap as never)
          .tanh()
          .mul(softcap as never),
      )
    : score
}
