// Attention of many rows without matrix tiles (prefill). A workgroup takes sixteen rows of one head and walks the keys that any of
// them sees in blocks: keys, then values of a block are brought to workgroup memory once for all rows. Sixteen lanes share two rows;
// each scores some keys for both, then owns some elements of both results. Needs no subgroups.

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import { type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { DECODE_ROWS } from './decode.ts'
import { type GpuTraits, type ReadFour, SHARED_PARAMS, cacheOf, gpuTraits, nameOf, seenByAny, uniformsOf } from './gpu.ts'
import { eachSequence, placeOf } from './pages.ts'
import { type AttentionParams, LOWEST, NOTHING, capped, seen } from './params.ts'

/** lanes that share two rows */
const TEAM = 16

interface Block {
  readonly rows: number
  readonly keys: number
}
const BLOCKS: readonly [Block, ...Block[]] = [
  { rows: 16, keys: 32 },
  { rows: 16, keys: 16 },
  { rows: 8, keys: 16 },
]

/** The largest block that workgroup memory has room for. */
function blockFor(caps: Caps, { headDim }: AttentionParams): Block | undefined {
  if (headDim % 4 !== 0) return undefined
  const bytes = ({ rows, keys }: Block): number => 4 * (rows * headDim + keys * (headDim + 4) + 2 * rows * keys)
  return BLOCKS.find((block) => bytes(block) <= caps.sharedBytes && lanesOf(block) <= caps.lanes)
}

const lanesOf = ({ rows }: Block): number => (rows / 2) * TEAM

type BlockTraits = GpuTraits & Block & { readonly f16: boolean }

export const attentionBlock: Form<AttentionParams> = {
  name: 'block',
  fits: (caps, params) => isGpu(caps) && params.rows > DECODE_ROWS && !params.apart && blockFor(caps, params) !== undefined,
  work: (caps, params) => {
    const { rows, heads } = params
    const shape = blockFor(caps, params) ?? BLOCKS[0]
    const kernel = block({ ...gpuTraits(params), ...shape, f16: caps.f16 })
    return { launches: [{ kernel, uniforms: { rows, ...uniformsOf(params) }, grid: [Math.ceil(rows / shape.rows), heads, 1] }] }
  },
}

const block = template<BlockTraits>({ family: 'attention', form: 'block' }, (traits, kernel) => {
  const { headDim, cap, f16, rows: ROWS, keys: KEYS } = traits
  const fours = headDim / 4
  const LANES = lanesOf(traits)
  const each = Math.ceil(fours / TEAM)
  /** rows of staged keys stand apart by an odd number of fours, so that lanes reading neighbours do not meet in one bank */
  const pitch = fours + 1 - (fours % 2)
  const cache = cacheOf(traits, f16)
  const params = {
    q: buffer('f32x4', 'read'),
    keys: cache.storage,
    values: cache.storage,
    y: buffer('f32x4', 'write'),
    rows: uniform('u32'),
    ...SHARED_PARAMS,
  }
  return kernel(`attention_${nameOf(traits)}_rows`, { params, workgroup: [LANES] }, (p, k) => {
    const queries = k.shared('queries', 'f32x4', ROWS * fours)
    const staged = k.shared('staged', 'f32x4', KEYS * pitch)
    const [scores, weights] = [k.shared('scores', 'f32', ROWS * KEYS), k.shared('weights', 'f32', ROWS * KEYS)]
    const [begin, head] = [k.let('begin', k.workgroupId.x.mul(ROWS)), k.workgroupId.y]
    const { key, value } = cache.readers(p)
    const rows = { from: begin, to: k.let('end', begin.add(ROWS).min(p.rows)) }
    const start = k.let('start', head.div(p.group).mul(p.capacity))
    const rowOf = (i: Value<'u32'>): Value<'u32'> => begin.add(i).min(p.rows.sub(1))
    const fourOf = (row: Value<'u32'>, i: Value<'u32'>): Value<'u32'> => row.mul(p.heads).add(head).mul(fours).add(i)
    k.for({ name: 'i', from: k.lane, to: ROWS * fours, step: LANES }, (i) => {
      queries.set(i, p.q.at(fourOf(rowOf(i.div(fours)), i.rem(fours))).mul(p.scale))
    })
    const part = k.let('part', k.lane.and(TEAM - 1))
    const pair = k.let('pair', k.lane.div(TEAM).mul(2))
    const mine = [0, 1].map((r) => {
      const row = k.let('row', rowOf(pair.add(r)))
      const { first, last } = seen(p.positions.at(row), p)
      return {
        index: pair.add(r),
        slot: k.let('own', p.slots.at(row)),
        first: k.let('first', first),
        last: k.let('last', last),
        top: k.var('top', k.const('f32', LOWEST)),
        sum: k.var('sum', k.const('f32', 0)),
        results: Array.from({ length: each }, () => k.var('result', k.const('f32', 0).splat(4))),
      }
    })

    const walk = (slot: Value<'u32', 'uniform'>): void => {
      const { from, to } = seenByAny(k, rows, slot, p)
      /** rows of other sequences see none of these keys */
      const firsts = mine.map((row) => k.let('low', row.slot.eq(slot).select(row.first, NOTHING)))
      k.for({ name: 'block', from, to, step: KEYS }, (block) => {
        const stage = (four: ReadFour): void =>
          eachLane(k, LANES, KEYS * fours, (n) => {
            const [key, i] = [n.div(fours), n.rem(fours)]
            staged.set(
              key.mul(pitch).add(i),
              four(
                start
                  .add(placeOf(p, slot, block.add(key).min(to.sub(1))))
                  .mul(fours)
                  .add(i),
              ),
            )
          })
        stage(key)
        k.barrier()
        const own = Array.from({ length: KEYS / TEAM }, (_, i) => k.let('own', part.add(i * TEAM)))
        const dots = mine.map(() => own.map(() => k.var('dot', k.const('f32', 0).splat(4))))
        k.for({ name: 'd', to: fours }, (d) => {
          const keys = own.map((key) => staged.at(key.mul(pitch).add(d)))
          mine.forEach(({ index }, r) => {
            const query = queries.at(index.mul(fours).add(d))
            keys.forEach((key, i) => item(item(dots, r), i).set(item(item(dots, r), i).get().add(key.mul(query))))
          })
        })
        const scored = mine.map(({ index, last }, r) =>
          own.map((key, i) => {
            const j = k.let('j', block.add(key))
            const exists = k.let('exists', j.ge(item(firsts, r)).and(j.le(last)))
            const score = k.let('score', exists.select(capped(k, item(item(dots, r), i).get().hsum(), cap, p.softcap), LOWEST))
            scores.set(index.mul(KEYS).add(key), score)
            return { key, exists, score }
          }),
        )
        k.barrier()
        stage(value)
        const decays = mine.map(({ index, top }, r) => {
          const most = k.var('most', k.const('f32', LOWEST).splat(4))
          k.for({ name: 'i', to: KEYS / 4 }, (i) => most.set(most.get().max(scores.load(index.mul(KEYS).add(i.mul(4)), 4))))
          const best = k.let('best', most.get().hmax().max(top.get()))
          for (const { key, exists, score } of item(scored, r))
            weights.set(index.mul(KEYS).add(key), exists.select(score.sub(best).exp(), 0))
          const decay = k.let('decay', top.get().sub(best).exp())
          top.set(best)
          return decay
        })
        k.barrier()
        mine.forEach(({ sum, results }, r) => {
          const decay = item(decays, r)
          sum.set(sum.get().mul(decay))
          for (const result of results) result.set(result.get().mul(decay))
        })
        k.for({ name: 'j', to: KEYS }, (j) => {
          const values = Array.from({ length: each }, (_, i) => staged.at(j.mul(pitch).add(part.add(i * TEAM).min(fours - 1))))
          mine.forEach(({ index, sum, results }) => {
            const weight = weights.at(index.mul(KEYS).add(j))
            sum.set(sum.get().add(weight))
            results.forEach((result, i) => result.set(result.get().add(item(values, i).mul(weight))))
          })
        })
        k.barrier()
      })
    }
    eachSequence(k, p.slots, rows, walk)

    mine.forEach(({ index, sum, results }) =>
      results.forEach((result, i) => {
        const at = part.add(i * TEAM)
        const row = begin.add(index)
        k.when(at.lt(fours).and(row.lt(p.rows)), () => p.y.set(fourOf(row, at), result.get().div(sum.get())))
      }),
    )
  })
})

/** Shares `count` things among the lanes. */
function eachLane(k: Scope, lanes: number, count: number, visit: (n: Value<'u32'>) => void): void {
  k.for({ name: 'n', from: k.lane, to: count, step: lanes }, (n) => visit(n))
}
