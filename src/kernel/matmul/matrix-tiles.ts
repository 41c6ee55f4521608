// Products on GPUs with 8x8 matrix tiles. A workgroup of four subgroups computes 32 rows by 64 columns of y; each subgroup owns 16 x 32 of
// them as eight tiles with f32 accumulators. Along l both matrices come to workgroup memory, tile by tile, so that every tile is 64
// neighbours there. Two barriers per step of 64.

import type { Caps } from '../../base/caps.ts'
import { item } from '../../base/list.ts'
import type { LaneScope, Scope, Shared, Writable } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isGpu } from '../family.ts'
import { template } from '../template.ts'
import { type GpuTraits, eachTile, gpuLaunch, gpuParams, traitsOf } from './gpu.ts'
import { stepsLeft } from './joined.ts'
import type { MatmulParams } from './params.ts'
import type { MoreSteps } from './registers.ts'
import { eachFour, readFour } from './stage.ts'

type U32 = Value<'u32'>
type Four = Value<'f32x4'>

const SUBGROUP = 32
/** What a workgroup computes of y, the steps of l that are staged at a time, and its lanes. */
export const MATRIX_TILE = { rows: 32, columns: 64, step: 64, lanes: 4 * SUBGROUP } as const
const { rows: ROWS, columns: COLUMNS, step: STEP, lanes: LANES } = MATRIX_TILE
const SIDE = 8
const TILE = SIDE * SIDE

export const TILE_KERNEL = { workgroup: [LANES], subgroup: SUBGROUP } as const

export function hasTiles(caps: Caps): boolean {
  return isGpu(caps) && caps.tiles && caps.subgroup === SUBGROUP
}

/** Takes four numbers along l, from a multiple of four on, of row or column `i`. */
export type PutFour = (i: U32, l: U32, four: Four) => void

export interface MatrixTile {
  /** l */
  readonly inner: Value<'u32', 'uniform'>
  /** b is staged in halves, which hold all its values */
  readonly half: boolean
  /** b is staged along its columns: `putColumn` takes four neighbouring ones, from `i` on, of step `l` */
  readonly across?: boolean
  /** Brings what is `from` steps of l further on to workgroup memory, the rows of a and the columns of b. */
  stage(from: Value<'u32', 'uniform'>, putRow: PutFour, putColumn: PutFour): void
  /** where the sums go on (joined.ts); of those steps eights are staged, up to all */
  readonly more?: MoreSteps | undefined
  /** Where whole tiles of y can be stored: it has f32, no bias, and all of the workgroup's part; undefined: nowhere. */
  readonly whole?: { readonly inside: Value<'bool', 'uniform'>; readonly y: Writable<'f32'>; readonly corner: U32; readonly pitch: U32 }
  /** Takes an element otherwise; `row` and `column` are counted from the first of the workgroup. */
  store(k: LaneScope, row: U32, column: U32, sum: Value<'f32'>): void
}

/** All of what a workgroup does. */
export function multiplyTiles(k: Scope, { inner, half, across = false, stage, more, whole, store }: MatrixTile): void {
  const right = k.shared('right', half ? 'f16' : 'f32', COLUMNS * STEP)
  const left = k.shared('left', 'f32', ROWS * STEP)
  // This subgroup's tiles, counted from the workgroup's first.
  const [columnTile, rowTile] = [k.let('columnTile', k.subgroupId.and(1).mul(4)), k.let('rowTile', k.subgroupId.shr(1).mul(2))]
  const sums = [0, 1].map(() => [0, 1, 2, 3].map(() => k.var('sum', k.tileFill('f32', 0))))
  const putRow: PutFour = (i, l, four) => left.store(placeOf(i, l), four)
  const putColumn: PutFour = (i, l, four) => {
    const place = across ? placeAcross(i, l) : placeOf(i, l)
    if (half) (right as Writable<'f16'>).store(place, four.to('f16'))
    else (right as Writable<'f32'>).store(place, four)
  }
  const multiply = (loop: { readonly to: number | Value<'u32', 'uniform'>; readonly unroll?: true }): void => {
    k.barrier()
    k.for({ name: 'step', ...loop }, (step) => {
      const tileAt = (tile: U32): U32 =>
        tile
          .mul(STEP / SIDE)
          .add(step)
          .mul(TILE)
      const rows = [0, 1].map((i) => k.let('row', left.tile(tileAt(rowTile.add(i)), SIDE)))
      const columns = [0, 1, 2, 3].map((i) =>
        k.let('column', (right as Shared<'f16'>).tile(tileAt(columnTile.add(i)), SIDE, { transposed: !across })),
      )
      rows.forEach((row, r) =>
        columns.forEach((column, c) => item(item(sums, r), c).set(k.tileMma(row, column, item(item(sums, r), c).get()))),
      )
    })
    k.barrier()
  }
  k.for({ name: 'from', to: inner, step: STEP }, (from) => {
    stage(from, putRow, putColumn)
    multiply({ to: STEP / SIDE, unroll: true })
  })
  if (more !== undefined) {
    k.for({ name: 'from', to: more.inner, step: STEP }, (from) => {
      const steps = stepsLeft(k, more.inner, from, STEP, SIDE)
      more.stage(from, steps, putRow, putColumn)
      multiply({ to: steps.div(SIDE) })
    })
  }

  const each = (visit: (sum: Value<'f32t'>, row: U32, column: U32) => void): void =>
    sums.forEach((columns, r) => columns.forEach((sum, c) => visit(sum.get(), rowTile.add(r).mul(SIDE), columnTile.add(c).mul(SIDE))))
  const oneByOne = (): void => {
    each((sum, row, column) => left.setTile(row.mul(COLUMNS).add(column), COLUMNS, sum))
    k.barrier()
    k.for({ name: 'e', from: k.lane, to: ROWS * COLUMNS, step: LANES }, (e, k) => {
      store(k, k.let('row', e.div(COLUMNS)), k.let('column', e.and(COLUMNS - 1)), left.at(e))
    })
  }
  if (whole === undefined) return oneByOne()
  const { inside, y, corner, pitch } = whole
  return k.when(inside, () => each((sum, row, column) => y.setTile(row.mul(pitch).add(corner).add(column), pitch, sum)), oneByOne)
}

/** Where element l of row i lies: tiles of 8x8, those along l next to each other. */
function placeOf(i: U32, l: U32): U32 {
  return i
    .shr(3)
    .mul(STEP / SIDE)
    .add(l.shr(3))
    .mul(TILE)
    .add(i.and(7).mul(SIDE))
    .add(l.and(7))
}

/** The same where the numbers of one l are neighbours within a tile. */
function placeAcross(i: U32, l: U32): U32 {
  return i
    .shr(3)
    .mul(STEP / SIDE)
    .add(l.shr(3))
    .mul(TILE)
    .add(l.and(7).mul(SIDE))
    .add(i.and(7))
}

export const matmulTiles: Form<MatmulParams> = {
  name: 'tiles',
  fits: hasTiles,
  work: (caps, params) => ({ launches: [gpuLaunch(caps, tiles(traitsOf(params, STEP)), params, MATRIX_TILE)] }),
}

const tiles = template<GpuTraits>({ family: 'matmul', form: 'tiles' }, (traits, kernel) =>
  kernel(`matmul_${traits.type}_tiles`, { params: gpuParams(traits), ...TILE_KERNEL }, (p, k) => {
    eachTile(k, traits, p, MATRIX_TILE, ({ rowFirst, columnFirst, left, right, first, store }, k) => {
      const team = { lane: k.lane, lanes: LANES }
      const inside = rowFirst.add(ROWS).le(p.m).and(columnFirst.add(COLUMNS).le(p.n))
      const corner = k.let('corner', rowFirst.mul(p.n).add(columnFirst).add(first))
      multiplyTiles(k, {
        inner: p.k,
        half: traits.type === 'f16',
        stage: (from, putRow, putColumn) => {
          eachFour(k, team, left, ROWS, STEP, (i, v) => putRow(i, v.mul(4), readFour(k, left, rowFirst.add(i), from.add(v.mul(4)))))
          eachFour(k, team, right, COLUMNS, STEP, (i, v) =>
            putColumn(i, v.mul(4), readFour(k, right, columnFirst.add(i), from.add(v.mul(4)))),
          )
        },
        ...(traits.type === 'f32' && !traits.bias ? { whole: { inside, y: p.y as Writable<'f32'>, corner, pitch: p.n } } : {}),
        store: (_k, row, column, sum) => store(rowFirst.add(row), columnFirst.add(column), sum),
      })
    })
  }),
)
