// Many rows of x on GPUs with 8x8 matrix tiles: a product like any other (../matmul/matrix-tiles.ts) but for its weights, which are decoded
// once per workgroup. They are staged in f16, which holds what block formats decode to; x, whose outliers pass the range of f16, and
// weights of f32 and bf16 stay f32.

import { uniform } from '../../ir/author.ts'
import { CHUNK } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import type { Form } from '../family.ts'
import { eachFour, readFour } from '../matmul/stage.ts'
import { MATRIX_TILE, TILE_KERNEL, hasTiles, multiplyTiles } from '../matmul/matrix-tiles.ts'
import { template } from '../template.ts'
import { type MatmulTraits, moreSteps, rowsOf, traitsOf, weightsOf } from './matmul-stage.ts'
import { type LinearParams, linearParams } from './params.ts'

/** Steps are two chunks: with 64 rows of w that is a chunk for each lane. */
const { rows: ROWS, columns: OUTS, step: STEP, lanes: LANES } = MATRIX_TILE

export const matmulTiles: Form<LinearParams> = {
  name: 'matmul tiles',
  fits: hasTiles,
  work: (_caps, params) => {
    const { m, k, n, rank = 0 } = params
    const grid = [Math.ceil(m / OUTS), Math.ceil(n / ROWS), 1] as const
    return { launches: [{ kernel: tiles(traitsOf(params, STEP)), uniforms: { m, k, n, ...(rank > 0 ? { rank } : {}) }, grid }] }
  },
  // weights are rounded to f16
  tolerance: () => 1e-6,
}

const tiles = template<MatmulTraits>({ family: 'linear', form: 'matmul tiles' }, (traits, kernel) => {
  const { bias, joined, ragged, aligned } = traits
  const format = formatOf(traits.format)
  return kernel(
    `matmul_${format.name}_tiles${ragged ? '_ragged' : ''}${joined ? '_joined' : ''}`,
    { params: { ...linearParams(format, bias, aligned, joined), n: uniform('u32') }, ...TILE_KERNEL },
    (p, k) => {
      const [outFirst, rowFirst] = [k.let('outFirst', k.workgroupId.x.mul(OUTS)), k.let('rowFirst', k.workgroupId.y.mul(ROWS))]
      const [rows, weights] = [rowsOf(traits, p), weightsOf(traits, p)]
      const team = { lane: k.lane, lanes: LANES }
      const inside = outFirst.add(OUTS).le(p.m).and(rowFirst.add(ROWS).le(p.n))
      multiplyTiles(k, {
        inner: p.k,
        half: format.name !== 'f32' && format.name !== 'bf16',
        stage: (from, putRow, putOut) => {
          if (format.element === undefined) {
            // Neighbouring lanes read neighbouring chunks.
            const [i, late] = [k.let('i', k.lane.shr(1)), k.let('late', k.lane.and(1))]
            const chunks = p.k.div(CHUNK)
            const own = outFirst.add(i).min(p.m.sub(1)).mul(chunks)
            const chunk = k.let('chunk', own.add(from.div(CHUNK).add(late).min(chunks.sub(1))))
            const isThere = from.add(late.mul(CHUNK)).lt(p.k)
            format.decode(k, p.w, chunk).forEach((four, v) => {
              putOut(i, late.mul(CHUNK).add(4 * v), ragged ? isThere.select(four, 0) : four)
            })
          } else {
            eachFour(k, team, weights, OUTS, STEP, (i, v) => putOut(i, v.mul(4), readFour(k, weights, outFirst.add(i), from.add(v.mul(4)))))
          }
          eachFour(k, team, rows, ROWS, STEP, (i, v) => putRow(i, v.mul(4), readFour(k, rows, rowFirst.add(i), from.add(v.mul(4)))))
        },
        more: moreSteps(k, p, team, { rowFirst, rows: ROWS, outFirst, outs: OUTS }, 4),
        ...(bias ? {} : { whole: { inside, y: p.y, corner: k.let('corner', rowFirst.mul(p.m).add(outFirst)), pitch: p.m } }),
        store: (k, r, o, sum) => {
          const [out, row] = [k.let('out', outFirst.add(o)), k.let('row', rowFirst.add(r))]
          k.when(out.lt(p.m).and(row.lt(p.n)), () => {
            p.y.set(row.mul(p.m).add(out), p.bias === undefined ? sum : sum.add(p.bias.at(out)))
          })
        },
      })
    },
  )
})
