// The mat-mat of prefill on GPUs with 8x8 matrix tiles. A workgroup of four subgroups computes 64 outputs (rows of w) for 32 rows of x;
// each subgroup owns 32 x 16 of them as eight tiles with f32 accumulators. Along k, weights are decoded once per workgroup into
// workgroup memory, tile by tile, so that every tile is 64 neighbours there. Weights are staged in f16, which holds what block
// formats decode to; x, whose outliers pass the range of f16, and weights of f32 and bf16 stay f32. Two barriers per step of 64.

import { item } from '../../base/list.ts'
import { type Range, type Scope, type Shared, type Writable, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type MatmulTraits, rowFour, traitsOf, weightFour } from './matmul-stage.ts'
import { type LinearParams, linearParams } from './params.ts'

const OUTS = 64
const ROWS = 32
/** k is taken in steps of two chunks: with 64 rows of w that is a chunk for each lane */
const STEP = 2 * CHUNK
const LANES = 128
const SIDE = 8
const TILE = SIDE * SIDE

const SUBGROUP = 32

export const matmulTiles: Form<LinearParams> = {
  name: 'matmul tiles',
  fits: (caps) => isGpu(caps) && caps.tiles && caps.subgroup === SUBGROUP,
  work: (_caps, params) => {
    const { m, k, n } = params
    const grid = [Math.ceil(m / OUTS), Math.ceil(n / ROWS), 1] as const
    return { launches: [{ kernel: tiles(traitsOf(params, STEP)), uniforms: { m, k, n }, grid }] }
  },
  // weights are rounded to f16
  tolerance: () => 1e-6,
}

const tiles = template<MatmulTraits>({ family: 'linear', form: 'matmul tiles' }, (traits, kernel) => {
  const { bias, ragged, aligned } = traits
  const format = formatOf(traits.format)
  const exact = format.name === 'f32' || format.name === 'bf16'
  return kernel(
    `matmul_${format.name}_tiles${ragged ? '_ragged' : ''}`,
    { params: { ...linearParams(format, bias, aligned), n: uniform('u32') }, workgroup: [LANES], subgroup: SUBGROUP },
    (p, k) => {
      const weights = k.shared('weights', exact ? 'f32' : 'f16', OUTS * STEP)
      const rows = k.shared('rows', 'f32', ROWS * STEP)
      const [outFirst, rowFirst] = [k.let('outFirst', k.workgroupId.x.mul(OUTS)), k.let('rowFirst', k.workgroupId.y.mul(ROWS))]
      // This subgroup's tiles, counted from the workgroup's first.
      const [outTile, rowTile] = [k.let('outTile', k.subgroupId.and(1).mul(4)), k.let('rowTile', k.subgroupId.shr(1).mul(2))]
      const sums = [0, 1].map(() => [0, 1, 2, 3].map(() => k.var('sum', k.tileFill('f32', 0))))

      k.for(steps(p.k), (from) => {
        const kept = (at: Value<'u32'>, four: Value<'f32x4'>): Value<'f32x4'> => (ragged ? at.lt(p.k).select(four, 0) : four)
        stageWeights(k, format, { w: p.w, m: p.m, inner: p.k, outFirst, from, aligned }, (place, at, four) => {
          const value = kept(from.add(at), four)
          if (exact) (weights as Writable<'f32'>).store(place, value)
          else (weights as Writable<'f16'>).store(place, value.to('f16'))
        })
        k.for({ name: 'e', from: k.lane, to: (ROWS * STEP) / 4, step: LANES }, (e) => {
          const [i, at] = [k.let('i', e.div(STEP / 4)), k.let('at', e.and(STEP / 4 - 1).mul(4))]
          const row = rowFirst.add(i).min(p.n.sub(1))
          rows.store(placeOf(i, at), kept(from.add(at), rowFour(k, p.x, { row, at: from.add(at), inner: p.k, aligned })))
        })
        k.barrier()
        k.for({ name: 'step', to: STEP / SIDE, unroll: true }, (step) => {
          const tileAt = (tile: Value<'u32'>): Value<'u32'> =>
            tile
              .mul(STEP / SIDE)
              .add(step)
              .mul(TILE)
          const left = [0, 1].map((i) => k.let('row', rows.tile(tileAt(rowTile.add(i)), SIDE)))
          const right = [0, 1, 2, 3].map((i) =>
            k.let('out', (weights as Shared<'f16'>).tile(tileAt(outTile.add(i)), SIDE, { transposed: true })),
          )
          left.forEach((row, r) => right.forEach((out, o) => item(item(sums, r), o).set(k.tileMma(row, out, item(item(sums, r), o).get()))))
        })
        k.barrier()
      })

      const each = (visit: (sum: Value<'f32t'>, row: Value<'u32'>, out: Value<'u32'>) => void): void =>
        sums.forEach((columns, r) => columns.forEach((sum, o) => visit(sum.get(), rowTile.add(r).mul(SIDE), outTile.add(o).mul(SIDE))))
      const bounded = (): void => {
        each((sum, row, out) => rows.setTile(row.mul(OUTS).add(out), OUTS, sum))
        k.barrier()
        k.for({ name: 'e', from: k.lane, to: ROWS * OUTS, step: LANES }, (e) => {
          const [out, row] = [k.let('out', outFirst.add(e.and(OUTS - 1))), k.let('row', rowFirst.add(e.div(OUTS)))]
          k.when(out.lt(p.m).and(row.lt(p.n)), () => {
            const value = rows.at(e)
            p.y.set(row.mul(p.m).add(out), p.bias === undefined ? value : value.add(p.bias.at(out)))
          })
        })
      }
      if (bias) return bounded()
      k.when(
        outFirst.add(OUTS).le(p.m).and(rowFirst.add(ROWS).le(p.n)),
        () => {
          each((sum, row, out) => p.y.setTile(rowFirst.add(row).mul(p.m).add(outFirst).add(out), p.m, sum))
        },
        bounded,
      )
    },
  )
})

function steps(inner: Value<'u32', 'uniform'>): Range<'uniform'> {
  return { name: 'from', to: inner, step: STEP }
}

/** Where element `at` along k of row i lies: tiles of 8x8, those along k next to each other. */
function placeOf(i: Value<'u32'>, at: Value<'u32'>): Value<'u32'> {
  return i
    .shr(3)
    .mul(STEP / SIDE)
    .add(at.shr(3))
    .mul(TILE)
    .add(i.and(7).mul(SIDE))
    .add(at.and(7))
}

interface Stage {
  readonly w: Weights
  readonly m: Value<'u32'>
  readonly inner: Value<'u32'>
  readonly outFirst: Value<'u32'>
  readonly from: Value<'u32'>
  readonly aligned: boolean
}

/** Fours of the workgroup's rows of w: one chunk per lane for block formats. Rows past the end repeat the last, so does k. */
function stageWeights(
  k: Scope,
  format: Format,
  { w, m, inner, outFirst, from, aligned }: Stage,
  put: (place: Value<'u32'>, at: Value<'u32'>, four: Value<'f32x4'>) => void,
): void {
  const rowOf = (i: Value<'u32'>): Value<'u32'> => outFirst.add(i).min(m.sub(1))
  const { element } = format
  if (element === undefined) {
    // Neighbouring lanes read neighbouring chunks.
    const [i, half] = [k.let('i', k.lane.shr(1)), k.let('late', k.lane.and(1))]
    const chunks = inner.div(CHUNK)
    const chunk = k.let(
      'chunk',
      rowOf(i)
        .mul(chunks)
        .add(from.div(CHUNK).add(half).min(chunks.sub(1))),
    )
    const place = k.let(
      'place',
      i
        .shr(3)
        .mul(STEP / SIDE)
        .add(half.mul(CHUNK / SIDE))
        .mul(TILE)
        .add(i.and(7).mul(SIDE)),
    )
    format.decode(k, w, chunk).forEach((four, v) => put(place.add((v >> 1) * TILE + (v & 1) * 4), half.mul(CHUNK).add(4 * v), four))
    return
  }
  k.for({ name: 'e', from: k.lane, to: (OUTS * STEP) / 4, step: LANES }, (e) => {
    const [i, at] = [k.let('i', e.div(STEP / 4)), k.let('at', e.and(STEP / 4 - 1).mul(4))]
    put(placeOf(i, at), at, weightFour(k, element, w, { row: rowOf(i), at: from.add(at), inner, aligned }))
  })
}
