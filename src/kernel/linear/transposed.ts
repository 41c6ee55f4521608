// y [n, k] = x [n, m] times w [m, k], with w in any format as its file has it: what a change of a linear layer's result says about its
// input. Rows of w are runs along y, so decoded runs are rows of the second matrix as they are.

import { type Handles, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK, type Format } from '../../quant/format.ts'
import { FORMATS, formatOf } from '../../quant/index.ts'
import { type Arrays, type Form, family, isCpu, isGpu } from '../family.ts'
import { MATRIX_TILE, TILE_KERNEL, hasTiles, multiplyTiles } from '../matmul/matrix-tiles.ts'
import { panelKernels, panelLaunch } from '../matmul/panels.ts'
import { defineJoined, joinedBuffers, joinedOf, joinedParams, joinedRows } from '../matmul/joined.ts'
import { type MoreSteps, type PutFour, REGISTER_TILE, multiplyAcross } from '../matmul/registers.ts'
import { type Source, type Team, eachFour, readFour } from '../matmul/stage.ts'
import { template } from '../template.ts'

type U32 = Value<'u32'>
type Four = Value<'f32x4'>

export interface TransposedParams {
  readonly format: string
  /** rows of w */
  readonly m: number
  readonly k: number
  /** rows of x */
  readonly n: number
  /** of u [n, rank] times v [rank, k], which is added (../matmul/joined.ts); 0 if not given */
  readonly rank?: number
}

export const linearTransposed = family<TransposedParams>({
  name: 'linearTransposed',
  about: 'rows times a weight matrix of any format as it lies, plus a product of low rank: the gradient of a linear layer',
  tolerance: () => 1e-12,
  cases: [
    { format: 'q4_k', m: 64, k: 256, n: 32 },
    { format: 'q4_k', m: 67, k: 512, n: 45 },
    { format: 'q4_k', m: 299, k: 256, n: 3 },
    { format: 'q8_0', m: 35, k: 608, n: 9 },
    ...['q4_0', 'q5_1', 'q8_0', 'q6_k', 'q2_k', 'iq4_xs', 'mxfp4', 'f32', 'bf16'].map((format) => ({ format, m: 64, k: 256, n: 9 })),
    { format: 'f32', m: 83, k: 193, n: 45 },
    { format: 'f32', m: 1, k: 67, n: 12 },
    { format: 'f32', m: 5, k: 4, n: 1 },
    { format: 'f16', m: 83, k: 193, n: 45 },
    ...[1, 8, 33, 64, 200].map((rank) => ({ format: 'f32', m: 83, k: 193, n: 45, rank })),
    ...[4, 40].map((rank) => ({ format: 'q4_k', m: 67, k: 512, n: 45, rank })),
    { format: 'q8_0', m: 35, k: 608, n: 9, rank: 5 },
  ],
  proofs: [{ format: 'q4_k', m: 19, k: 256, n: 9 }],
  buffers: ({ format, m, k, n, rank = 0 }) => [
    { name: 'x', role: 'in', type: 'f32', elements: n * m },
    { name: 'w', role: 'in', type: format, elements: m * k, cold: true },
    ...joinedBuffers(rank, n, k),
    { name: 'y', role: 'out', type: 'f32', elements: n * k },
  ],
  forms: [
    {
      name: 'panels',
      fits: isCpu,
      work: (caps, { format, m, k, n, rank = 0 }) => {
        const sizes = { m: n, n: k, k: m, transposeA: false, transposeB: false, batch: [], bias: false, rank }
        return { launches: [panelLaunch(caps, { a: 'f32', b: format, y: 'f32', ...sizes }, { a: 'x', b: 'w' })] }
      },
      kernels: (caps) => FORMATS.flatMap(({ name }) => panelKernels(caps, { a: 'f32', b: name, y: 'f32' }, [false])),
    },
    { name: 'tiles', fits: hasTiles, work: tilesWork, tolerance: () => 1e-6 }, // weights are rounded to f16
    { name: 'registers', fits: isGpu, work: registersWork },
  ],
  cost: ({ m, k, n, rank = 0 }) => ({ operations: 2 * (m + rank) * k * n, arithmetic: 'f32' }),
  define: defineTransposed,
})

function defineTransposed(arrays: Arrays, { m, k, n, rank = 0 }: TransposedParams): Arrays {
  const { x, w } = arrays
  const y = new Float64Array(n * k)
  for (let row = 0; row < n; row++) {
    for (let i = 0; i < k; i++) y[row * k + i] = defineJoined(arrays, row, i, rank, k)
    for (let l = 0; l < m; l++) {
      const factor = x?.[row * m + l] ?? 0
      for (let i = 0; i < k; i++) y[row * k + i] = (y[row * k + i] ?? 0) + factor * (w?.[l * k + i] ?? 0)
    }
  }
  return { y: Float32Array.from(y) }
}

interface TransposedTraits {
  readonly format: string
  readonly joined: boolean
  /** the last step goes past the end of m */
  readonly ragged: boolean
  /** rows of x start at multiples of four elements, */
  readonly alignedRows: boolean
  /** and those of w */
  readonly alignedWeights: boolean
}

function traitsOf({ format, m, k, rank = 0 }: TransposedParams, step: number): TransposedTraits {
  return { format, joined: rank > 0, ragged: m % step !== 0, alignedRows: m % 4 === 0, alignedWeights: k % 4 === 0 }
}

const paramsOf = ({ storage }: Format, { alignedRows, joined }: TransposedTraits) => ({
  x: buffer(alignedRows ? 'f32x4' : 'f32', 'read'),
  w: buffer(storage, 'read'),
  ...joinedParams(joined),
  y: buffer('f32', 'write'),
  m: uniform('u32'),
  k: uniform('u32'),
  n: uniform('u32'),
})

/** Takes four neighbouring columns of w, from a multiple of four on, of a row; both are counted from the first of the workgroup. */
type PutColumns = (column: U32, row: U32, four: Four) => void

interface WeightTile {
  readonly format: Format
  readonly memory: Parameters<Format['decode']>[1]
  readonly m: U32
  readonly k: U32
  /** the first row and column */
  readonly from: U32
  readonly first: U32
  readonly steps: number | U32
  readonly columns: number
}

type Staging = Pick<TransposedTraits, 'ragged' | 'alignedWeights'>

/** Rows of w that are past the end are zeros; columns past the end repeat others, and nobody looks at what they give. */
function stageWeights(k: Scope, { lane, lanes }: Team, traits: Staging, tile: WeightTile, put: PutColumns): void {
  const { format, memory, m, k: length, from, first, steps, columns } = tile
  const { element } = format
  const inside = (row: U32, four: Four): Four => (traits.ragged ? from.add(row).lt(m).select(four, 0) : four)
  const rowOf = (row: U32): U32 => (traits.ragged ? from.add(row).min(m.sub(1)) : from.add(row))
  const each = element === undefined ? CHUNK : 4
  const across = columns / each
  k.for({ name: 'e', from: lane, to: typeof steps === 'number' ? steps * across : steps.mul(across), step: lanes }, (e, k) => {
    const [row, part] = [k.let('row', e.div(across)), k.let('part', e.rem(across).mul(each))]
    const own = k.let('own', rowOf(row).mul(length))
    if (element === undefined) {
      const column = first.add(part).min(length.sub(CHUNK))
      format
        .decode(k, memory, own.add(column).div(CHUNK))
        .forEach((four, v) => put(part.add(4 * v), row, inside(row, k.let('decoded', four))))
      return
    }
    if (traits.alignedWeights) {
      put(part, row, inside(row, element.four(memory, own.add(first.add(part).min(length.sub(4))))))
      return
    }
    const one = (q: number): Value<'f32'> => element.one(memory, own.add(first.add(part).add(q).min(length.sub(1))))
    put(part, row, inside(row, k.vec(one(0), one(1), one(2), one(3))))
  })
}

const registers = template<TransposedTraits>({ family: 'linearTransposed', form: 'registers' }, (traits, kernel) => {
  const { rows, columns, step, lanes } = REGISTER_TILE
  const format = formatOf(traits.format)
  return kernel(
    `transposed_${format.name}${traits.joined ? '_joined' : ''}`,
    { params: paramsOf(format, traits), workgroup: [lanes] },
    (p, k) => {
      const [first, rowFirst] = [k.let('first', k.workgroupId.x.mul(columns)), k.let('rowFirst', k.workgroupId.y.mul(rows))]
      const left = rowsOf(traits, p)
      const team = { lane: k.lane, lanes }
      multiplyAcross(k, {
        inner: p.m,
        stage: (from, putRow, putColumn) => {
          const tile = { format, memory: p.w, m: p.m, k: p.k, from, first, steps: step, columns }
          stageWeights(k, team, traits, tile, (column, row, four) => putColumn(row, column.shr(2), four))
          eachFour(k, team, left, rows, step, (i, v) => putRow(i, v, readFour(k, left, rowFirst.add(i), from.add(v.mul(4)))))
        },
        more: moreSteps(
          k,
          team,
          traits,
          p,
          { rowFirst, rows, first, columns, unit: 1 },
          (putColumn) => (column, row, four) => putColumn(row, column.shr(2), four),
        ),
        store: (r, c, sum) => {
          const [column, row] = [first.add(c), rowFirst.add(r)]
          k.when(column.lt(p.k).and(row.lt(p.n)), () => p.y.set(row.mul(p.k).add(column), sum))
        },
      })
    },
  )
})

const tiles = template<TransposedTraits>({ family: 'linearTransposed', form: 'tiles' }, (traits, kernel) => {
  const { rows, columns, step, lanes } = MATRIX_TILE
  const format = formatOf(traits.format)
  return kernel(
    `transposed_${format.name}_tiles${traits.joined ? '_joined' : ''}`,
    { params: paramsOf(format, traits), ...TILE_KERNEL },
    (p, k) => {
      const [first, rowFirst] = [k.let('first', k.workgroupId.x.mul(columns)), k.let('rowFirst', k.workgroupId.y.mul(rows))]
      const left = rowsOf(traits, p)
      const team = { lane: k.lane, lanes }
      multiplyTiles(k, {
        inner: p.m,
        half: format.name !== 'f32' && format.name !== 'bf16',
        across: true,
        stage: (from, putRow, putColumn) => {
          const tile = { format, memory: p.w, m: p.m, k: p.k, from, first, steps: step, columns }
          stageWeights(k, team, traits, tile, putColumn)
          eachFour(k, team, left, rows, step, (i, v) => putRow(i, v.mul(4), readFour(k, left, rowFirst.add(i), from.add(v.mul(4)))))
        },
        more: moreSteps(k, team, traits, p, { rowFirst, rows, first, columns, unit: 4 }, (putColumn) => putColumn),
        whole: {
          inside: first.add(columns).le(p.k).and(rowFirst.add(rows).le(p.n)),
          y: p.y,
          corner: k.let('corner', rowFirst.mul(p.k).add(first)),
          pitch: p.k,
        },
        store: (k, r, c, sum) => {
          const [column, row] = [k.let('column', first.add(c)), k.let('row', rowFirst.add(r))]
          k.when(column.lt(p.k).and(row.lt(p.n)), () => p.y.set(row.mul(p.k).add(column), sum))
        },
      })
    },
  )
})

interface MoreTile {
  readonly rowFirst: U32
  readonly rows: number
  readonly first: U32
  readonly columns: number
  /** how far l goes from one four of a row to the next */
  readonly unit: 1 | 4
}

/** The steps along a rank: v lies as a weight of f32 does. */
function moreSteps(
  k: Scope,
  team: Team,
  { alignedWeights }: TransposedTraits,
  p: Handles<ReturnType<typeof paramsOf>>,
  { rowFirst, rows, first, columns, unit }: MoreTile,
  across: (put: PutFour) => PutColumns,
): MoreSteps | undefined {
  const joined = joinedOf(p)
  if (joined === undefined) return undefined
  const left = joinedRows(joined.rank, joined.u, p.n)
  return {
    inner: joined.rank,
    stage: (from, steps, putRow, putColumn) => {
      const tile = { format: formatOf('f32'), memory: joined.v, m: joined.rank, k: p.k, from, first, steps, columns }
      stageWeights(k, team, { ragged: true, alignedWeights }, tile, across(putColumn))
      eachFour(k, team, left, rows, steps, (i, v) => putRow(i, v.mul(unit), readFour(k, left, rowFirst.add(i), from.add(v.mul(4)))))
    },
  }
}

function rowsOf({ ragged, alignedRows }: TransposedTraits, { x, m, n }: { x: Source['memory']; m: U32; n: U32 }): Source {
  const element = alignedRows ? undefined : formatOf('f32').element
  return { element, memory: x, rows: n, inner: m, turned: false, aligned: alignedRows, ragged }
}

function registersWork(_caps: unknown, params: TransposedParams): ReturnType<Form<TransposedParams>['work']> {
  const { m, k, n, rank = 0 } = params
  const grid = [Math.ceil(k / REGISTER_TILE.columns), Math.ceil(n / REGISTER_TILE.rows), 1] as const
  return {
    launches: [{ kernel: registers(traitsOf(params, REGISTER_TILE.step)), uniforms: { m, k, n, ...(rank > 0 ? { rank } : {}) }, grid }],
  }
}

function tilesWork(_caps: unknown, params: TransposedParams): ReturnType<Form<TransposedParams>['work']> {
  const { m, k, n, rank = 0 } = params
  const grid = [Math.ceil(k / MATRIX_TILE.columns), Math.ceil(n / MATRIX_TILE.rows), 1] as const
  return { launches: [{ kernel: tiles(traitsOf(params, MATRIX_TILE.step)), uniforms: { m, k, n, ...(rank > 0 ? { rank } : {}) }, grid }] }
}
