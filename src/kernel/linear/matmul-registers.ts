// Many rows of x on GPUs without matrix tiles: a product like any other (../matmul/registers.ts) but for its weights, which are decoded
// once per workgroup.

import { uniform } from '../../ir/author.ts'
import { CHUNK } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, isGpu } from '../family.ts'
import { type PutFour, REGISTER_TILE, multiplyRegisters } from '../matmul/registers.ts'
import { type Team, eachFour, readFour } from '../matmul/stage.ts'
import { template } from '../template.ts'
import { type MatmulTraits, moreSteps, rowsOf, traitsOf, weightsOf } from './matmul-stage.ts'
import { type LinearParams, linearParams } from './params.ts'

const { rows: ROWS, columns: OUTS, step: STEP, lanes: LANES } = REGISTER_TILE

export const matmulRegisters: Form<LinearParams> = {
  name: 'matmul registers',
  fits: isGpu,
  work: (_caps, params) => {
    const { m, k, n, rank = 0 } = params
    const grid = [Math.ceil(m / OUTS), Math.ceil(n / ROWS), 1] as const
    return { launches: [{ kernel: registers(traitsOf(params, STEP)), uniforms: { m, k, n, ...(rank > 0 ? { rank } : {}) }, grid }] }
  },
}

const registers = template<MatmulTraits>({ family: 'linear', form: 'matmul registers' }, (traits, kernel) => {
  const { bias, joined, ragged, aligned } = traits
  const format = formatOf(traits.format)
  return kernel(
    `matmul_${format.name}${aligned ? (ragged ? '_ragged' : '') : '_odd'}${joined ? '_joined' : ''}`,
    { params: { ...linearParams(format, bias, aligned, joined), n: uniform('u32') }, workgroup: [LANES] },
    (p, k) => {
      const [outFirst, rowFirst] = [k.let('outFirst', k.workgroupId.x.mul(OUTS)), k.let('rowFirst', k.workgroupId.y.mul(ROWS))]
      const [rows, weights] = [rowsOf(traits, p), weightsOf(traits, p)]
      multiplyRegisters(k, {
        inner: p.k,
        stage: (from, putRow, putOut) => {
          const stageRows = (team: Team, put: PutFour): void =>
            eachFour(k, team, rows, ROWS, STEP, (i, v) => put(i, v, readFour(k, rows, rowFirst.add(i), from.add(v.mul(4)))))
          if (format.element !== undefined) {
            const team = { lane: k.lane, lanes: LANES }
            eachFour(k, team, weights, OUTS, STEP, (i, v) => putOut(i, v, readFour(k, weights, outFirst.add(i), from.add(v.mul(4)))))
            return stageRows(team, putRow)
          }
          // A chunk for half of the lanes; the others bring x meanwhile.
          return k.when(
            k.lane.lt(OUTS),
            (k) => {
              const chunk = k.let('chunk', outFirst.add(k.lane).min(p.m.sub(1)).mul(p.k.div(CHUNK)).add(from.div(CHUNK)))
              format.decode(k, p.w, chunk).forEach((four, v) => putOut(k.lane, k.const('u32', v), four))
            },
            (k) => stageRows({ lane: k.lane.sub(OUTS), lanes: LANES - OUTS }, putRow),
          )
        },
        more: moreSteps(k, p, { lane: k.lane, lanes: LANES }, { rowFirst, rows: ROWS, outFirst, outs: OUTS }, 1),
        store: (r, o, sum) => {
          const [out, row] = [outFirst.add(o), rowFirst.add(r)]
          k.when(out.lt(p.m).and(row.lt(p.n)), () => {
            p.y.set(row.mul(p.m).add(out), p.bias === undefined ? sum : sum.add(p.bias.at(out)))
          })
        },
      })
    },
  )
})
