// Products on GPUs without matrix tiles. A workgroup computes 32 rows by 64 columns of y; each lane keeps 4 x 4 of them in registers. Along
// l, both matrices come to workgroup memory in vectors of four, and elements of y are sums of dot products. Needs no subgroups.

import { item } from '../../base/list.ts'
import type { Scope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type GpuTraits, eachTile, gpuLaunch, gpuParams, traitsOf } from './gpu.ts'
import { stepsLeft } from './joined.ts'
import type { MatmulParams } from './params.ts'
import { eachFour, readFour } from './stage.ts'

type U32 = Value<'u32'>
type Four = Value<'f32x4'>

/** What a workgroup computes of y, the steps of l that are staged at a time, and its lanes. */
export const REGISTER_TILE = { rows: 32, columns: 64, step: 32, lanes: 128 } as const
/** fours from row to row of workgroup memory: odd, so that lanes reading neighbouring rows do not meet in one bank */
const PITCH = REGISTER_TILE.step / 4 + 1

/** Takes four numbers along l of row or column `i`, those of number `v`. */
export type PutFour = (i: U32, v: U32, four: Four) => void

export interface RegisterTile {
  /** l */
  readonly inner: Value<'u32', 'uniform'>
  /** Brings what is `from` steps of l further on to workgroup memory, the rows of a and the columns of b. */
  stage(from: Value<'u32', 'uniform'>, putRow: PutFour, putColumn: PutFour): void
  /** where the sums go on (joined.ts) */
  readonly more?: MoreSteps | undefined
  /** Takes an element; `row` and `column` are counted from the first of the workgroup. */
  store(row: U32, column: U32, sum: Value<'f32'>): void
}

/** Further steps of sums, which may be few: as many as are left are staged, up to those of a tile. */
export interface MoreSteps {
  readonly inner: Value<'u32', 'uniform'>
  stage(from: Value<'u32', 'uniform'>, steps: U32, putRow: PutFour, putColumn: PutFour): void
}

/** All steps of a tile: `multiply` is told how many fours of l lie in workgroup memory. */
function eachStep(
  k: Scope,
  { inner, stage, more }: RegisterTile,
  putRow: PutFour,
  putColumn: PutFour,
  multiply: (fours: number | U32) => void,
): void {
  const { step } = REGISTER_TILE
  k.for({ name: 'from', to: inner, step }, (from) => {
    stage(from, putRow, putColumn)
    k.barrier()
    multiply(step / 4)
    k.barrier()
  })
  if (more === undefined) return
  k.for({ name: 'from', to: more.inner, step }, (from) => {
    const steps = stepsLeft(k, more.inner, from, step, 4)
    more.stage(from, steps, putRow, putColumn)
    k.barrier()
    multiply(steps.div(4))
    k.barrier()
  })
}

/** All of what a workgroup does. */
export function multiplyRegisters(k: Scope, tile: RegisterTile): void {
  const right = k.shared('right', 'f32x4', REGISTER_TILE.columns * PITCH)
  const left = k.shared('left', 'f32x4', REGISTER_TILE.rows * PITCH)
  // Neighbouring lanes have neighbouring columns; those of one lane stand apart.
  const columns = [0, 16, 32, 48].map((apart) => k.let('column', k.lane.and(15).add(apart)))
  const rows = [0, 8, 16, 24].map((apart) => k.let('row', k.lane.shr(4).add(apart)))
  const sums = rows.map(() => columns.map(() => k.var('sum', k.const('f32', 0))))
  eachStep(
    k,
    tile,
    (i, v, four) => left.set(i.mul(PITCH).add(v), four),
    (i, v, four) => right.set(i.mul(PITCH).add(v), four),
    (fours) =>
      k.for({ name: 'v', to: fours }, (v) => {
        const others = columns.map((column) => k.let('other', right.at(column.mul(PITCH).add(v))))
        rows.forEach((row, r) => {
          const four = k.let('four', left.at(row.mul(PITCH).add(v)))
          others.forEach((other, c) => item(item(sums, r), c).set(item(item(sums, r), c).get().add(other.mul(four).hsum())))
        })
      }),
  )
  sums.forEach((ofRow, r) => ofRow.forEach((sum, c) => tile.store(item(rows, r), item(columns, c), sum.get())))
}

/** Fours from l to l of workgroup memory: one more than it takes, so that lanes reading neighbouring steps do not meet in one bank. */
const ACROSS_PITCH = REGISTER_TILE.columns / 4 + 1

/**
 * The same where b is staged along its columns: `putColumn` takes four neighbouring columns, those of number `v`, of step `i`. A lane has
 * four neighbouring columns of four rows.
 */
export function multiplyAcross(k: Scope, tile: RegisterTile): void {
  const right = k.shared('right', 'f32x4', REGISTER_TILE.step * ACROSS_PITCH)
  const left = k.shared('left', 'f32x4', REGISTER_TILE.rows * PITCH)
  const column = k.let('column', k.lane.and(15))
  const rows = [0, 8, 16, 24].map((apart) => k.let('row', k.lane.shr(4).add(apart)))
  const sums = rows.map(() => k.var('sum', k.const('f32', 0).splat(4)))
  eachStep(
    k,
    tile,
    (i, v, four) => left.set(i.mul(PITCH).add(v), four),
    (i, v, four) => right.set(i.mul(ACROSS_PITCH).add(v), four),
    (fours) =>
      k.for({ name: 'v', to: fours }, (v) => {
        const steps = [0, 1, 2, 3].map((q) => k.let('other', right.at(v.mul(4).add(q).mul(ACROSS_PITCH).add(column))))
        rows.forEach((row, r) => {
          const four = k.let('four', left.at(row.mul(PITCH).add(v)))
          const sum = item(sums, r)
          sum.set(steps.reduce((total, other, q) => other.fma(four.lane(q).splat(4), total), sum.get()))
        })
      }),
  )
  rows.forEach((row, r) =>
    [0, 1, 2, 3].forEach((q) => {
      tile.store(row, column.mul(4).add(q), item(sums, r).get().lane(q))
    }),
  )
}

export const matmulRegisters: Form<MatmulParams> = {
  name: 'registers',
  fits: isGpu,
  work: (caps, params) => ({ launches: [gpuLaunch(caps, registers(traitsOf(params, REGISTER_TILE.step)), params, REGISTER_TILE)] }),
}

const registers = template<GpuTraits>({ family: 'matmul', form: 'registers' }, (traits, kernel) =>
  kernel(`matmul_${traits.type}`, { params: gpuParams(traits), workgroup: [REGISTER_TILE.lanes] }, (p, k) => {
    const { rows, columns, step, lanes } = REGISTER_TILE
    eachTile(k, traits, p, REGISTER_TILE, ({ rowFirst, columnFirst, left, right, store }, k) => {
      const team = { lane: k.lane, lanes }
      multiplyRegisters(k, {
        inner: p.k,
        stage: (from, putRow, putColumn) => {
          eachFour(k, team, left, rows, step, (i, v) => putRow(i, v, readFour(k, left, rowFirst.add(i), from.add(v.mul(4)))))
          eachFour(k, team, right, columns, step, (i, v) => putColumn(i, v, readFour(k, right, columnFirst.add(i), from.add(v.mul(4)))))
        },
        store: (row, column, sum) => store(rowFirst.add(row), columnFirst.add(column), sum),
      })
    })
  }),
)
