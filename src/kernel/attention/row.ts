// Attention with one workgroup per head and row: the form for GPUs without subgroups, and for head sizes that the others do not take.
// A lane scores one key of a block, then owns some dimensions of the result.

import { type Form, isGpu } from '../family.ts'
import { combineLanes, teamOf } from '../lanes.ts'
import { template } from '../template.ts'
import type { CacheType } from './cache-type.ts'
import { PAGE, placeOf } from './pages.ts'
import { type AttentionParams, attentionParams, attentionUniforms, capped, locate, pairs } from './params.ts'

/** keys per step: one per lane, all in one page */
const BLOCK = PAGE

interface RowTraits {
  readonly type: CacheType
  readonly cap: boolean
  readonly subgroup: number
  /** pairs of dimensions per lane */
  readonly owned: number
}

export const attentionRow: Form<AttentionParams> = {
  name: 'row',
  fits: isGpu,
  work: (caps, params) => {
    const { type, softcap, headDim, heads, rows } = params
    const { subgroup } = teamOf(caps, BLOCK)
    const kernel = row({ type, cap: softcap > 0, subgroup, owned: Math.ceil(headDim / 2 / BLOCK) })
    return { launches: [{ kernel, uniforms: attentionUniforms(params), grid: [heads, rows, 1] }] }
  },
}

const row = template<RowTraits>({ family: 'attention', form: 'row' }, ({ type, cap, subgroup, owned }, kernel) => {
  const lanes = BLOCK
  return kernel(
    `attention_${type}${cap ? '_cap' : ''}${owned > 1 ? `_d${owned * lanes * 2}` : ''}`,
    { params: attentionParams(type === 'f32' ? 'f32' : 'u32'), workgroup: [lanes], subgroup },
    (p, k) => {
      const combine = combineLanes(k, { lanes, subgroup })
      const weights = k.shared('weights', 'f32', BLOCK)
      const { key, value } = pairs(type, p)
      const { start, cache, slot, from, to, half } = locate(k, p)
      const [top, sum] = [k.var('top', k.const('f32', -Infinity)), k.var('sum', k.const('f32', 0))]
      const results = Array.from({ length: owned }, () => k.var('result', k.const('f32', 0).splat(2)))
      k.for({ name: 'block', from: from.sub(from.rem(BLOCK)), to, step: BLOCK }, (block) => {
        const page = k.let('page', cache.add(placeOf(p, slot, block)))
        const j = block.add(k.lane)
        const score = k.var('score', k.const('f32', -Infinity))
        k.when(j.ge(from).and(j.lt(to)), (inner) => {
          const dot = inner.var('dot', k.const('f32', 0).splat(2))
          const row = inner.let('keyRow', page.add(k.lane).mul(half))
          inner.for({ name: 'd', to: half }, (d) => dot.set(dot.get().add(key(row.add(d)).mul(p.q.load(start.add(d.mul(2)), 2)))))
          score.set(capped(inner, dot.get().hsum().mul(p.scale), cap, p.softcap))
        })
        const best = k.let('best', combine('max', score.get()).max(top.get()))
        const weight = k.let('weight', score.get().sub(best).exp())
        const decay = k.let('decay', top.get().sub(best).exp())
        weights.set(k.lane, weight)
        sum.set(sum.get().mul(decay).add(combine('sum', weight))) // its barriers also publish `weights`
        top.set(best)
        const [begin, end] = [from.max(block).sub(block), to.sub(block).min(BLOCK)]
        results.forEach((result, i) => {
          const d = k.let('d', k.lane.add(i * lanes).min(half.sub(1)))
          result.set(result.get().mul(decay))
          k.for({ name: 'i', from: begin, to: end }, (i2) => {
            result.set(result.get().add(value(page.add(i2).mul(half).add(d)).mul(weights.at(i2))))
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
})
