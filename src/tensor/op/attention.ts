// Operations of attention: rotary positions, writing into the cache, and attention over it.

import { attention } from '../../kernel/attention/attention.ts'
import { CACHE_TYPES, type CacheType } from '../../kernel/attention/cache-type.ts'
import { cacheWrite } from '../../kernel/attention/cache.ts'
import { PAGE } from '../../kernel/attention/pages.ts'
import { rope } from '../../kernel/attention/rope.ts'
import { type TensorNode, sizeOf } from '../node.ts'
import { checkAxes, checkFinite, checkSize, checkType, checkWhole, checkWord, fail, show } from '../operand.ts'
import { last } from '../shape.ts'
import type { Operation } from './operation.ts'

const rowsOf = (shape: readonly number[]): number => sizeOf(shape) / last(shape)

/** The size of a head of x [n, heads * dim]: heads share a row evenly, and elements are read in pairs. */
function headSize(op: string, x: TensorNode, heads: number): number {
  checkWhole(op, 'the number of heads', heads, 1)
  const dim = last(x.shape) / heads
  if (!Number.isInteger(dim) || dim % 2 !== 0) fail(op, 'rows do not hold whole heads', show(x), `${heads} heads of an even size`)
  return dim
}

/** The type of a cache, in its own layout where it has one. */
function cacheType(op: string, name: string, { dtype, ...node }: TensorNode): CacheType {
  const found = CACHE_TYPES.find((type) => type === dtype)
  const isCache = node.op !== 'leaf' || node.attrs.layout === 'cache' || dtype !== 'q8_0'
  return found !== undefined && isCache ? found : fail(op, `wrong type of ${name}`, dtype, CACHE_TYPES.join(' or '))
}

/** Checks what says where rows lie in a cache, and gives the sizes of it. */
function pagingOf(op: string, cache: TensorNode, rows: number, [positions, slots, table]: readonly [TensorNode, TensorNode, TensorNode]) {
  for (const [name, node] of [
    ['positions', positions],
    ['slots', slots],
  ] as const) {
    checkType(op, name, node, 'u32')
    checkSize(op, name, node, rows)
  }
  checkType(op, 'the table', table, 'u32')
  checkAxes(op, 'the table', table, [undefined, undefined])
  const positionsOfPool = cache.shape[1] ?? 0
  if (positionsOfPool % PAGE !== 0) fail(op, 'a cache has whole pages', show(cache), `a multiple of ${PAGE} positions`)
  return { context: (table.shape[1] ?? 0) * PAGE, slots: table.shape[0] ?? 0, pages: positionsOfPool / PAGE }
}

export const ATTENTION: { readonly [O in 'rope' | 'cacheWrite' | 'attention']: Operation<O> } = {
  rope: {
    about: 'x [n, heads * dim] turned by positions [n] times frequencies [dims / 2]',
    infer: ([x, positions, freqs], { style, heads, dims, magnitude }) => {
      checkType('rope', 'x', x, 'f32', 'f16', 'bf16')
      checkWord('rope', 'style', style, ['adjacent', 'half'])
      const dim = headSize('rope', x, heads)
      checkWhole('rope', 'the number of dimensions', dims, 2, dim)
      if (dims % 2 !== 0) fail('rope', 'dimensions come in pairs', dims, 'an even number')
      checkType('rope', 'positions', positions, 'u32')
      checkSize('rope', 'positions', positions, rowsOf(x.shape))
      checkType('rope', 'frequencies', freqs, 'f32')
      checkSize('rope', 'frequencies', freqs, dims / 2)
      checkFinite('rope', 'the magnitude', magnitude)
      return { shape: x.shape, dtype: x.dtype }
    },
    /** turned back by the same angles */
    gradient: ({ src: [, positions, freqs], cotangent, attrs }) => [cotangent.rope(positions, freqs.neg(), attrs), undefined, undefined],
    lower: ({ shape, attrs }, caps) => rope.work(caps, { ...attrs, rows: rowsOf(shape), headDim: last(shape) / attrs.heads }),
    inputs: () => ['x', 'positions', 'freqs'],
  },

  cacheWrite: {
    about:
      'cache [heads, pages * 64, dim] with x [n, heads * dim] written at positions [n] of the pages that table [slots, n] gives slots [n]',
    infer: ([cache, x, ...places], { heads }) => {
      checkType('cacheWrite', 'x', x, 'f32')
      cacheType('cacheWrite', 'the cache', cache)
      checkAxes('cacheWrite', 'the cache', cache, [heads, undefined, headSize('cacheWrite', x, heads)])
      pagingOf('cacheWrite', cache, rowsOf(x.shape), places)
      return { shape: cache.shape, dtype: cache.dtype }
    },
    lower: ({ src: [cache, x, ...places], attrs: { heads } }, caps) =>
      cacheWrite.work(caps, {
        type: cacheType('cacheWrite', 'the cache', cache),
        rows: rowsOf(x.shape),
        heads,
        headDim: last(x.shape) / heads,
        ...pagingOf('cacheWrite', cache, rowsOf(x.shape), places),
      }),
    inputs: () => ['cache', 'x', 'positions', 'slots', 'table'],
    inPlace: () => 0,
  },

  attention: {
    about: 'q [n, heads * dim], keys and values [kvHeads, pages * 64, dim]: each row sees its sequence up to its position',
    infer: ([q, keys, values, ...places], { heads, scale, window, softcap }) => {
      checkType('attention', 'q', q, 'f32')
      cacheType('attention', 'the keys', keys)
      checkAxes('attention', 'the keys', keys, [undefined, undefined, headSize('attention', q, heads)])
      if (values.dtype !== keys.dtype) fail('attention', 'wrong type of the values', values.dtype, keys.dtype)
      checkAxes('attention', 'the values', values, keys.shape)
      const [kvHeads = 1] = keys.shape
      if (heads % kvHeads !== 0) fail('attention', 'heads do not share keys evenly', heads, `a multiple of ${kvHeads}`)
      pagingOf('attention', keys, rowsOf(q.shape), places)
      checkFinite('attention', 'the scale', scale)
      checkWhole('attention', 'the window', window, 0)
      checkFinite('attention', 'the softcap', softcap, 0)
      return { shape: q.shape, dtype: 'f32' }
    },
    define: ([q, keys, values, positions, slots, table], { heads, scale, window, softcap }) => {
      const [kvHeads = 1, , dim = 1] = keys.shape
      const [n, group, perSlot] = [q.size / (heads * dim), heads / kvHeads, table.shape[1] ?? 0]
      const context = perSlot * PAGE
      const pages = table.gather(slots.reshape(n), 0).reshape(n, perSlot, 1)
      const places = pages
        .mul(PAGE)
        .add(q.indices([1, 1, PAGE], 2))
        .reshape(n * context)
      /** what the rows' sequences have in a cache: [n, kvHeads, 1, context, dim] */
      const ownOf = (cache: typeof q): typeof q =>
        cache.to('f32').gather(places, 1).reshape(kvHeads, n, 1, context, dim).permute(1, 0, 2, 3, 4)
      const scored = q.reshape(n, kvHeads, group, 1, dim).mul(ownOf(keys)).sum(-1).mul(scale)
      const capped = softcap > 0 ? scored.div(softcap).tanh().mul(softcap) : scored // [n, kvHeads, group, context]
      const j = q.indices([1, 1, 1, context], 3)
      const latest = positions.reshape(n, 1, 1, 1)
      const upTo = j.le(latest)
      const seen = window > 0 ? upTo.and(j.add(window).gt(latest)) : upTo
      const weights = seen.where(capped, -1e30).softmax().reshape(n, kvHeads, group, context, 1)
      return weights
        .mul(ownOf(values))
        .sum(3)
        .reshape(...q.shape)
    },
    lower: ({ src: [q, keys, , ...places], attrs }, caps) =>
      attention.work(caps, {
        ...attrs,
        type: cacheType('attention', 'the keys', keys),
        rows: rowsOf(q.shape),
        kvHeads: keys.shape[0] ?? 1,
        headDim: last(keys.shape),
        ...pagingOf('attention', keys, rowsOf(q.shape), places),
      }),
    inputs: () => ['q', 'keys', 'values', 'positions', 'slots', 'table'],
  },
}
