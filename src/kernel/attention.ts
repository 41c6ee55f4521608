// Attention over a cache, with grouped heads and a causal mask: row r of q sees keys max(0, p - window + 1) .. p, p being its position.
// Scores are taken a block of keys at a time with a running maximum, so memory does not grow with the context.
// y = softmax(cap(scale * q . k)) . v. Caches are [kvHeads, capacity, headDim] in f32, or in f16 two to a word.

import type { Caps } from '../base/caps.ts'
import { kernel } from '../ir/author.ts'
import { type AttentionParams, attentionParams, cap, launchAttention, locate, pairs } from './attention-params.ts'
import { attentionSerial } from './attention-serial.ts'
import { combineLanes } from './lanes.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

/** keys per step: one per lane on GPUs */
const BLOCK = 64

const base = { type: 'f32', rows: 1, heads: 4, kvHeads: 2, headDim: 64, capacity: 128, scale: 0.125, window: 0, softcap: 0 } as const
export const attention: KernelRecord<AttentionParams> = {
  name: 'attention',
  about: 'attention over a key and value cache, with grouped heads, causal mask and sliding window',
  tolerance: 1e-6,
  cases: [
    base,
    { ...base, type: 'f16' },
    { ...base, rows: 7, headDim: 80, capacity: 113, scale: 0.11 },
    { ...base, rows: 3, heads: 8, kvHeads: 1, headDim: 8, type: 'f16' },
    { ...base, rows: 5, window: 9, type: 'f16', heads: 2, headDim: 128 },
    { ...base, rows: 2, softcap: 20, scale: 2, heads: 2 },
    { ...base, rows: 1, heads: 2, kvHeads: 2, headDim: 256, capacity: 300 },
    { ...base, rows: 3, heads: 16, kvHeads: 2, headDim: 64, capacity: 200, type: 'f16' },
  ],
  buffers: ({ type, rows, heads, kvHeads, headDim, capacity }) => [
    { name: 'q', role: 'in', type: 'f32', elements: rows * heads * headDim },
    { name: 'keys', role: 'in', type, elements: kvHeads * capacity * headDim },
    { name: 'values', role: 'in', type, elements: kvHeads * capacity * headDim },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'f32', elements: rows * heads * headDim },
  ],
  /** the last rows of the cache, so that every block is walked */
  inputs: ({ rows, capacity }) => ({ positions: Uint32Array.from({ length: rows }, (_, row) => capacity - rows + row) }),
  work: (caps, params) => (caps.lanes === 1 ? attentionSerial(caps, params) : shared(caps, params)),
  define,
}

function define({ q, keys, values, positions }: Arrays, { rows, heads, kvHeads, headDim, capacity, scale, window, softcap }: AttentionParams): Arrays {
  const y = new Float32Array(rows * heads * headDim)
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < heads; head++) {
      const at = (row * heads + head) * headDim
      const cache = Math.floor(head / (heads / kvHeads)) * capacity
      const last = positions![row]!
      const first = window > 0 ? Math.max(0, last - window + 1) : 0
      const scores = Array.from({ length: last - first + 1 }, (_, j) => {
        let dot = 0
        for (let d = 0; d < headDim; d++) dot += q![at + d]! * keys![(cache + first + j) * headDim + d]!
        return softcap > 0 ? softcap * Math.tanh((dot * scale) / softcap) : dot * scale
      })
      const top = Math.max(...scores)
      const weights = scores.map((score) => Math.exp(score - top))
      const sum = weights.reduce((a, b) => a + b, 0)
      for (let d = 0; d < headDim; d++) {
        y[at + d] = weights.reduce((total, weight, j) => total + weight * values![(cache + first + j) * headDim + d]!, 0) / sum
      }
    }
  }
  return { y }
}

/** One workgroup per head and row. A lane scores one key of a block, then owns some dimensions of the result. */
function shared(caps: Caps, params: AttentionParams): Work {
  const lanes = BLOCK
  const owned = Math.ceil(params.headDim / 2 / lanes) // pairs of dimensions per lane
  const written = kernel(`attention_${params.type}${owned > 1 ? `_d${owned * lanes * 2}` : ''}`, {
    params: attentionParams(params.type === 'f16' ? 'u32' : 'f32'), workgroup: [lanes], ...(caps.subgroup > 0 ? { subgroup: caps.subgroup } : {}),
  }, (p, k) => {
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
        score.set(cap(dot.get().hsum().mul(p.scale), p.softcap))
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
  })
  return launchAttention(written, params)
}
