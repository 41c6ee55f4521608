// The mat-vec of one vector with a format that says how a subgroup shares its rows (quant/dot): each subgroup takes a few rows of w, its
// lanes share them along k and add up at the end. No workgroup memory, no barrier.

import { buffer } from '../../ir/author.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, isGpu } from '../family.ts'
import { flatGrid, flatGroup } from '../lanes.ts'
import { addJoined, joinedOf } from '../matmul/joined.ts'
import { template } from '../template.ts'
import { type LinearParams, linearParams } from './params.ts'

interface DotTraits {
  readonly format: string
  readonly bias: boolean
  readonly joined: boolean
  readonly subgroup: number
}

/** lanes of a workgroup, if a subgroup has no more */
const LANES = 64
const groupsOf = (subgroup: number): number => Math.max(1, LANES / subgroup)

const dot = template<DotTraits>({ family: 'linear', form: 'matvec dot' }, ({ format: name, bias, joined, subgroup }, kernel) => {
  const format = formatOf(name)
  const { rows = 0, write = () => {} } = format.dot ?? {}
  const groups = groupsOf(subgroup)
  const params = { ...linearParams(format, bias, true, joined), x: buffer('f32x4', 'read') }
  return kernel(`matvec_${name}${joined ? '_joined' : ''}`, { params, workgroup: [groups * subgroup], subgroup }, (p, k) => {
    const first = k.let('first', flatGroup(k).mul(groups).add(k.subgroupId).mul(rows))
    const sums = Array.from({ length: rows }, () => k.var('sum', k.const('f32', 0)))
    write(k, subgroup, {
      x: p.x,
      w: p.w,
      inner: p.k,
      // Rows past the end repeat the last one and are not stored, so that no lane leaves early.
      each: (product) => sums.forEach((sum, r) => sum.set(sum.get().add(product(first.add(r).min(p.m.sub(1)))))),
    })
    const more = joinedOf(p)
    if (more !== undefined) {
      const rows = sums.map((_, r) => k.let('row', first.add(r).min(p.m.sub(1))))
      k.for({ name: 'l', from: k.sublane, to: more.rank, step: subgroup }, (l) =>
        addJoined(
          more,
          l,
          rows,
          [k.const('u32', 0)],
          sums.map((sum) => [sum]),
        ),
      )
    }
    sums.forEach((sum, r) => {
      const row = first.add(r)
      const total = k.let('total', k.subSum(sum.get()))
      k.when(k.sublane.eq(0).and(row.lt(p.m)), () => p.y.set(row, p.bias === undefined ? total : total.add(p.bias.at(row))))
    })
  })
})

export const matvecDot: Form<LinearParams> = {
  name: 'matvec dot',
  fits: (caps, { format, n }) => n === 1 && isGpu(caps) && caps.subgroup >= (formatOf(format).dot?.sharing ?? Infinity),
  work: (caps, { format, m, k, bias, rank = 0 }) => {
    const rows = groupsOf(caps.subgroup) * (formatOf(format).dot?.rows ?? 1)
    const kernel = dot({ format, bias, joined: rank > 0, subgroup: caps.subgroup })
    return { launches: [{ kernel, uniforms: { m, k, ...(rank > 0 ? { rank } : {}) }, grid: flatGrid(caps, Math.ceil(m / rows)) }] }
  },
}
