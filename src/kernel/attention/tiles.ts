// Attention of many rows with 8x8 matrix tiles (prefill). Each subgroup takes eight rows of one head and walks the keys that any of
// them sees, 32 at a time: scores are products of tiles, weights are made of them in workgroup memory, results stay in tiles.
// Keys and values are read as tiles straight from the caches; nothing is shared between subgroups, so there is no workgroup barrier.
// Keys that a tile has beyond those seen weigh nothing, so that what lies there must be finite: unused pages hold zeros or old numbers.
// Accumulators, queries and weights are f32; a result is scaled by a product with a diagonal tile, and only when a maximum has risen.

import { item } from '../../base/list.ts'
import { type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type GpuTraits, SHARED_PARAMS, gpuTraits, nameOf, uniformsOf } from './gpu.ts'
import { eachSequence, placeOf } from './pages.ts'
import { type AttentionParams, LOWEST, NOTHING, capped, seen } from './params.ts'

const SIDE = 8
/** tiles of keys per step */
const TILES = 4
const KEYS = TILES * SIDE
const SUBGROUPS = 4
/** up to this headDim the queries stay in registers */
const HELD_DIM = 128

const SUBGROUP = 32

export const attentionTiles: Form<AttentionParams> = {
  name: 'tiles',
  fits: (caps, { type, rows, headDim, apart }) =>
    type !== 'q8_0' &&
    isGpu(caps) &&
    caps.tiles &&
    caps.subgroup === SUBGROUP &&
    headDim % SIDE === 0 &&
    headDim <= 256 &&
    rows >= SIDE &&
    !apart,
  work: (_caps, params) => {
    const { rows, heads, type } = params
    if (type === 'q8_0') throw new TypeError('bytes are no elements of tiles')
    const grid = [Math.ceil(rows / (SIDE * SUBGROUPS)), heads, 1] as const
    return { launches: [{ kernel: tiles({ ...gpuTraits(params), type }), uniforms: { rows, ...uniformsOf(params) }, grid }] }
  },
}

type TileTraits = GpuTraits & { readonly type: 'f32' | 'f16' }

const tiles = template<TileTraits>({ family: 'attention', form: 'tiles' }, (traits, kernel) => {
  const { type, headDim, cap } = traits
  const params = {
    q: buffer('f32', 'read'),
    keys: buffer(type, 'read'),
    values: buffer(type, 'read'),
    y: buffer('f32', 'write'),
    rows: uniform('u32'),
    ...SHARED_PARAMS,
  }
  return kernel(`attention_${nameOf(traits)}_tiles`, { params, workgroup: [SUBGROUP * SUBGROUPS], subgroup: SUBGROUP }, (p, k) => {
    const scores = k.shared('scores', 'f32', SUBGROUPS * SIDE * KEYS)
    const diagonal = k.shared('diagonal', 'f32', SUBGROUPS * SIDE * SIDE)
    const begin = k.let('begin', k.workgroupId.x.mul(SUBGROUPS).add(k.subgroupId).mul(SIDE))
    k.when(begin.lt(p.rows), () => {
      // The last eight rows may overlap the eight before: tiles cannot end early. What is not ours is not stored.
      const firstRow = k.let('firstRow', begin.min(p.rows.sub(SIDE)))
      const head = k.workgroupId.y
      const stride = k.let('stride', p.heads.mul(headDim))
      const start = k.let('start', firstRow.mul(stride).add(head.mul(headDim)))
      const cache = k.let('cache', head.div(p.group).mul(p.capacity))
      const [mine, mineDiagonal] = [k.let('mine', k.subgroupId.mul(SIDE * KEYS)), k.let('mineDiagonal', k.subgroupId.mul(SIDE * SIDE))]
      // In the softmax four lanes have a row, and each the eight keys of one tile.
      const [row, quarter] = [k.let('row', k.sublane.shr(2)), k.let('quarter', k.sublane.and(3))]
      const keys = seen(p.positions.at(firstRow.add(row)), p)
      const [own, last] = [k.let('own', p.slots.at(firstRow.add(row))), k.let('last', keys.last)]
      for (const half of [0, 32]) diagonal.set(mineDiagonal.add(k.sublane).add(half), 0)
      k.subgroupBarrier()

      const columns = Array.from({ length: headDim / SIDE }, (_, i) => SIDE * i)
      const held = headDim <= HELD_DIM ? columns.map((column) => k.let('query', p.q.tile(start.add(column), stride))) : []
      const results = columns.map(() => k.var('result', k.tileFill('f32', 0)))
      const [top, sum] = [k.var('top', k.const('f32', LOWEST)), k.var('sum', k.const('f32', 0))]
      const scale = (factor: Value<'f32'>): void => {
        k.when(quarter.eq(0), () => diagonal.set(mineDiagonal.add(row.mul(SIDE + 1)), factor))
        k.subgroupBarrier()
      }
      const rescale = (): void => {
        const factors = k.let('factors', diagonal.tile(mineDiagonal, SIDE))
        const zero = k.let('zero', k.tileFill('f32', 0))
        for (const result of results) result.set(k.tileMma(factors, result.get(), zero))
      }

      const walk = (slot: Value<'u32'>): void => {
        /** rows of other sequences see none of these keys */
        const first = k.let('first', own.eq(slot).select(keys.first, NOTHING))
        const to = k.let('to', k.let('latest', k.subMax(own.eq(slot).select(last, 0))).add(1))
        // Tiles of keys do not cross the border of a page: they begin at multiples of their size.
        const from = k.let('from', k.let('earliest', k.subMin(first)).div(SIDE).mul(SIDE))
        const lastTile = k.let('lastTile', to.sub(1).div(SIDE).mul(SIDE))
        const tileAt = (block: Value<'u32'>, tile: Value<'u32'>): Value<'u32'> =>
          k.let('at', cache.add(placeOf(p, slot, block.add(tile.mul(SIDE)).min(lastTile))).mul(headDim))
        k.for({ name: 'block', from, to, step: KEYS }, (block) => {
          k.for({ name: 'tile', to: TILES, unroll: true }, (tile) => {
            const at = tileAt(block, tile)
            const score = k.var('score', k.tileFill('f32', 0))
            columns.forEach((column, i) => {
              const query = held[i] ?? p.q.tile(start.add(column), stride)
              score.set(k.tileMma(query, k.let('key', p.keys.tile(at.add(column), headDim, { transposed: true })), score.get()))
            })
            scores.setTile(mine.add(tile.mul(SIDE)), KEYS, score.get())
          })
          k.subgroupBarrier()

          const place = k.let('place', mine.add(row.mul(KEYS)).add(quarter.mul(SIDE)))
          const firstKey = k.let('firstKey', block.add(quarter.mul(SIDE)))
          const tileKey = k.let('tileKey', firstKey.min(lastTile))
          const low = k.let('low', firstKey.max(first))
          // The eight keys of the tile as two vectors.
          const halves = [0, 4].map((half) => {
            const key = k.let(
              'key',
              tileKey
                .add(half)
                .splat(4)
                .add(k.vec(k.const('u32', 0), k.const('u32', 1), k.const('u32', 2), k.const('u32', 3))),
            )
            const exists = k.let('exists', key.ge(low).and(key.le(last)))
            return {
              half,
              exists,
              score: k.let('score', exists.select(capped(k, scores.load(place.add(half), 4).mul(p.scale), cap, p.softcap), LOWEST)),
            }
          })
          const most = k.let('most', item(halves, 0).score.max(item(halves, 1).score).hmax().max(top.get()))
          const ofPair = k.let('ofPair', most.max(k.subShuffleXor(most, 1)))
          const best = k.let('best', ofPair.max(k.subShuffleXor(ofPair, 2)))
          const decay = k.let('decay', top.get().sub(best).exp())
          const weights = halves.map(({ half, exists, score }) => {
            const weight = k.let('weight', exists.select(score.sub(best).exp(), 0))
            scores.store(place.add(half), weight)
            return weight
          })
          sum.set(
            sum
              .get()
              .mul(decay)
              .add(item(weights, 0).add(item(weights, 1)).hsum()),
          )
          top.set(best)
          scale(decay)
          k.when(k.let('risen', k.subAny(decay.lt(1))), rescale)

          k.for({ name: 'tile', to: TILES, unroll: true }, (tile) => {
            const at = tileAt(block, tile)
            const weight = k.let('weights', scores.tile(mine.add(tile.mul(SIDE)), KEYS))
            columns.forEach((column, i) => {
              const value = k.let('value', p.values.tile(at.add(column), headDim))
              item(results, i).set(k.tileMma(weight, value, item(results, i).get()))
            })
          })
          k.subgroupBarrier()
        })
      }
      eachSequence(k, p.slots, { from: firstRow, to: firstRow.add(SIDE) }, walk)

      const pairSum = k.let('pairSum', sum.get().add(k.subShuffleXor(sum.get(), 1)))
      scale(k.const('f32', 1).div(pairSum.add(k.subShuffleXor(pairSum, 2))))
      rescale()
      k.when(
        begin.eq(firstRow),
        () => {
          columns.forEach((column, i) => p.y.setTile(start.add(column), stride, item(results, i).get()))
        },
        () => {
          columns.forEach((column, i) =>
            storePart(k, item(results, i).get(), scores, mine, (lane, value) => {
              k.when(firstRow.add(row).ge(begin), () =>
                p.y.set(
                  start
                    .add(row.mul(stride))
                    .add(column + lane)
                    .add(quarter.mul(2)),
                  value,
                ),
              )
            }),
          )
        },
      )
    })
  })
})

/** A tile by its elements: each lane has two neighbours of the row `sublane / 4`. */
function storePart(
  k: Scope,
  tile: Value<'f32t'>,
  memory: ReturnType<typeof k.shared<'f32'>>,
  mine: Value<'u32'>,
  store: (lane: number, value: Value<'f32'>) => void,
): void {
  memory.setTile(mine, SIDE, tile)
  k.subgroupBarrier()
  const at = mine.add(k.sublane.mul(2))
  for (const lane of [0, 1]) store(lane, memory.at(at.add(lane)))
  k.subgroupBarrier()
}
