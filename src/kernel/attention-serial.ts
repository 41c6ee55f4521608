// Attention where lanes are loops. A workgroup takes one row and a few query heads that share their keys: each key and value is loaded
// and widened once for all of them. Keys come in blocks: scores into scratch, a running maximum, then the values of the block.
// Where there are fewer heads than threads, keys are split too: each workgroup keeps the maximum, sum and result of its share, and a
// second kernel merges the shares. A share without keys is neutral.

import type { Caps } from '../base/caps.ts'
import type { Width } from '../base/dtype.ts'
import { type Readable, type Scope, type Shared, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { type AttentionParams, LOWEST, attentionParams, capped, locate } from './attention-params.ts'
import type { Work } from './record.ts'

/** keys of a block */
const BLOCK = 64
/** largest headDim that the scratch holds */
const MOST_DIM = 512
/** query heads of a workgroup at most: their sums for two keys stay in registers */
const MOST_HEADS = 8

/** keys that are worth a workgroup */
const SHARE = 256

type Vec = Value<'f32x16'>

export function attentionSerial(caps: Caps, params: AttentionParams): Work {
  const { type, rows, heads, kvHeads, headDim, capacity, window, scale, softcap } = params
  const width = dividing(caps.width, headDim) as Width
  const together = headsTogether(caps, heads / kvHeads, kvHeads * rows)
  const shares = Math.max(1, Math.min(Math.ceil(capacity / SHARE), Math.floor((2 * caps.parallel * together) / (heads * rows))))
  const { y, ...inputs } = attentionParams('f32')
  const split = { partial: buffer('f32', 'write'), state: buffer('f32', 'write'), shares: uniform('u32') } as const
  const written = kernel(
    `attention_${type}_v${width}_h${together}${shares > 1 ? '_split' : ''}`,
    {
      params: {
        ...inputs,
        keys: buffer(type, 'read'),
        values: buffer(type, 'read'),
        ...(shares > 1 ? split : {}),
        ...(shares === 1 ? { y } : {}),
      },
      variant: `${width} ${together}${softcap > 0 ? ' cap' : ''}`,
    },
    (p, k) => {
      const scratch = {
        scores: k.shared('scores', 'f32', together * BLOCK),
        result: k.shared('result', 'f32', together * MOST_DIM),
        top: k.shared('top', 'f32', together),
        sum: k.shared('sum', 'f32', together),
        decay: k.shared('decay', 'f32', together),
      }
      // workgroup.x counts groups of `together` heads; all of a group share one key head.
      const { start, cache, from: first, to: last } = locate(k, p, k.workgroupId.x.mul(together))
      const { from, to } = p.shares === undefined ? { from: first, to: last } : shareOf(k, first, last, p.shares)
      const widened =
        (memory: Readable<'f32' | 'f16', Uniformity>) =>
        (index: Value<'u32'>): Vec =>
          memory.load(index, width).to('f32') as never
      const [key, value] = [widened(p.keys), widened(p.values)]
      k.for({ name: 'h', to: together }, (h) => {
        scratch.top.set(h, k.const('f32', -Infinity))
        scratch.sum.set(h, 0)
        k.for({ name: 'd', to: p.dim }, (d) => scratch.result.set(h.mul(MOST_DIM).add(d), 0))
      })
      k.for({ name: 'block', from, to, step: BLOCK }, (block) => {
        const count = k.let('count', to.sub(block).min(BLOCK))
        const first = k.let('firstRow', cache.add(block).mul(p.dim))
        scoreBlock(k, { width, together, start, first, count, dim: p.dim, q: p.q, key, scores: scratch.scores }, (dot) =>
          capped(k, dot.mul(p.scale), params, p.softcap),
        )
        k.for({ name: 'h', to: together }, (h) => weighBlock(k, h, width, scratch))
        blendBlock(k, { width, together, first, count, dim: p.dim, value, ...scratch })
      })
      k.for({ name: 'h', to: together }, (h) => {
        const result = (d: Value<'u32'>): Vec => scratch.result.load(h.mul(MOST_DIM).add(d), width) as never
        const at = k.let('at', start.add(h.mul(p.dim)))
        if (p.shares === undefined) {
          const inverse = k.let('inverse', k.const('f32', 1).div(scratch.sum.at(h)))
          k.for({ name: 'd', to: p.dim, step: width }, (d) => p.y!.store(at.add(d), result(d).mul(inverse) as never))
          return
        }
        const number = k.let('number', at.div(p.dim).mul(p.shares).add(k.workgroupId.z))
        k.for({ name: 'd', to: p.dim, step: width }, (d) => p.partial!.store(number.mul(p.dim).add(d), result(d) as never))
        p.state!.set(number.mul(2), scratch.top.at(h).max(LOWEST))
        p.state!.set(number.mul(2).add(1), scratch.sum.at(h))
      })
    },
  )
  const uniforms = { heads, group: heads / kvHeads, dim: headDim, capacity, window, scale, softcap }
  const grid = [heads / together, rows, shares] as const
  if (shares === 1) return { launches: [{ kernel: written, uniforms, grid }] }
  const parts = rows * heads * shares
  return {
    launches: [
      { kernel: written, uniforms: { ...uniforms, shares }, grid },
      { kernel: mergeKernel(width), uniforms: { dim: headDim, shares }, grid: [heads, rows, 1] },
    ],
    scratch: { partial: 4 * parts * headDim, state: 8 * parts },
  }
}

/** The keys of this workgroup: an equal share in whole blocks, as many as there are. */
function shareOf(k: Scope, first: Value<'u32', 'uniform'>, last: Value<'u32', 'uniform'>, shares: Value<'u32', 'uniform'>) {
  const each = k.let('each', last.sub(first).add(shares.mul(BLOCK)).sub(1).div(shares.mul(BLOCK)).mul(BLOCK))
  const from = k.let('from', first.add(k.workgroupId.z.mul(each)).min(last))
  return { from, to: k.let('to', from.add(each).min(last)) }
}

/** One workgroup per head and row: its shares come to one maximum and become the result. */
function mergeKernel(width: Width): Kernel {
  return kernel(
    `attention_merge_v${width}`,
    {
      params: {
        partial: buffer('f32', 'read'),
        state: buffer('f32', 'read'),
        y: buffer('f32', 'write'),
        dim: uniform('u32'),
        shares: uniform('u32'),
      },
      variant: `${width}`,
    },
    (p, k) => {
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
        const total = k.var('total', k.const('f32', 0).splat(width as 16))
        k.for({ name: 's', to: p.shares }, (s) => {
          const part = p.partial.load(first.add(s).mul(p.dim).add(d), width as 16)
          total.set(part.fma(top(s).sub(best.get()).exp(), total.get()))
        })
        p.y.store(number.mul(p.dim).add(d), total.get().div(sum.get()) as never)
      })
    },
  )
}

type Scratch = Readonly<Record<'scores' | 'result' | 'top' | 'sum' | 'decay', Shared<'f32'>>>

/** Scores of a block for all heads, two keys at a time; places past the last key become -inf. */
function scoreBlock(
  k: Scope,
  {
    width,
    together,
    start,
    first,
    count,
    dim,
    q,
    key,
    scores,
  }: {
    width: Width
    together: number
    start: Value<'u32'>
    first: Value<'u32'>
    count: Value<'u32'>
    dim: Value<'u32'>
    q: Readable<'f32', Uniformity>
    key: (index: Value<'u32'>) => Vec
    scores: Shared<'f32'>
  },
  finish: (dot: Value<'f32'>) => Value<'f32'>,
): void {
  k.for({ name: 'j', to: count, step: 2 }, (j) => {
    // An odd last key is taken twice; its second score is overwritten below.
    const rows = [first.add(j.mul(dim)), first.add(j.add(1).min(count.sub(1)).mul(dim))].map((row) => k.let('row', row))
    const dots = Array.from({ length: together }, () => rows.map(() => k.var('dot', k.const('f32', 0).splat(width))))
    k.for({ name: 'd', to: dim, step: width }, (d) => {
      const keys = rows.map((row) => k.let('key', key(row.add(d))))
      dots.forEach((pair, h) => {
        const query = k.let('query', q.load(start.add(dim.mul(h)).add(d), width) as never as Vec)
        pair.forEach((dot, i) => dot.set(query.fma(keys[i]!, dot.get() as never as Vec) as never))
      })
    })
    dots.forEach((pair, h) => pair.forEach((dot, i) => scores.set(j.add(h * BLOCK + i), finish(dot.get().hsum()))))
  })
  k.for({ name: 'h', to: together }, (h) =>
    k.for({ name: 'j', from: count, to: BLOCK }, (j) => scores.set(h.mul(BLOCK).add(j), k.const('f32', -Infinity))),
  )
}

/** Scores of one head become weights under the new maximum; the sum so far is scaled to it. */
function weighBlock(k: Scope, h: Value<'u32'>, width: Width, { scores, top, sum, decay }: Scratch): void {
  const at = k.let('at', h.mul(BLOCK))
  const most = k.var('most', scores.load(at, width))
  k.for({ name: 'j', from: width, to: BLOCK, step: width }, (j) => most.set(most.get().max(scores.load(at.add(j), width) as never)))
  const [old, best] = [k.let('old', top.at(h)), k.let('best', (most.get().hmax() as Value<'f32'>).max(top.at(h)))]
  const total = k.var('total', k.const('f32', 0).splat(width))
  k.for({ name: 'j', to: BLOCK, step: width }, (j) => {
    const weight = k.let('weight', (scores.load(at.add(j), width) as never as Vec).sub(best).exp())
    scores.store(at.add(j), weight as never)
    total.set(total.get().add(weight as never))
  })
  const factor = k.let('factor', old.sub(best).exp())
  decay.set(h, factor)
  top.set(h, best)
  sum.set(h, sum.at(h).mul(factor).add(total.get().hsum()))
}

/** result = result * decay + weights . values, a vector of dimensions of all heads at a time. */
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
    value: (index: Value<'u32'>) => Vec
  },
): void {
  k.for({ name: 'd', to: dim, step: width }, (d) => {
    const totals = Array.from({ length: together }, (_, h) =>
      k.var('total', (result.load(d.add(h * MOST_DIM), width) as never as Vec).mul(decay.at(h))),
    )
    k.for({ name: 'j', to: count }, (j) => {
      const values = k.let('values', value(first.add(j.mul(dim)).add(d)))
      totals.forEach((total, h) => total.set(values.fma(scores.at(j.add(h * BLOCK)), total.get())))
    })
    totals.forEach((total, h) => result.store(d.add(h * MOST_DIM), total.get() as never))
  })
}

/** The widest vector that heads divide into. */
function dividing(width: number, headDim: number): number {
  return width > 2 && headDim % width !== 0 ? dividing(width / 2, headDim) : width
}

/** Query heads per workgroup: as many as share keys, while every thread still has two workgroups to do. */
function headsTogether(caps: Caps, group: number, tasks: number): number {
  for (let together = MOST_HEADS; together > 1; together /= 2) {
    if (group % together === 0 && tasks * (group / together) >= 2 * caps.parallel) return together
  }
  return 1
}
