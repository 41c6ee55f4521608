// Attention where lanes are loops and there are queries enough to fill a vector: lanes are queries, so no sum runs across them. A
// workgroup takes some queries (rows and heads) that share one key head and walks the keys that any of them sees in blocks. Keys, then
// values of a block are widened into scratch once for all; from there each number is multiplied with a vector of queries or weights.

import type { Caps } from '../base/caps.ts'
import type { Width } from '../base/dtype.ts'
import { type Readable, type Scope, type Shared, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { type AttentionParams, LOWEST, attentionParams, capped, seen } from './attention-params.ts'
import type { Work } from './record.ts'

/** keys of a block: their numbers, and the queries', stay in the first-level cache */
const BLOCK = 32
const MOST_DIM = 256
/** heads are made of this many */
const DIM_STEP = 16
/** sums that a loop holds in registers */
const SUMS = 8
/** bytes to the next block of keys of usual heads: to be fetched while this one is computed with */
const AHEAD = 4096
const WIDTHS: readonly Width[] = [4, 8, 16]

type Vec = Value<'f32x16'>

interface Tile {
  readonly width: Width
  readonly vectors: number
}

/** The queries that a workgroup takes, as vectors; undefined if this form does not serve. */
export function queryTile({ width, parallel, sharedBytes }: Caps, { rows, heads, kvHeads, headDim }: AttentionParams): Tile | undefined {
  if (headDim % DIM_STEP !== 0 || headDim > MOST_DIM) return undefined
  const queries = rows * (heads / kvHeads)
  const fits = (tile: Tile): boolean =>
    scratchBytes(tile) <= sharedBytes && kvHeads * Math.ceil(queries / (tile.vectors * tile.width)) >= 2 * parallel
  const wide = { width, vectors: 2 }
  if (queries >= 2 * width && fits(wide)) return wide
  // Narrow vectors take less time than half empty ones.
  const own = WIDTHS.find((some) => some >= Math.min(queries, width)) ?? width
  const narrow = { width: own, vectors: 1 }
  return 4 * queries >= 3 * own && fits(narrow) ? narrow : undefined
}

function scratchBytes({ width, vectors }: Tile): number {
  return 4 * (width * vectors * (2 * MOST_DIM + BLOCK + 4) + BLOCK * MOST_DIM)
}

export function attentionLanes(caps: Caps, params: AttentionParams, { width, vectors }: Tile): Work {
  const { type, rows, heads, kvHeads, headDim, capacity, window, scale, softcap } = params
  const lanes = width * vectors
  const parts = Array.from({ length: vectors }, (_, i) => i * width) // where each vector begins among the lanes
  const group = heads / kvHeads
  const written = kernel(
    `attention_${type}_lanes${lanes}`,
    {
      params: { ...attentionParams('f32'), keys: buffer(type, 'read'), values: buffer(type, 'read'), rows: uniform('u32') },
      variant: `${width} ${vectors} ${caps.width}${softcap > 0 ? ' cap' : ''}`,
    },
    (p, k) => {
      const starts = k.shared('starts', 'u32', lanes)
      const [firsts, lasts] = [k.shared('firsts', 'u32', lanes), k.shared('lasts', 'u32', lanes)]
      const [queries, result] = [k.shared('queries', 'f32', MOST_DIM * lanes), k.shared('result', 'f32', MOST_DIM * lanes)] // [dim][lanes]
      const scores = k.shared('scores', 'f32', BLOCK * lanes) // [key][lanes]
      const staged = k.shared('staged', 'f32', BLOCK * MOST_DIM) // [key][dim]
      const begin = k.let('begin', k.workgroupId.x.mul(lanes))
      const keyHead = k.workgroupId.y
      const total = k.let('total', p.rows.mul(p.group))
      const [from, to] = [k.var('from', p.capacity), k.var('to', k.const('u32', 0))]
      k.for({ name: 'lane', to: lanes }, (lane) => {
        // Lanes past the last query repeat it.
        const query = k.let('query', begin.add(lane).min(total.sub(1)))
        const row = k.let('row', query.div(p.group))
        const start = k.let('start', row.mul(p.heads).add(keyHead.mul(p.group)).add(query.rem(p.group)).mul(p.dim))
        const { first, last } = seen(p.positions.at(row), p)
        starts.set(lane, start)
        firsts.set(lane, first)
        lasts.set(lane, last)
        from.set(from.get().min(first))
        to.set(to.get().max(last.add(1)))
        k.for({ name: 'd', to: p.dim }, (d) => {
          queries.set(d.mul(lanes).add(lane), p.q.at(start.add(d)).mul(p.scale))
          result.set(d.mul(lanes).add(lane), 0)
        })
      })
      const ranges = parts.map((part) => {
        const [first, last] = [firsts, lasts].map((memory) =>
          k.let('range', memory.load(k.const('u32', part), width) as never as Value<'u32x16'>),
        )
        return { first: first!, last: last! }
      })
      const read = (memory: Shared<'f32'>, at: Value<'u32'>): Vec => memory.load(at, width) as never
      const tops = parts.map(() => k.var('top', k.const('f32', LOWEST).splat(width) as never as Vec))
      const sums = parts.map(() => k.var('sum', k.const('f32', 0).splat(width) as never as Vec))
      k.for({ name: 'block', from: from.get(), to: to.get(), step: BLOCK }, (block) => {
        const count = k.let('count', to.get().sub(block).min(BLOCK))
        const numbers = k.let('numbers', count.mul(p.dim))
        const origin = k.let('origin', keyHead.mul(p.capacity).add(block).mul(p.dim))
        const stage = (memory: Readable<'f32' | 'f16', Uniformity>): void =>
          k.for({ name: 'i', to: numbers, step: caps.width }, (i) =>
            staged.store(i, memory.load(origin.add(i), caps.width, { ahead: AHEAD }).to('f32') as never),
          )

        stage(p.keys)
        const mosts = parts.map(() => k.var('most', k.const('f32', LOWEST).splat(width) as never as Vec))
        const together = SUMS / vectors
        k.for({ name: 'j', to: count, step: together }, (j) => {
          const rowsAt = Array.from({ length: together }, (_, i) => k.let('row', j.add(i).min(count.sub(1)).mul(p.dim)))
          const dots = multiply(k, { width, parts, items: together, to: p.dim }, (d) => ({
            vector: (part) => read(queries, d.mul(lanes).add(part)),
            scalar: (i) => staged.at(rowsAt[i]!.add(d)),
          }))
          dots.forEach((columns, i) =>
            columns.forEach((dot, v) => {
              const key = block.add(j).add(i)
              const visible = ranges[v]!.first.le(key).and(ranges[v]!.last.ge(key))
              const score = k.let('score', visible.select(capped(k, dot.get(), params, p.softcap), LOWEST))
              scores.store(j.add(i).mul(lanes).add(parts[v]!), score as never)
              mosts[v]!.set(mosts[v]!.get().max(score))
            }),
          )
        })
        const decays = parts.map((part, v) => {
          const best = k.let('best', tops[v]!.get().max(mosts[v]!.get()))
          const decay = k.let('decay', tops[v]!.get().sub(best).exp())
          const sum = k.var('sum', sums[v]!.get().mul(decay))
          k.for({ name: 'j', to: count }, (j) => {
            const at = j.mul(lanes).add(part)
            const weight = k.let('weight', read(scores, at).sub(best).exp())
            scores.store(at, weight as never)
            sum.set(sum.get().add(weight))
          })
          sums[v]!.set(sum.get())
          tops[v]!.set(best)
          return decay
        })

        stage(p.values)
        k.for({ name: 'd', to: p.dim, step: together }, (d) => {
          const place = (i: number, v: number): Value<'u32'> => d.add(i).mul(lanes).add(parts[v]!)
          const blends = multiply(
            k,
            { width, parts, items: together, to: count, from: (i, v) => read(result, place(i, v)).mul(decays[v]!) },
            (j) => ({
              vector: (part) => read(scores, j.mul(lanes).add(part)),
              scalar: (i) => staged.at(j.mul(p.dim).add(d).add(i)),
            }),
          )
          blends.forEach((columns, i) => columns.forEach((blend, v) => result.store(place(i, v), blend.get() as never)))
        })
      })
      const inverses = k.shared('inverses', 'f32', lanes)
      parts.forEach((part, v) =>
        inverses.store(
          k.const('u32', part),
          k
            .const('f32', 1)
            .splat(width as 16)
            .div(sums[v]!.get()) as never,
        ),
      )
      k.for({ name: 'lane', to: total.sub(begin).min(lanes) }, (lane) => {
        const [start, inverse] = [k.let('start', starts.at(lane)), k.let('inverse', inverses.at(lane))]
        k.for({ name: 'd', to: p.dim }, (d) => p.y.set(start.add(d), result.at(d.mul(lanes).add(lane)).mul(inverse)))
      })
    },
  )
  const uniforms = { heads, group, dim: headDim, capacity, window, scale, softcap, rows }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil((rows * group) / lanes), kvHeads, 1] }] }
}

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
    width: number
    parts: readonly number[]
    items: number
    to: Value<'u32'>
    from?: (item: number, part: number) => Vec
  },
  factors: (at: Value<'u32'>) => Factors,
) {
  const zero = k.const('f32', 0).splat(width as 16) as Vec
  const sums = Array.from({ length: items }, (_, i) => parts.map((_part, v) => k.var('sum', from?.(i, v) ?? zero)))
  k.for({ name: 'at', to }, (at) => {
    const { vector, scalar } = factors(at)
    const vectors = parts.map((part) => k.let('vector', vector(part)))
    sums.forEach((columns, i) => {
      const one = k.let('one', scalar(i))
      columns.forEach((sum, v) => sum.set(vectors[v]!.fma(one.splat(width as 16) as never, sum.get())))
    })
  })
  return sums
}
