// Attention where lanes are loops and there are queries enough to fill a vector: lanes are queries, so no sum runs across them. A
// workgroup takes some queries (rows and heads) that share one key head and walks the keys that any of them sees in blocks. Keys, then
// values of a block are widened into scratch once for all; from there each number is multiplied with a vector of queries or weights.

/* oxlint-disable typescript/no-non-null-assertion -- lists of values are indexed by counters of lists of the same length */

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type Scope, type Shared, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type Form, isCpu } from '../family.ts'
import { combinations, template } from '../template.ts'
import { CACHE_TYPES, type CacheType } from './cache-type.ts'
import { type ReadCache, cpuBinds, cpuParams, cpuUniforms, readersOf } from './cpu.ts'
import { eachSequence, placeOf } from './pages.ts'
import { type AttentionParams, LOWEST, NOTHING, cappedIf, seen } from './params.ts'

/** keys of a block, all in one page: their numbers, and the queries', stay in the first-level cache */
const BLOCK = 32
const MOST_DIM = 256
/** heads are made of this many */
const DIM_STEP = 16
/** sums that a loop holds in registers */
const SUMS = 8
/** bytes to the next block of keys of usual heads: to be fetched while this one is computed with */
const AHEAD = 4096
const NARROW: readonly Width[] = [4, 8, 16]

type Vec = VectorOf<'f32'>

/** The queries that a workgroup takes. */
interface QueryTile {
  readonly width: Width
  readonly vectors: number
}

/** What a kernel is written for. `wide`: the widest vector, with which keys and values are brought to scratch. */
interface LanesTraits extends QueryTile {
  readonly type: CacheType
  readonly wide: Width
}

export const attentionLanes: Form<AttentionParams> = {
  name: 'queries as lanes',
  fits: (caps, params) => isCpu(caps) && queryTile(caps, params) !== undefined,
  work: (caps, params) => {
    const { type, rows, heads, kvHeads } = params
    const tile = queryTile(caps, params) ?? { width: caps.width, vectors: 1 }
    const kernel = lanes({ type, ...tile, wide: caps.width })
    const queries = rows * (heads / kvHeads)
    const grid = [Math.ceil(queries / (tile.width * tile.vectors)), kvHeads, 1] as const
    return { launches: [{ kernel, uniforms: { ...cpuUniforms(params), rows }, grid, ...cpuBinds(type) }] }
  },
  kernels: (caps) => {
    const tiles = [wideTile(caps), ...NARROW.filter((width) => width <= caps.width).map((width) => ({ width, vectors: 1 }))]
    return tiles.flatMap((tile) =>
      combinations<Omit<LanesTraits, keyof QueryTile>>({ type: CACHE_TYPES, wide: [caps.width] }).map((traits) =>
        lanes({ ...traits, ...tile }),
      ),
    )
  },
}

const wideTile = ({ width }: Caps): QueryTile => ({ width, vectors: 2 })

/** The queries that a workgroup takes, as vectors; undefined if this form does not serve. */
function queryTile(caps: Caps, { rows, heads, kvHeads, headDim, apart }: AttentionParams): QueryTile | undefined {
  const { width, parallel, sharedBytes } = caps
  if (headDim % DIM_STEP !== 0 || headDim > MOST_DIM) return undefined
  const group = heads / kvHeads
  const queries = rows * group
  const fits = (tile: QueryTile): boolean =>
    scratchBytes(tile) <= sharedBytes && kvHeads * Math.ceil(queries / (tile.vectors * tile.width)) >= 2 * parallel
  const wide = wideTile(caps)
  if (apart && rows > 1) {
    // Only queries of the same row share keys.
    const narrow = NARROW.filter((some) => some <= width).map((some) => ({ width: some, vectors: 1 }))
    return [wide, ...narrow.toReversed()].find((tile) => group % (tile.width * tile.vectors) === 0 && fits(tile))
  }
  if (queries >= 2 * width && fits(wide)) return wide
  // Narrow vectors take less time than half empty ones.
  const own = NARROW.find((some) => some >= Math.min(queries, width)) ?? width
  const narrow = { width: own, vectors: 1 }
  return 4 * queries >= 3 * own && fits(narrow) ? narrow : undefined
}

function scratchBytes({ width, vectors }: QueryTile): number {
  return 4 * (width * vectors * (2 * MOST_DIM + BLOCK + 4) + BLOCK * MOST_DIM)
}

const lanes = template<LanesTraits>({ family: 'attention', form: 'queries as lanes' }, ({ type, width, vectors, wide }, kernel) => {
  const lanes = width * vectors
  const parts = Array.from({ length: vectors }, (_, i) => i * width) // where each vector begins among the lanes
  const params = { ...cpuParams(type), rows: uniform('u32') }
  return kernel(`attention_${type}_lanes${lanes}`, { params }, (p, k) => {
    const [starts, owners] = [k.shared('starts', 'u32', lanes), k.shared('owners', 'u32', lanes)]
    const [firsts, lasts, lows] = [k.shared('firsts', 'u32', lanes), k.shared('lasts', 'u32', lanes), k.shared('lows', 'u32', lanes)]
    const [queries, result] = [k.shared('queries', 'f32', MOST_DIM * lanes), k.shared('result', 'f32', MOST_DIM * lanes)] // [dim][lanes]
    const scores = k.shared('scores', 'f32', BLOCK * lanes) // [key][lanes]
    const staged = k.shared('staged', 'f32', BLOCK * MOST_DIM) // [key][dim]
    const begin = k.let('begin', k.workgroupId.x.mul(lanes))
    const keyHead = k.workgroupId.y
    const total = k.let('total', p.rows.mul(p.group))
    k.for({ name: 'lane', to: lanes }, (lane) => {
      // Lanes past the last query repeat it.
      const query = k.let('query', begin.add(lane).min(total.sub(1)))
      const row = k.let('row', query.div(p.group))
      const start = k.let('start', row.mul(p.heads).add(keyHead.mul(p.group)).add(query.rem(p.group)).mul(p.dim))
      const { first, last } = seen(p.positions.at(row), p)
      starts.set(lane, start)
      firsts.set(lane, first)
      lasts.set(lane, last)
      owners.set(lane, p.slots.at(row))
      k.for({ name: 'd', to: p.dim }, (d) => {
        queries.set(d.mul(lanes).add(lane), p.q.at(start.add(d)).mul(p.scale))
        result.set(d.mul(lanes).add(lane), 0)
      })
    })
    const read = (memory: Shared<'f32'>, at: Value<'u32'>): Vec => memory.load(at, width)
    const { key, value } = readersOf(p, wide)
    const tops = parts.map(() => k.var('top', k.const('f32', LOWEST).splat(width)))
    const sums = parts.map(() => k.var('sum', k.const('f32', 0).splat(width)))
    const walk = (slot: Value<'u32'>): void => {
      const [from, to] = [k.var('from', p.context), k.var('to', k.const('u32', 0))]
      k.for({ name: 'lane', to: lanes }, (lane) => {
        // Queries of other sequences see none of these keys.
        lows.set(lane, NOTHING)
        k.when(owners.at(lane).eq(slot), () => {
          lows.set(lane, firsts.at(lane))
          from.set(from.get().min(firsts.at(lane)))
          to.set(to.get().max(lasts.at(lane).add(1)))
        })
      })
      const ranges = parts.map((part) => {
        const [first, last] = [lows, lasts].map((memory) => k.let('range', memory.load(k.const('u32', part), width)))
        return { first: first!, last: last! }
      })
      k.for({ name: 'aligned', from: from.get().sub(from.get().rem(BLOCK)), to: to.get(), step: BLOCK }, (aligned) => {
        const block = k.let('block', aligned.max(from.get()))
        const count = k.let('count', to.get().min(aligned.add(BLOCK)).sub(block))
        const numbers = k.let('numbers', count.mul(p.dim))
        const origin = k.let(
          'origin',
          keyHead
            .mul(p.capacity)
            .add(placeOf(p, slot, block))
            .mul(p.dim),
        )
        const stage = (cache: ReadCache): void =>
          k.for({ name: 'i', to: numbers, step: wide }, (i) => staged.store(i, cache(origin.add(i), { ahead: AHEAD })))

        stage(key)
        const mosts = parts.map(() => k.var('most', k.const('f32', LOWEST).splat(width)))
        const together = SUMS / vectors
        k.for({ name: 'j', to: count, step: together }, (j) => {
          const rowsAt = Array.from({ length: together }, (_, i) => k.let('row', j.add(i).min(count.sub(1)).mul(p.dim)))
          const dots = multiply(k, { width, parts, items: together, to: p.dim }, (d) => ({
            vector: (part) => read(queries, d.mul(lanes).add(part)),
            scalar: (i) => staged.at(item(rowsAt, i).add(d)),
          }))
          dots.forEach((columns, i) =>
            columns.forEach((dot, v) => {
              const key = block.add(j).add(i)
              const visible = item(ranges, v).first.le(key).and(item(ranges, v).last.ge(key))
              const score = k.let('score', visible.select(cappedIf(k, dot.get(), p.softcap), LOWEST))
              scores.store(j.add(i).mul(lanes).add(item(parts, v)), score)
              item(mosts, v).set(item(mosts, v).get().max(score))
            }),
          )
        })
        const decays = parts.map((part, v) => {
          const best = k.let('best', item(tops, v).get().max(item(mosts, v).get()))
          const decay = k.let('decay', item(tops, v).get().sub(best).exp())
          const sum = k.var('sum', item(sums, v).get().mul(decay))
          k.for({ name: 'j', to: count }, (j) => {
            const at = j.mul(lanes).add(part)
            const weight = k.let('weight', read(scores, at).sub(best).exp())
            scores.store(at, weight)
            sum.set(sum.get().add(weight))
          })
          item(sums, v).set(sum.get())
          item(tops, v).set(best)
          return decay
        })

        stage(value)
        k.for({ name: 'd', to: p.dim, step: together }, (d) => {
          const place = (i: number, v: number): Value<'u32'> => d.add(i).mul(lanes).add(item(parts, v))
          const blends = multiply(
            k,
            { width, parts, items: together, to: count, from: (i, v) => read(result, place(i, v)).mul(item(decays, v)) },
            (j) => ({
              vector: (part) => read(scores, j.mul(lanes).add(part)),
              scalar: (i) => staged.at(j.mul(p.dim).add(d).add(i)),
            }),
          )
          blends.forEach((columns, i) => columns.forEach((blend, v) => result.store(place(i, v), blend.get())))
        })
      })
    }
    const rows = { from: begin.div(p.group), to: begin.add(lanes).min(total).sub(1).div(p.group).add(1) }
    eachSequence(k, p.slots, { from: k.let('firstRow', rows.from), to: k.let('endRow', rows.to) }, walk)
    const inverses = k.shared('inverses', 'f32', lanes)
    parts.forEach((part, v) => inverses.store(k.const('u32', part), k.const('f32', 1).splat(width).div(item(sums, v).get())))
    k.for({ name: 'lane', to: total.sub(begin).min(lanes) }, (lane) => {
      const [start, inverse] = [k.let('start', starts.at(lane)), k.let('inverse', inverses.at(lane))]
      k.for({ name: 'd', to: p.dim }, (d) => p.y.set(start.add(d), result.at(d.mul(lanes).add(lane)).mul(inverse)))
    })
  })
})

interface Factors {
  vector(part: number): Vec
  scalar(item: number): Value<'f32'>
}

/** Sums of [items] scalars times [parts] vectors over a loop, all in registers. */
function multiply(
  k: Scope,
  {
    width,
    parts,
    items,
    to,
    from,
  }: {
    width: Width
    parts: readonly number[]
    items: number
    to: Value<'u32'>
    from?: (item: number, part: number) => Vec
  },
  factors: (at: Value<'u32'>) => Factors,
) {
  const zero = k.const('f32', 0).splat(width)
  const sums = Array.from({ length: items }, (_, i) => parts.map((_part, v) => k.var('sum', from?.(i, v) ?? zero)))
  k.for({ name: 'at', to }, (at) => {
    const { vector, scalar } = factors(at)
    const vectors = parts.map((part) => k.let('vector', vector(part)))
    sums.forEach((columns, i) => {
      const one = k.let('one', scalar(i))
      columns.forEach((sum, v) => sum.set(item(vectors, v).fma(one.splat(width), sum.get())))
    })
  })
  return sums
}
