// Attention of few rows over a long cache, with subgroups (decoding). Keys are split among workgroups, so that one row fills a
// GPU: each keeps the running maximum, sum and result of its share, and a second kernel merges the shares. How many shares there
// are is fixed; how many keys each has depends on the row's position, and a share without keys is neutral.
// A few lanes hold a key together, so that a subgroup scores several keys at once and sums over two or three shuffles only.

import { item } from '../../base/list.ts'
import { type Scope, buffer } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type GpuTraits, SHARED_PARAMS, cacheOf, gpuTraits, nameOf, uniformsOf } from './gpu.ts'
import { placeOf } from './pages.ts'
import { type AttentionParams, LOWEST, capped, seen } from './params.ts'

/** largest number of rows that this form is meant for */
export const DECODE_ROWS = 8
/** keys of one row that are worth a workgroup */
const SHARE = 256
const MOST_SHARES = 32
/** Keys that a lane has in flight. Small subgroups are those of emulated GPUs, which gain nothing by it but longer compilation. */
const aheadFor = (subgroup: number): number => (subgroup >= 16 ? 2 : 1)

interface ShareTraits extends GpuTraits {
  readonly f16: boolean
  readonly subgroup: number
  /** lanes that hold one key together */
  readonly team: number
  readonly shares: number
}
type MergeTraits = Pick<ShareTraits, 'headDim' | 'shares'>

export const attentionDecode: Form<AttentionParams> = {
  name: 'decode',
  fits: (caps, { rows, headDim, apart }) =>
    isGpu(caps) && (apart || rows <= DECODE_ROWS) && caps.subgroup > 1 && headDim % 4 === 0 && headDim <= 512,
  work: (caps, params) => {
    const { rows, heads, context, headDim } = params
    let team = 1
    while (2 * team <= Math.min(16, caps.subgroup, headDim / 16)) team *= 2
    const most = Math.min(Math.ceil(context / SHARE), MOST_SHARES, Math.ceil((8 * caps.parallel) / (heads * rows)))
    const shares = Math.max(1, most)
    const kernel = share({ ...gpuTraits(params), f16: caps.f16, subgroup: caps.subgroup, team, shares })
    const scores = { kernel, uniforms: uniformsOf(params), grid: [heads, rows, shares] } as const
    if (shares === 1) return { launches: [scores] }
    const parts = rows * heads * shares
    return {
      launches: [scores, { kernel: merge({ headDim, shares }), uniforms: {}, grid: [heads, rows, 1] }],
      scratch: { partial: 4 * parts * headDim, state: 8 * parts },
    }
  },
}

const share = template<ShareTraits>({ family: 'attention', form: 'decode', stage: 'share' }, (traits, kernel) => {
  const { headDim, cap, f16, subgroup, team, shares } = traits
  const lanes = Math.max(32, 4 * subgroup)
  const fours = headDim / 4
  const cache = cacheOf(traits, f16)
  const slots = lanes / team // keys scored at once
  const ahead = aheadFor(subgroup)
  const params = {
    q: buffer('f32x4', 'read'),
    keys: cache.storage,
    values: cache.storage,
    ...(shares > 1 ? { partial: buffer('f32x4', 'write'), state: buffer('f32x2', 'write') } : {}),
    ...(shares === 1 ? { y: buffer('f32x4', 'write') } : {}),
    ...SHARED_PARAMS,
  }
  return kernel(`attention_${nameOf(traits)}${shares > 1 ? `_of${shares}` : ''}`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const [head, row] = [k.workgroupId.x, k.workgroupId.y]
    const start = k.let('start', head.div(p.group).mul(p.capacity)) // first row of the caches
    const { key, value } = cache.readers(p)
    const slot = k.let('slot', p.slots.at(row))
    const { from, to } = shareOf(k, seen(p.positions.at(row), p), shares, slots * ahead)
    const part = k.let('part', k.sublane.and(team - 1))
    const turn = k.let('turn', k.lane.div(team))
    const queryAt = k.let('queryAt', row.mul(p.heads).add(head).mul(fours))
    const places = Array.from({ length: Math.ceil(fours / team) }, (_, i) => place(k, part, i, team, fours))
    const query = places.map(([at, exists]) => {
      const four = p.q.at(queryAt.add(at)).mul(p.scale)
      return k.let('query', exists === undefined ? four : exists.select(four, 0))
    })
    const [top, sum] = [k.var('top', k.const('f32', LOWEST)), k.var('sum', k.const('f32', 0))]
    const results = query.map(() => k.var('result', k.const('f32', 0).splat(4)))

    k.for({ name: 'block', from, to, step: slots * ahead }, (block) => {
      const keys = Array.from({ length: ahead }, (_, i) => {
        const j = k.let('j', block.add(turn).add(i * slots))
        const at = k.let('at', start.add(placeOf(p, slot, j.min(to.sub(1)))).mul(fours))
        const products = query.map((four, i) => [four, key(at.add(item(places, i)[0]))] as const)
        const [[a, b], ...rest] = products as [(typeof products)[0], ...typeof products]
        let dot: Value<'f32'> = k.let('dot', rest.reduce((total, [c, d]) => total.add(c.mul(d)), a.mul(b)).hsum())
        for (let mask = 1; mask < team; mask *= 2) dot = k.let('dot', dot.add(k.subShuffleXor(dot, mask)))
        const exists = k.let('exists', j.lt(to))
        return { at, exists, score: k.let('score', exists.select(capped(k, dot, cap, p.softcap), LOWEST)) }
      })
      const best = k.let(
        'best',
        keys.reduce((all, { score }) => all.max(score), top.get()),
      )
      const decay = k.let('decay', top.get().sub(best).exp())
      const weights = keys.map(({ exists, score }) => k.let('weight', exists.select(score.sub(best).exp(), 0)))
      top.set(best)
      sum.set(weights.reduce((all, weight) => all.add(weight), sum.get().mul(decay)))
      results.forEach((result, i) => {
        const values = keys.map(({ at }) => value(at.add(item(places, i)[0])))
        result.set(values.reduce((all, value, turn) => all.add(value.mul(item(weights, turn))), result.get().mul(decay)))
      })
    })

    // The teams of a subgroup, then the subgroups of the workgroup become one.
    const best = k.let('best', k.subMax(top.get()))
    const factor = k.let('factor', top.get().sub(best).exp())
    const total = k.let('total', k.subSum(sum.get().mul(factor)).mul(1 / team))
    const joined = results.map((result) => {
      let value: Value<'f32x4'> = k.let('joined', result.get().mul(factor))
      for (let mask = team; mask < subgroup; mask *= 2) value = k.let('joined', value.add(k.subShuffleXor(value, mask)))
      return value
    })
    const groups = lanes / subgroup
    const [tops, sums] = [k.shared('tops', 'f32', groups), k.shared('sums', 'f32', groups)]
    const parts = k.shared('parts', 'f32x4', groups * fours)
    k.when(k.sublane.lt(team), (k) =>
      joined.forEach((value, i) => {
        const [at, exists] = item(places, i)
        const write = (): void => parts.set(k.subgroupId.mul(fours).add(at), value)
        if (exists === undefined) write()
        else k.when(exists, write)
      }),
    )
    k.when(k.sublane.eq(0), (k) => {
      tops.set(k.subgroupId, best)
      sums.set(k.subgroupId, total)
    })
    k.barrier()
    const number = k.let('number', row.mul(p.heads).add(head).mul(shares).add(k.workgroupId.z))
    const merged = mergeParts(
      k,
      {
        count: groups,
        lanes,
        fours,
        top: (g) => tops.at(g),
        sum: (g) => sums.at(g),
        part: (g, i) => parts.at(g.mul(fours).add(i)),
      },
      (i, value, sumOfAll) => {
        if (p.y === undefined) p.partial?.set(number.mul(fours).add(i), value)
        else p.y.set(number.mul(fours).add(i), value.div(sumOfAll))
      },
    )
    const { state } = p
    if (state !== undefined) k.when(k.lane.eq(0), () => state.set(number, k.vec(merged.best, merged.sum)))
  })
})

/** The i-th four of a lane's part of a head, kept within it, and whether it is there at all if that is not certain. */
function place(
  k: Scope,
  part: Value<'u32'>,
  i: number,
  team: number,
  fours: number,
): [at: Value<'u32'>, exists: Value<'bool'> | undefined] {
  const at = k.let('four', part.add(i * team))
  return (i + 1) * team <= fours ? [at, undefined] : [k.let('four', at.min(fours - 1)), at.lt(fours)]
}

/** The keys of this workgroup: an equal share in whole blocks, as many as there are. */
function shareOf(
  k: Scope,
  { first, last }: { first: Value<'u32', 'uniform'>; last: Value<'u32', 'uniform'> },
  shares: number,
  block: number,
): { from: Value<'u32', 'uniform'>; to: Value<'u32', 'uniform'> } {
  const end = k.let('end', last.add(1))
  if (shares === 1) return { from: k.let('from', first), to: end }
  const each = k.let(
    'each',
    end
      .sub(first)
      .add(shares * block - 1)
      .div(shares * block)
      .mul(block),
  )
  const from = k.let('from', first.add(k.workgroupId.z.mul(each)).min(end))
  return { from, to: k.let('to', from.add(each).min(end)) }
}

interface Parts {
  readonly count: number
  readonly lanes: number
  readonly fours: number
  top(part: Value<'u32'>): Value<'f32'>
  sum(part: Value<'u32'>): Value<'f32'>
  part(part: Value<'u32'>, four: Value<'u32'>): Value<'f32x4'>
}

/** Brings parts with their own maxima to one maximum and adds them; lanes share the fours of a head. */
function mergeParts(
  k: Scope,
  { count, lanes, fours, top, sum, part }: Parts,
  write: (four: Value<'u32'>, value: Value<'f32x4'>, sum: Value<'f32'>) => void,
): { best: Value<'f32'>; sum: Value<'f32'> } {
  const best = k.var('best', k.const('f32', LOWEST))
  k.for({ name: 'g', to: count }, (g) => best.set(best.get().max(top(g))))
  const highest = k.let('highest', best.get())
  const all = k.var('all', k.const('f32', 0))
  k.for({ name: 'g', to: count }, (g) => all.set(all.get().add(sum(g).mul(top(g).sub(highest).exp()))))
  const total = k.let('total', all.get())
  k.for({ name: 'i', from: k.lane, to: fours, step: lanes }, (i) => {
    const value = k.var('value', k.const('f32', 0).splat(4))
    k.for({ name: 'g', to: count }, (g) => value.set(value.get().add(part(g, i).mul(top(g).sub(highest).exp()))))
    write(i, value.get(), total)
  })
  return { best: highest, sum: total }
}

/** One workgroup per head and row: its shares become the result. */
const merge = template<MergeTraits>({ family: 'attention', form: 'decode', stage: 'merge' }, ({ headDim, shares }, kernel) => {
  const fours = headDim / 4
  let lanes = 32
  while (lanes < fours) lanes *= 2
  const params = { partial: buffer('f32x4', 'read'), state: buffer('f32x2', 'read'), y: buffer('f32x4', 'write') }
  return kernel(`attention_merge_d${headDim}_of${shares}`, { params, workgroup: [lanes] }, (p, k) => {
    const number = k.let('number', k.workgroupId.y.mul(k.gridSize.x).add(k.workgroupId.x))
    const first = k.let('first', number.mul(shares))
    const parts: Parts = {
      count: shares,
      lanes,
      fours,
      top: (g) => p.state.at(first.add(g)).lane(0),
      sum: (g) => p.state.at(first.add(g)).lane(1),
      part: (g, i) => p.partial.at(first.add(g).mul(fours).add(i)),
    }
    mergeParts(k, parts, (i, value, sum) => p.y.set(number.mul(fours).add(i), value.div(sum)))
  })
})
