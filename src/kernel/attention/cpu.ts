// What the CPU forms of attention share: caches of any type, read in vectors of f32.

import type { Width } from '../../base/dtype.ts'
import { type Handles, buffer, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { CACHE_BLOCK, type CacheType } from './cache-type.ts'
import { PAGE } from './pages.ts'
import { type AttentionParams, attentionParams, attentionUniforms } from './params.ts'

/** Parameters of a kernel; bytes have scales, which lie behind them in the same buffer. */
export const cpuParams = (type: CacheType) => ({
  ...attentionParams('f32'),
  keys: buffer(type === 'q8_0' ? 'i8' : type, 'read'),
  values: buffer(type === 'q8_0' ? 'i8' : type, 'read'),
  ...(type === 'q8_0' ? { keyScales: buffer('f32', 'read'), valueScales: buffer('f32', 'read'), scales: uniform('u32') } : {}),
})

/** Which buffers they see. */
export function cpuBinds(type: CacheType): { binds?: Readonly<Record<string, string>> } {
  return type === 'q8_0' ? { binds: { keyScales: 'keys', valueScales: 'values' } } : {}
}

export function cpuUniforms(params: AttentionParams): Record<string, number> {
  const { type, kvHeads, pages, headDim } = params
  return { ...attentionUniforms(params), ...(type === 'q8_0' ? { scales: (kvHeads * pages * PAGE * headDim) / 4 } : {}) }
}

/** `width` elements of a cache from `index` on, which is a multiple of that. */
export type ReadCache = (index: Value<'u32'>, hint?: { ahead: number }) => VectorOf<'f32'>

type Params = Pick<Handles<ReturnType<typeof cpuParams>>, 'keys' | 'values' | 'keyScales' | 'valueScales' | 'scales'>

export function readersOf(p: Params, width: Width): { key: ReadCache; value: ReadCache } {
  const reader =
    (memory: Params['keys'], scales: Params['keyScales']): ReadCache =>
    (index, hint) => {
      const numbers = memory.load(index, width, hint).to('f32')
      if (scales === undefined || p.scales === undefined) return numbers
      return numbers.mul(scales.at(p.scales.add(index.div(CACHE_BLOCK))))
    }
  return { key: reader(p.keys, p.keyScales), value: reader(p.values, p.valueScales) }
}
