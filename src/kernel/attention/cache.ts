// What changes in place between tokens: rows written into a key or value cache at their positions, and counters moved on.
// Caches of halves and bytes are written as words, so that no device needs smaller stores. Positions of one sequence are distinct in a
// call; a row whose position lies past the context is skipped.

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { type Handles, type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { fours, toBytes } from '../bytes.ts'
import { type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import {
  CACHE_BLOCK,
  CACHE_TYPES,
  type CacheType,
  cacheBytes,
  cacheShape,
  cachedValues,
  canCache,
  putQuantized,
  randomCache,
} from './cache-type.ts'
import { PAGE, PAGING, type Paging, pagingBuffers, pagingUniforms, placeIn, placeOf, randomTable } from './pages.ts'

export interface CacheWriteParams extends Paging {
  readonly type: CacheType
  readonly rows: number
  readonly heads: number
  readonly headDim: number
}

/** elements that are written together */
function unitOf(type: CacheType): number {
  return type === 'q8_0' ? CACHE_BLOCK : 2
}

const CACHE = (type: CacheType) => ({
  cache: buffer(type === 'f32' ? 'f32' : 'u32', 'readwrite'),
  x: buffer('f32', 'read'),
  heads: uniform('u32'),
  units: uniform('u32'),
  ...PAGING,
})

/** A workgroup per row and head. */
const byHead = template<{ readonly type: CacheType }>({ family: 'cacheWrite', form: 'heads' }, ({ type }, kernel) =>
  kernel(`cacheWrite_${type}`, { params: CACHE(type) }, (p, k) => {
    const [row, head] = [k.workgroupId.x, k.workgroupId.y]
    const position = p.positions.at(row)
    k.when(position.lt(p.context), () => {
      const from = k.let('from', row.mul(p.heads).add(head).mul(p.units))
      const place = placeOf(p, p.slots.at(row), position)
      const to = k.let('to', head.mul(p.capacity).add(place).mul(p.units))
      k.for({ name: 'unit', to: p.units }, (unit) => writeUnit(k, type, p, from.add(unit), to.add(unit)))
    })
  }),
)

/** A lane per unit. */
const byUnit = template<{ readonly type: CacheType; readonly lanes: number }>(
  { family: 'cacheWrite', form: 'units' },
  ({ type, lanes }, kernel) =>
    kernel(`cacheWrite_${type}`, { params: { ...CACHE(type), total: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
      const from = k.let('from', flatLane(k, lanes))
      k.when(from.lt(p.total), (k) => {
        const head = k.let('head', from.div(p.units)) // counted over all rows
        const row = k.let('row', head.div(p.heads))
        const position = k.let('position', p.positions.at(row))
        k.when(position.lt(p.context), (k) => {
          const place = placeOf(p, p.slots.at(row), position)
          writeUnit(k, type, p, from, head.rem(p.heads).mul(p.capacity).add(place).mul(p.units).add(from.rem(p.units)))
        })
      })
    }),
)

/** Copies one unit; `from` and `to` count units. */
function writeUnit(k: LaneScope, type: CacheType, p: Handles<ReturnType<typeof CACHE>>, from: Value<'u32'>, to: Value<'u32'>): void {
  const { x, cache } = p
  if (type !== 'q8_0') {
    const pair = x.load(from.mul(2), 2)
    if (type === 'f16') cache.set(to, pair.packF16())
    else cache.store(to.mul(2), pair)
    return
  }
  const values = Array.from({ length: CACHE_BLOCK / 4 }, (_, i) => k.let('values', x.load(from.mul(CACHE_BLOCK).add(4 * i), 4)))
  const { scale, quants } = toBytes(k, values)
  quants.flatMap(fours).forEach((four, i) => cache.set(to.mul(CACHE_BLOCK / 4).add(i), four.packI8()))
  cache.set(
    p.heads
      .mul(p.capacity)
      .mul(p.units)
      .mul(CACHE_BLOCK / 4)
      .add(to),
    scale.as('u32'),
  )
}

export const cacheWrite = family<CacheWriteParams>({
  name: 'cacheWrite',
  about: 'rows written into the pages of a cache [heads, pages * 64, headDim] at their positions',
  // A device may round the last bit of a half either way, and a byte whose value lies between two.
  tolerance: ({ type }) => ({ f32: 0, f16: 1e-7, q8_0: 1e-6 })[type],
  cases: [
    { type: 'f16', rows: 3, heads: 2, headDim: 64, context: 16, slots: 1, pages: 2 },
    { type: 'f32', rows: 3, heads: 2, headDim: 64, context: 100, slots: 2, pages: 6 },
    { type: 'f16', rows: 1, heads: 5, headDim: 6, context: 3, slots: 1, pages: 2 },
    { type: 'f32', rows: 7, heads: 1, headDim: 2, context: 5, slots: 1, pages: 3 },
    { type: 'q8_0', rows: 5, heads: 2, headDim: 64, context: 70, slots: 3, pages: 7 },
    { type: 'q8_0', rows: 7, heads: 1, headDim: 32, context: 5, slots: 1, pages: 2 },
  ],
  buffers: ({ type, rows, heads, headDim, ...paging }) => [
    { name: 'cache', role: 'inout', ...cacheShape(type, heads * paging.pages * PAGE * headDim) },
    { name: 'x', role: 'in', type: 'f32', elements: rows * heads * headDim },
    ...pagingBuffers(rows, paging),
  ],
  // From the middle on; the longest case runs past the end.
  inputs: ({ type, rows, heads, headDim, ...paging }, random) => ({
    positions: Uint32Array.from({ length: rows }, (_, row) => Math.floor(paging.context / 2) + row),
    slots: Uint32Array.from({ length: rows }, (_, row) => row % paging.slots),
    table: randomTable(paging, random),
    ...(type === 'q8_0' ? { cache: randomCache(heads * paging.pages * PAGE * headDim, random) } : {}),
  }),
  meaning: ({ cache }, { type, heads, headDim, pages }) => ({
    cache: type === 'q8_0' ? cachedValues(cache!, heads * pages * PAGE * headDim) : cache!,
  }),
  forms: [
    {
      name: 'heads',
      fits: isCpu,
      work: (_caps, params) => ({
        launches: [{ kernel: byHead({ type: params.type }), uniforms: uniformsOf(params), grid: [params.rows, params.heads, 1] }],
      }),
      kernels: () => CACHE_TYPES.map((type) => byHead({ type })),
    },
    { name: 'units', fits: isGpu, work: unitsWork },
  ],
  cost: ({ type, rows, heads, headDim }) => ({
    operations: 0,
    arithmetic: 'f32',
    bytes: 4 * rows * heads * headDim + cacheBytes(type, rows * heads * headDim),
  }),
  define: ({ cache, x, positions, slots, table }, { type, rows, heads, headDim, context, pages }) => {
    const elements = heads * pages * PAGE * headDim
    const after = type === 'q8_0' ? Uint32Array.from(cache!) : Float32Array.from(cache!)
    for (let row = 0; row < rows; row++) {
      const position = positions![row]!
      if (position >= context) continue
      const place = placeIn(table!, { context }, slots![row]!, position)
      for (let head = 0; head < heads; head++) {
        const from = (row * heads + head) * headDim
        const [values, at] = [x!.subarray(from, from + headDim), (head * pages * PAGE + place) * headDim]
        if (after instanceof Uint32Array) putQuantized(after, elements, at, values)
        else after.set(values, at)
      }
    }
    return { cache: after }
  },
})

function uniformsOf({ type, heads, headDim, ...paging }: CacheWriteParams): Record<string, number> {
  if (!canCache(type, headDim)) {
    throw new IngotError('bad-argument', `heads of ${type} are multiples of ${unitOf(type)}`, { op: 'cacheWrite', got: headDim })
  }
  return { heads, units: headDim / unitOf(type), ...pagingUniforms(paging) }
}

function unitsWork(caps: Caps, params: CacheWriteParams): Work {
  const total = (params.rows * params.heads * params.headDim) / unitOf(params.type)
  const { lanes } = teamFor(caps, total)
  const uniforms = { ...uniformsOf(params), total }
  return { launches: [{ kernel: byUnit({ type: params.type, lanes }), uniforms, grid: flatGrid(caps, Math.ceil(total / lanes)) }] }
}
