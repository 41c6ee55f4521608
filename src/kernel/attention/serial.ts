// Attention where lanes are loops. A workgroup takes one row and a few query heads that share their keys: each key and value is loaded
// and widened once for all of them. Keys come in blocks: scores into scratch, a running maximum, then the values of the block.
// Where there are fewer heads than threads, keys are split too: each workgroup keeps the maximum, sum and result of its share, and a
// second kernel merges the shares. A share without keys is neutral.

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import { WIDTHS, type Width } from '../../base/dtype.ts'
import { type Readable, type Scope, type Shared, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { type Form, isCpu } from '../family.ts'
import { combinations, template } from '../template.ts'
import { CACHE_TYPES, type CacheType } from './cache-type.ts'
import { type ReadCache, cpuBinds, cpuParams, cpuUniforms, readersOf } from './cpu.ts'
import { PAGE, placeOf } from './pages.ts'
import { type AttentionParams, LOWEST, cappedIf, locate } from './params.ts'

/** keys of a block, all in one page */
const BLOCK = PAGE
/**
 * What is asked for from memory while a block is read: about the next one, for heads of 64 halves. Keys and values are read in turns, so
 * a processor that waits to see them in order has forgotten one when the other ends. Takes decoding without grouped heads from half of
 * what memory gives to nine tenths.
 */
const NEXT_BLOCK = { ahead: 8192 } as const // bytes
/** largest headDim that the scratch holds */
const MOST_DIM = 512
/** query heads of a workgroup, most first: their sums for two keys stay in registers */
const HEADS_TOGETHER = [8, 4, 2, 1]

/** heads of models are multiples of this */
const LEAST_LISTED = 4

/** keys that are worth a workgroup */
const SHARE = 256

type Vec = VectorOf<'f32'>

/** What a kernel is written for. */
interface ShareTraits {
  readonly type: CacheType
  readonly width: Width
  /** query heads of a workgroup */
  readonly together: number
  /** keys are split among workgroups */
  readonly split: boolean
}

export const attentionSerial: Form<AttentionParams> = {
  name: 'serial',
  fits: isCpu,
  work: (caps, params) => {
    const { type, rows, heads, kvHeads, headDim, context } = params
    const width = dividing(caps.width, headDim)
    const together = headsTogether(caps, heads / kvHeads, kvHeads * rows)
    const shares = Math.max(1, Math.min(Math.ceil(context / SHARE), Math.floor((2 * caps.parallel * together) / (heads * rows))))
    const kernel = share({ type, width, together, split: shares > 1 })
    const uniforms = cpuUniforms(params)
    const grid = [heads / together, rows, shares] as const
    if (shares === 1) return { launches: [{ kernel, uniforms, grid, ...cpuBinds(type) }] }
    const parts = rows * heads * shares
    return {
      launches: [
        { kernel, uniforms: { ...uniforms, shares }, grid, ...cpuBinds(type) },
        { kernel: merge({ width }), uniforms: { dim: headDim, shares }, grid: [heads, rows, 1] },
      ],
      scratch: { partial: 4 * parts * headDim, state: 8 * parts },
    }
  },
  kernels: (caps) => {
    const widths = WIDTHS.filter((width) => width <= caps.width && width >= LEAST_LISTED)
    const all = combinations<ShareTraits>({ type: CACHE_TYPES, width: widths, together: HEADS_TOGETHER, split: [false, true] })
      // keys are split where there are few heads, and those are then taken one by one
      .filter(({ split, together }) => !split || together === 1)
      // heads of bytes are multiples of 32
      .filter(({ type, width }) => type !== 'q8_0' || width === caps.width)
    return [...all.map(share), ...widths.map((width) => merge({ width }))]
  },
}

const share = template<ShareTraits>({ family: 'attention', form: 'serial', stage: 'share' }, (traits, kernel) => {
  const { type, width, together, split } = traits
  const { y, ...inputs } = cpuParams(type)
  const params = {
    ...inputs,
    ...(split ? { partial: buffer('f32', 'write'), state: buffer('f32', 'write'), shares: uniform('u32') } : {}),
    ...(split ? {} : { y }),
  }
  return kernel(`attention_${type}_v${width}_h${together}${split ? '_split' : ''}`, { params }, (p, k) => {
    const scratch = {
      scores: k.shared('scores', 'f32', together * BLOCK),
      result: k.shared('result', 'f32', together * MOST_DIM),
      top: k.shared('top', 'f32', together),
      sum: k.shared('sum', 'f32', together),
      decay: k.shared('decay', 'f32', together),
    }
    // workgroup.x counts groups of `together` heads; all of a group share one key head.
    const { start, cache, slot, from: first, to: last } = locate(k, p, k.workgroupId.x.mul(together))
    const { from, to } = p.shares === undefined ? { from: first, to: last } : shareOf(k, first, last, p.shares)
    const { key, value } = readersOf(p, width)
    k.for({ name: 'h', to: together }, (h) => {
      scratch.top.set(h, k.const('f32', -Infinity))
      scratch.sum.set(h, 0)
      k.for({ name: 'd', to: p.dim }, (d) => scratch.result.set(h.mul(MOST_DIM).add(d), 0))
    })
    const aligned = k.let('aligned', from.sub(from.rem(BLOCK)))
    k.for({ name: 'block', from: aligned, to: from.lt(to).select(to, aligned), step: BLOCK }, (block) => {
      const begin = k.let('begin', block.max(from))
      const count = k.let('count', to.min(block.add(BLOCK)).sub(begin))
      const first = k.let('firstRow', cache.add(placeOf(p, slot, begin)).mul(p.dim))
      scoreBlock(k, { width, together, start, first, count, dim: p.dim, q: p.q, key, scores: scratch.scores }, (dot) =>
        cappedIf(k, dot.mul(p.scale), p.softcap),
      )
      k.for({ name: 'h', to: together }, (h) => weighBlock(k, h, width, scratch))
      blendBlock(k, { width, together, first, count, dim: p.dim, value, ...scratch })
    })
    k.for({ name: 'h', to: together }, (h) => {
      const result = (d: Value<'u32'>): Vec => scratch.result.load(h.mul(MOST_DIM).add(d), width)
      const at = k.let('at', start.add(h.mul(p.dim)))
      if (p.shares === undefined) {
        const inverse = k.let('inverse', k.const('f32', 1).div(scratch.sum.at(h)))
        k.for({ name: 'd', to: p.dim, step: width }, (d) => p.y?.store(at.add(d), result(d).mul(inverse)))
        return
      }
      const number = k.let('number', at.div(p.dim).mul(p.shares).add(k.workgroupId.z))
      k.for({ name: 'd', to: p.dim, step: width }, (d) => p.partial?.store(number.mul(p.dim).add(d), result(d)))
      p.state?.set(number.mul(2), scratch.top.at(h).max(LOWEST))
      p.state?.set(number.mul(2).add(1), scratch.sum.at(h))
    })
  })
})

/** The keys of this workgroup: an equal share in whole blocks, as many as there are. */
function shareOf(k: Scope, first: Value<'u32', 'uniform'>, last: Value<'u32', 'uniform'>, shares: Value<'u32', 'uniform'>) {
  const each = k.let('each', last.sub(first).add(shares.mul(BLOCK)).sub(1).div(shares.mul(BLOCK)).mul(BLOCK))
  const from = k.let('from', first.add(k.workgroupId.z.mul(each)).min(last))
  return { from, to: k.let('to', from.add(each).min(last)) }
}

/** One workgroup per head and row: its shares come to one maximum and become the result. */
const merge = template<{ readonly width: Width }>({ family: 'attention', form: 'serial', stage: 'merge' }, ({ width }, kernel) => {
  const params = {
    partial: buffer('f32', 'read'),
    state: buffer('f32', 'read'),
    y: buffer('f32', 'write'),
    dim: uniform('u32'),
    shares: uniform('u32'),
  }
  return kernel(`attention_merge_v${width}`, { params }, (p, k) => {
    const number = k.let('number', k.workgroupId.y.mul(k.gridSize.x).add(k.workgroupId.x))
    const first = k.let('first', number.mul(p.shares))
    const top = (share: Value<'u32'>): Value<'f32'> => p.state.at(first.add(share).mul(2))
    const best = k.var('best', k.const('f32', LOWEST))
    k.for({ name: 's', to: p.shares }, (s) => best.set(best.get().max(top(s))))
    const sum = k.var('sum', k.const('f32', 0))
    k.for({ name: 's', to: p.shares }, (s) =>
      sum.set(
        top(s)
          .sub(best.get())
          .exp()
          .fma(p.state.at(first.add(s).mul(2).add(1)), sum.get()),
      ),
    )
    k.for({ name: 'd', to: p.dim, step: width }, (d) => {
      const total = k.var('total', k.const('f32', 0).splat(width))
      k.for({ name: 's', to: p.shares }, (s) => {
        const part = p.partial.load(first.add(s).mul(p.dim).add(d), width)
        total.set(part.fma(top(s).sub(best.get()).exp(), total.get()))
      })
      p.y.store(number.mul(p.dim).add(d), total.get().div(sum.get()))
    })
  })
})

type Scratch = Readonly<Record<'scores' | 'result' | 'top' | 'sum' | 'decay', Shared<'f32'>>>

/** Sums that are under way at a time: enough to hide how long one addition takes, and few enough for the registers. */
const UNDER_WAY = 8

interface ScoreBlock {
  readonly width: Width
  readonly together: number
  readonly start: Value<'u32'>
  readonly first: Value<'u32'>
  readonly count: Value<'u32'>
  readonly dim: Value<'u32'>
  readonly q: Readable<'f32', Uniformity>
  readonly key: ReadCache
  readonly scores: Shared<'f32'>
}

/** Scores of a block for all heads, some keys at a time; places past the last key become -inf. */
function scoreBlock(k: Scope, block: ScoreBlock, finish: (dot: Value<'f32'>) => Value<'f32'>): void {
  const { width, together, start, first, count, dim, q, key, scores } = block
  const keys = Math.max(1, UNDER_WAY / together)
  k.for({ name: 'j', to: count, step: keys }, (j) => {
    // Past the last key, that is taken again; its further scores are overwritten below.
    const rows = Array.from({ length: keys }, (_, i) => k.let('row', first.add((i === 0 ? j : j.add(i).min(count.sub(1))).mul(dim))))
    const dots = Array.from({ length: together }, () => rows.map(() => k.var('dot', k.const('f32', 0).splat(width))))
    k.for({ name: 'd', to: dim, step: width }, (d) => {
      const some = rows.map((row) => k.let('key', key(row.add(d), NEXT_BLOCK)))
      dots.forEach((ofHead, h) => {
        const query = k.let('query', q.load(start.add(dim.mul(h)).add(d), width))
        ofHead.forEach((dot, i) => dot.set(query.fma(item(some, i), dot.get())))
      })
    })
    dots.forEach((ofHead, h) => ofHead.forEach((dot, i) => scores.set(j.add(h * BLOCK + i), finish(dot.get().hsum()))))
  })
  k.for({ name: 'h', to: together }, (h) =>
    k.for({ name: 'j', from: count, to: BLOCK }, (j) => scores.set(h.mul(BLOCK).add(j), k.const('f32', -Infinity))),
  )
}

/** Scores of one head become weights under the new maximum; the sum so far is scaled to it. */
function weighBlock(k: Scope, h: Value<'u32'>, width: Width, { scores, top, sum, decay }: Scratch): void {
  const at = k.let('at', h.mul(BLOCK))
  const most = k.var('most', scores.load(at, width))
  k.for({ name: 'j', from: width, to: BLOCK, step: width }, (j) => most.set(most.get().max(scores.load(at.add(j), width))))
  const [old, best] = [k.let('old', top.at(h)), k.let('best', most.get().hmax().max(top.at(h)))]
  const total = k.var('total', k.const('f32', 0).splat(width))
  k.for({ name: 'j', to: BLOCK, step: width }, (j) => {
    const weight = k.let('weight', scores.load(at.add(j), width).sub(best).exp())
    scores.store(at.add(j), weight)
    total.set(total.get().add(weight))
  })
  const factor = k.let('factor', old.sub(best).exp())
  decay.set(h, factor)
  top.set(h, best)
  sum.set(h, sum.at(h).mul(factor).add(total.get().hsum()))
}

/** result = result * decay + weights . values, some vectors of dimensions of all heads at a time. */
function blendBlock(
  k: Scope,
  {
    width,
    together,
    first,
    count,
    dim,
    value,
    scores,
    result,
    decay,
  }: Scratch & {
    width: Width
    together: number
    first: Value<'u32'>
    count: Value<'u32'>
    dim: Value<'u32'>
    value: ReadCache
  },
): void {
  const most = Math.max(1, UNDER_WAY / together)
  const blend = (d: Value<'u32'>, chunks: number): void => {
    const places = Array.from({ length: chunks }, (_, c) => d.add(c * width))
    const totals = Array.from({ length: together }, (_, h) =>
      places.map((place) => k.var('total', result.load(place.add(h * MOST_DIM), width).mul(decay.at(h)))),
    )
    k.for({ name: 'j', to: count }, (j) => {
      const row = k.let('row', first.add(j.mul(dim)))
      const values = places.map((place) => k.let('values', value(row.add(place), NEXT_BLOCK)))
      totals.forEach((ofHead, h) => {
        const weight = k.let('weight', scores.at(j.add(h * BLOCK)))
        ofHead.forEach((total, c) => total.set(item(values, c).fma(weight, total.get())))
      })
    })
    totals.forEach((ofHead, h) => ofHead.forEach((total, c) => result.store(item(places, c).add(h * MOST_DIM), total.get())))
  }
  const whole = most === 1 ? k.const('u32', 0) : k.let('whole', dim.div(most * width).mul(most * width))
  if (most > 1) k.for({ name: 'd', to: whole, step: most * width }, (d) => blend(d, most))
  k.for({ name: 'd', from: whole, to: dim, step: width }, (d) => blend(d, 1))
}

/** The widest vector that heads divide into. */
function dividing(width: Width, headDim: number): Width {
  return WIDTHS.findLast((some) => some <= width && headDim % some === 0) ?? 2
}

/** Query heads per workgroup: as many as share keys, while every thread still has two workgroups to do. */
function headsTogether(caps: Caps, group: number, tasks: number): number {
  return HEADS_TOGETHER.find((some) => group % some === 0 && tasks * (group / some) >= 2 * caps.parallel) ?? 1
}
