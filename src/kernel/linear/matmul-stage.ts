// What the mat-mats of GPUs share: what they are written for, and how they see x and weights of single elements.

import type { Handles, Scope, UniformSpec } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import { joinedOf, joinedRows } from '../matmul/joined.ts'
import type { MoreSteps, PutFour } from '../matmul/registers.ts'
import { type Source, type Team, eachFour, readFour } from '../matmul/stage.ts'
import type { LinearParams, linearParams } from './params.ts'

export interface MatmulTraits {
  readonly format: string
  readonly bias: boolean
  /** the sums go on (../matmul/joined.ts) */
  readonly joined: boolean
  /** the last step goes past the end of k */
  readonly ragged: boolean
  /** rows of x and w start at multiples of four elements */
  readonly aligned: boolean
}

/** For kernels that take k in steps of `step`. */
export function traitsOf({ format, bias, k, rank = 0 }: LinearParams, step: number): MatmulTraits {
  return { format, bias, joined: rank > 0, ragged: k % step !== 0, aligned: k % 4 === 0 }
}

type U32 = Value<'u32'>
type LinearHandles = Handles<ReturnType<typeof linearParams> & { n: UniformSpec<'u32'> }>

/** x, which is seen as vectors of four where rows are aligned. */
export function rowsOf({ ragged, aligned }: MatmulTraits, { x, k, n }: LinearHandles): Source {
  const element = aligned ? undefined : formatOf('f32').element
  return { element, memory: x, rows: n, inner: k, turned: false, aligned, ragged }
}

export function weightsOf({ format, ragged, aligned }: MatmulTraits, { w, k, m }: LinearHandles): Source {
  return { element: formatOf(format).element, memory: w, rows: m, inner: k, turned: false, aligned, ragged }
}

/** The steps along a rank: rows of u and of v, from these on; `unit` is how far l goes from one four to the next. */
export function moreSteps(k: Scope, p: LinearHandles, team: Team, tile: Tile, unit: 1 | 4): MoreSteps | undefined {
  const joined = joinedOf(p)
  if (joined === undefined) return undefined
  const [left, right] = [joinedRows(joined.rank, joined.u, p.n), joinedRows(joined.rank, joined.v, p.m)]
  const bring = (source: Source, first: U32, count: number, from: U32, steps: U32, put: PutFour): void =>
    eachFour(k, team, source, count, steps, (i, v) => put(i, v.mul(unit), readFour(k, source, first.add(i), from.add(v.mul(4)))))
  return {
    inner: joined.rank,
    stage: (from, steps, putRow, putColumn) => {
      bring(left, tile.rowFirst, tile.rows, from, steps, putRow)
      bring(right, tile.outFirst, tile.outs, from, steps, putColumn)
    },
  }
}

/** What a workgroup computes of y. */
interface Tile {
  readonly rowFirst: U32
  readonly rows: number
  readonly outFirst: U32
  readonly outs: number
}
