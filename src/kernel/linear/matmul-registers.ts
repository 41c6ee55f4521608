// The mat-mat of prefill on GPUs without matrix tiles. A workgroup computes 64 outputs (rows of w) for 32 rows of x; each lane keeps
// 4 x 4 of them in registers. Along k, weights are decoded once per workgroup: both matrices come to workgroup memory in vectors of four
// along k, and outputs are sums of dot products. Needs no subgroups.

import { item } from '../../base/list.ts'
import { type Range, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type MatmulTraits, rowFour, traitsOf, weightFour } from './matmul-stage.ts'
import { type LinearParams, linearParams } from './params.ts'

const OUTS = 64
const ROWS = 32
/** k is taken in steps of one chunk: with 64 rows of w that is a chunk for half of the lanes, the others bring x meanwhile */
const FOURS = CHUNK / 4
const LANES = 128
/** fours from row to row of workgroup memory: odd, so that lanes reading neighbouring rows do not meet in one bank */
const PITCH = FOURS + 1

export const matmulRegisters: Form<LinearParams> = {
  name: 'matmul registers',
  fits: isGpu,
  work: (_caps, params) => {
    const { m, k, n } = params
    const grid = [Math.ceil(m / OUTS), Math.ceil(n / ROWS), 1] as const
    return { launches: [{ kernel: registers(traitsOf(params, CHUNK)), uniforms: { m, k, n }, grid }] }
  },
}

const registers = template<MatmulTraits>({ family: 'linear', form: 'matmul registers' }, (traits, kernel) => {
  const { bias, ragged, aligned } = traits
  const format = formatOf(traits.format)
  return kernel(
    `matmul_${format.name}${aligned ? (ragged ? '_ragged' : '') : '_odd'}`,
    { params: { ...linearParams(format, bias, aligned), n: uniform('u32') }, workgroup: [LANES] },
    (p, k) => {
      const weights = k.shared('weights', 'f32x4', OUTS * PITCH)
      const rows = k.shared('rows', 'f32x4', ROWS * PITCH)
      const [outFirst, rowFirst] = [k.let('outFirst', k.workgroupId.x.mul(OUTS)), k.let('rowFirst', k.workgroupId.y.mul(ROWS))]
      // Neighbouring lanes have neighbouring outputs; those of one lane stand apart.
      const outs = [0, 16, 32, 48].map((apart) => k.let('out', k.lane.and(15).add(apart)))
      const ours = [0, 8, 16, 24].map((apart) => k.let('row', k.lane.shr(4).add(apart)))
      const sums = ours.map(() => outs.map(() => k.var('sum', k.const('f32', 0))))

      k.for(steps(p.k), (from) => {
        const inFours = (
          lane: Value<'u32'>,
          count: number,
          lanes: number,
          put: (i: Value<'u32'>, v: Value<'u32'>, at: Value<'u32'>) => void,
        ): void =>
          k.for({ name: 'e', from: lane, to: count * FOURS, step: lanes }, (e) =>
            put(e.div(FOURS), e.and(FOURS - 1), from.add(e.and(FOURS - 1).mul(4))),
          )
        const kept = (at: Value<'u32'>, four: Value<'f32x4'>): Value<'f32x4'> => (ragged ? at.lt(p.k).select(four, 0) : four)
        const stageRows = (lane: Value<'u32'>, lanes: number): void =>
          inFours(lane, ROWS, lanes, (i, v, at) => {
            const row = rowFirst.add(i).min(p.n.sub(1))
            rows.set(i.mul(PITCH).add(v), kept(at, rowFour(k, p.x, { row, at, inner: p.k, aligned })))
          })
        const { element } = format
        if (element === undefined) {
          k.when(
            k.lane.lt(OUTS),
            (k) => {
              const chunk = k.let('chunk', outFirst.add(k.lane).min(p.m.sub(1)).mul(p.k.div(CHUNK)).add(from.div(CHUNK)))
              format.decode(k, p.w, chunk).forEach((four, v) => weights.set(k.lane.mul(PITCH).add(v), four))
            },
            (k) => stageRows(k.lane.sub(OUTS), LANES - OUTS),
          )
        } else {
          inFours(k.lane, OUTS, LANES, (i, v, at) => {
            const row = outFirst.add(i).min(p.m.sub(1))
            weights.set(i.mul(PITCH).add(v), kept(at, weightFour(k, element, p.w, { row, at, inner: p.k, aligned })))
          })
          stageRows(k.lane, LANES)
        }
        k.barrier()
        k.for({ name: 'v', to: FOURS }, (v) => {
          const left = outs.map((out) => k.let('weight', weights.at(out.mul(PITCH).add(v))))
          ours.forEach((row, r) => {
            const four = k.let('four', rows.at(row.mul(PITCH).add(v)))
            left.forEach((weight, o) => item(item(sums, r), o).set(item(item(sums, r), o).get().add(weight.mul(four).hsum())))
          })
        })
        k.barrier()
      })
      sums.forEach((ofRow, r) =>
        ofRow.forEach((sum, o) => {
          const [out, row] = [outFirst.add(item(outs, o)), rowFirst.add(item(ours, r))]
          k.when(out.lt(p.m).and(row.lt(p.n)), () => {
            p.y.set(row.mul(p.m).add(out), p.bias === undefined ? sum.get() : sum.get().add(p.bias.at(out)))
          })
        }),
      )
    },
  )
})

function steps(inner: Value<'u32', 'uniform'>): Range<'uniform'> {
  return { name: 'from', to: inner, step: CHUNK }
}
