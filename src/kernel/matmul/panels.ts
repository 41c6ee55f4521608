// Products on CPUs, as the fastest BLAS libraries do them. A workgroup computes a block of y: it packs a run of l of its columns of b, then
// of its rows of a, some at a time (pack.ts), and lets the micro-kernel (micro-kernel.ts) go over every tile of what these give. Whatever
// the transpositions and formats are, only packing differs.
//
// Any grid [x, y, batch] computes whole products: it says how many parts rows and columns are cut into.

import type { Caps } from '../../base/caps.ts'
import { type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK } from '../../quant/format.ts'
import { formatOf } from '../../quant/index.ts'
import { type Form, type Launch, isCpu } from '../family.ts'
import { template } from '../template.ts'
import { ELEMENT_STORAGE, ELEMENT_TYPES, type ElementType } from './element.ts'
import { joinedBinds } from './joined.ts'
import { type Matrix, type Run, packColumns, packColumnsTurned, packRows, packRowsTurned } from './pack.ts'
import { type MatmulParams, batchParams, batchUniforms, countOf, simplify, startsOf } from './params.ts'
import { splitBlocks } from './split.ts'
import { type Output, storeTile } from './store.ts'
import { type TileShape, multiplyTile, tileShape } from './micro-kernel.ts'

type U32 = Value<'u32'>

/** Most bytes of a panel: it stays in the first-level cache while rows of a go by. */
const PANEL_BYTES = 20480
/** Most steps of l that are packed at a time, */
const MOST_RUN = 256
/** and what they are a multiple of: runs of a weight format. */
const RUN_STEP = 32
/** Steps beside these that the last run has room for, if sums go on: a rank seldom takes a run of its own. */
const MORE_STEPS = 64

/** Rows of a and columns of b that are packed at a time: both together stay in the second-level cache. Multiples of what tiles have. */
interface Packing {
  readonly rows: number
  readonly columns: number
}
const PACKING: Packing = { rows: 96, columns: 512 }
/** Where y cannot hold sums meanwhile, workgroup memory does, and b is packed again for all rows that have no place in it. */
const KEPT_PACKING: Packing = { rows: 192, columns: 256 }

interface PanelTraits extends TileShape {
  readonly a: ElementType
  /** any weight format, if it is not that of a; then a lies as [m, k] */
  readonly b: string
  readonly y: ElementType
  readonly bias: boolean
}

/** A product of matrices whose types may differ. */
export interface PanelProduct extends Omit<MatmulParams, 'type'>, Pick<PanelTraits, 'a' | 'b' | 'y'> {
  /** of what the sums go on with (joined.ts); 0 if not given */
  readonly rank?: number
}

/** What whoever multiplies calls a and b. */
interface Factors {
  readonly a: string
  readonly b: string
}

/** The dispatch that computes it. */
export function panelLaunch(caps: Caps, product: PanelProduct, binds: Factors = { a: 'a', b: 'b' }): Launch {
  const { a, b, y, m, n, k, transposeA, transposeB, batch, bias, rank = 0 } = product
  const shape = tileShape(caps)
  const decoded = formatOf(b).element === undefined
  const uniforms = { m, n, k, rank, transposeA: Number(transposeA), transposeB: Number(transposeB), ...batchUniforms(batch) }
  const grid = splitBlocks(caps, shape, { m, n, k: k + rank, batch: countOf(batch), columns: PACKING.columns, decoded })
  return { kernel: panels({ a, b, y, bias, ...shape }), uniforms, grid, binds: { ...binds, ...joinedBinds(rank, binds.a) } }
}

/** Its kernels for these types, with and without a bias. */
export function panelKernels(caps: Caps, types: Pick<PanelTraits, 'a' | 'b' | 'y'>, biases: readonly boolean[] = [false, true]): Kernel[] {
  return biases.map((bias) => panels({ ...types, bias, ...tileShape(caps) }))
}

export const matmulPanels: Form<MatmulParams> = {
  name: 'panels',
  fits: isCpu,
  work: (caps, params) => {
    const { type, ...product } = simplify(params)
    return { launches: [panelLaunch(caps, { a: type, b: type, y: type, ...product })] }
  },
  kernels: (caps) => ELEMENT_TYPES.flatMap((type) => panelKernels(caps, { a: type, b: type, y: type })),
}

const panels = template<PanelTraits>({ family: 'matmul', form: 'panels' }, (traits, kernel) => {
  const { a, b, y, bias, width, rows, vectors, unroll } = traits
  const lanes = vectors * width
  const most = Math.min(MOST_RUN, Math.floor(PANEL_BYTES / (4 * lanes * RUN_STEP)) * RUN_STEP)
  const pitch = most + MORE_STEPS
  const packing = y === 'f32' ? PACKING : KEPT_PACKING
  const params = {
    a: buffer(ELEMENT_STORAGE[a], 'read'),
    b: buffer(formatOf(b).storage, 'read'),
    ...(bias ? { bias: buffer(ELEMENT_STORAGE[y], 'read') } : {}),
    // Of the type of a, which they are bound to where there are none.
    u: buffer(ELEMENT_STORAGE[a], 'read'),
    v: buffer(ELEMENT_STORAGE[a], 'read'),
    rank: uniform('u32'),
    y: buffer(ELEMENT_STORAGE[y], 'readwrite'),
    m: uniform('u32'),
    n: uniform('u32'),
    k: uniform('u32'),
    transposeA: uniform('u32'),
    transposeB: uniform('u32'),
    ...batchParams,
  }
  return kernel(`matmul_${a === b ? b : `${a}_${b}`}`, { params, ...(a === 'f32' && b === 'f32' ? { product: true } : {}) }, (p, k) => {
    const block = { memory: k.shared('block', 'f32', packing.rows * pitch), pitch }
    const panel = { memory: k.shared('panel', 'f32', packing.columns * pitch), pitch, lanes, width }
    const output: Output = {
      type: y,
      y: p.y,
      bias: p.bias,
      n: p.n,
      first: k.let('first', k.workgroupId.z.mul(p.m).mul(p.n)),
      edge: k.shared('edge', 'f32', rows * lanes),
      kept: y === 'f32' ? undefined : { memory: k.shared('kept', 'f32', packing.rows * packing.columns), pitch: packing.columns },
    }
    const starts = startsOf(k, p, k.workgroupId.z)
    const matrixA = (turned: boolean): Matrix => ({
      format: formatOf(a),
      memory: p.a,
      start: starts.a,
      rows: turned ? p.k : p.m,
      length: turned ? p.m : p.k,
    })
    const matrixB = (turned: boolean): Matrix => ({
      format: formatOf(b),
      memory: p.b,
      start: starts.b,
      rows: turned ? p.n : p.k,
      length: turned ? p.k : p.n,
    })
    const joined = { format: formatOf(a), start: k.const('u32', 0) }
    const matrixU: Matrix = { ...joined, memory: p.u, rows: p.m, length: p.rank }
    const shared = { ...joined, memory: p.v }
    const packB = (column: U32, count: U32, { own, more }: Steps): void => {
      const [isOwn, isMore] = [own.length.gt(0), more.length.gt(0)]
      k.when(
        p.transposeB.ne(0),
        () => {
          k.when(isOwn, () => packColumnsTurned(k, panel, matrixB(true), column, count, own))
          k.when(isMore, () => packColumnsTurned(k, panel, { ...shared, rows: p.n, length: p.rank }, column, count, more))
        },
        () => {
          k.when(isOwn, () => packColumns(k, panel, matrixB(false), column, count, own))
          k.when(isMore, () => packColumns(k, panel, { ...shared, rows: p.rank, length: p.n }, column, count, more))
        },
      )
    }
    const packA = (row: U32, count: U32, { own, more }: Steps): void => {
      const straight = (): void => packRows(k, block, matrixA(false), row, count, own, width)
      if (a !== b) straight()
      else k.when(p.transposeA.ne(0), () => packRowsTurned(k, block, matrixA(true), row, count, own), straight)
      k.when(more.length.gt(0), () => packRows(k, block, matrixU, row, count, more, width))
    }

    const down = partOf(k, p.m, k.workgroupId.x, k.gridSize.x, rows)
    // Runs of a weight format are not cut.
    const across = partOf(k, p.n, k.workgroupId.y, k.gridSize.y, formatOf(b).element === undefined ? Math.max(lanes, CHUNK) : lanes)
    const count = p.k.add(most - 1).div(most)
    const step = k.let('step', roundUp(p.k.add(count).sub(1).div(count), RUN_STEP)) // runs that are about alike
    const all = k.let('all', p.k.add(p.rank))
    // Where sums go on, the last run takes all that it has room for.
    const room = k.let('room', p.rank.eq(0).select(step, k.const('u32', pitch)))
    const last = k.let('last', all.max(room).sub(room).add(step).sub(1).div(step).mul(step))
    k.for({ name: 'column', from: across.from, to: across.to, step: packing.columns }, (column) => {
      const columns = k.let('columns', across.to.sub(column).min(packing.columns))
      const eachRun = (body: (run: Steps) => void): void =>
        k.for({ name: 'from', to: last.add(1), step }, (from) => {
          const isLast = k.let('isLast', from.eq(last))
          const length = k.let('length', isLast.select(all.sub(from), step))
          const padded = k.let('padded', roundUp(length, unroll))
          const own = k.let('own', p.k.sub(from.min(p.k)).min(length))
          const rest = k.let('rest', length.sub(own))
          body({
            own: { from, length: own, padded: k.let('ownPadded', rest.eq(0).select(padded, own)) },
            more: { from: from.max(p.k).sub(p.k), length: rest, padded: padded.sub(own), after: own },
            padded,
            isFirst: from.eq(0),
            isLast,
          })
        })
      const eachRow = (body: (row: U32, count: U32) => void): void =>
        k.for({ name: 'row', from: down.from, to: down.to, step: packing.rows }, (row) =>
          body(row, k.let('count', down.to.sub(row).min(packing.rows))),
        )
      const multiply = (run: Steps, row: U32, count: U32): void => {
        packA(row, roundUp(count, rows), run)
        k.for({ name: 'j', to: columns, step: lanes }, (j) => {
          k.for({ name: 'i', to: count, step: rows }, (i) => {
            const place = {
              row: row.add(i),
              column: column.add(j),
              kept: i.mul(packing.columns).add(j),
              rows: count.sub(i),
              columns: columns.sub(j),
              isFirst: run.isFirst,
              isLast: run.isLast,
            }
            const tile = (vectors: number): void => {
              const shape = { width, rows, vectors, unroll }
              const compute = (): void => storeTile(k, shape, output, place, multiplyTile(k, shape, block, i, panel, j, run.padded))
              if (vectors === 1) return compute()
              k.when(place.columns.gt(width * (vectors - 1)), compute, () => tile(vectors - 1))
            }
            tile(vectors)
          })
        })
      }
      if (output.kept === undefined) {
        eachRun((run) => {
          packB(column, columns, run)
          eachRow((row, count) => multiply(run, row, count))
        })
      } else {
        eachRow((row, count) =>
          eachRun((run) => {
            packB(column, columns, run)
            multiply(run, row, count)
          }),
        )
      }
    })
  })
})

/** A run of a product and of what its sums go on with, one behind the other; either may be empty. */
interface Steps {
  readonly own: Run
  readonly more: Run
  /** of both together */
  readonly padded: U32
  readonly isFirst: Value<'bool'>
  readonly isLast: Value<'bool'>
}

/** The part of `count` that number `index` of `parts` has: whole tiles. */
function partOf(k: LaneScope, count: U32, index: U32, parts: U32, step: number): { from: U32; to: U32 } {
  const each = k.let('each', roundUp(count.add(parts).sub(1).div(parts), step))
  const from = k.let('from', index.mul(each))
  return { from, to: k.let('to', from.add(each).min(count)) }
}

function roundUp(count: U32, step: number): U32 {
  return count
    .add(step - 1)
    .div(step)
    .mul(step)
}
