// Attention with one workgroup per head and row: the form for GPUs without subgroups, and for head sizes that the others do not take.
// A lane scores one key of a block, then owns some dimensions of the result.

import type { Caps } from '../base/caps.ts'
import { kernel } from '../ir/author.ts'
import { type AttentionParams, attentionParams, capped, launchAttention, locate, pairs } from './attention-params.ts'
import { combineLanes } from './lanes.ts'
import type { Work } from './record.ts'

/** keys per step: one per lane */
const BLOCK = 64

export function attentionRow(caps: Caps, params: AttentionParams): Work {
  const lanes = BLOCK
  const owned = Math.ceil(params.headDim / 2 / lanes) // pairs of dimensions per lane
  const written = kernel(
    `attention_${params.type}${params.softcap > 0 ? '_cap' : ''}${owned > 1 ? `_d${owned * lanes * 2}` : ''}`,
    {
      params: attentionParams(params.type === 'f16' ? 'u32' : 'f32'),
      workgroup: [lanes],
      ...(caps.subgroup > 0 ? { subgroup: caps.subgroup } : {}),
    },
    (p, k) => {
      const combine = combineLanes(k, caps, lanes)
      const weights = k.shared('weights', 'f32', BLOCK)
      const [key, value] = [pairs(params.type, p.keys), pairs(params.type, p.values)]
      const { start, cache, from, to, half } = locate(k, p)
      const [top, sum] = [k.var('top', k.const('f32', -Infinity)), k.var('sum', k.const('f32', 0))]
      const results = Array.from({ length: owned }, () => k.var('result', k.const('f32', 0).splat(2)))
      k.for({ name: 'block', from, to, step: BLOCK }, (block) => {
        const j = block.add(k.lane)
        const score = k.var('score', k.const('f32', -Infinity))
        k.when(j.lt(to), (inner) => {
          const dot = inner.var('dot', k.const('f32', 0).splat(2))
          const row = inner.let('keyRow', cache.add(j).mul(half))
          inner.for({ name: 'd', to: half }, (d) => dot.set(dot.get().add(key(row.add(d)).mul(p.q.load(start.add(d.mul(2)), 2)))))
          score.set(capped(inner, dot.get().hsum().mul(p.scale), params, p.softcap))
        })
        const best = k.let('best', combine('max', score.get()).max(top.get()))
        const weight = k.let('weight', score.get().sub(best).exp())
        const decay = k.let('decay', top.get().sub(best).exp())
        weights.set(k.lane, weight)
        sum.set(sum.get().mul(decay).add(combine('sum', weight))) // its barriers also publish `weights`
        top.set(best)
        const count = to.sub(block).min(BLOCK)
        results.forEach((result, i) => {
          const d = k.let('d', k.lane.add(i * lanes).min(half.sub(1)))
          result.set(result.get().mul(decay))
          k.for({ name: 'i', to: count }, (i2) => {
            result.set(result.get().add(value(cache.add(block).add(i2).mul(half).add(d)).mul(weights.at(i2))))
          })
        })
        k.barrier()
      })
      results.forEach((result, i) => {
        const d = k.lane.add(i * lanes)
        k.when(d.lt(half), () => p.y.store(start.add(d.mul(2)), result.get().div(sum.get())))
      })
    },
  )
  return launchAttention(written, params)
}
