// Rows of a table in any weight format, chosen by ids: token embeddings. An id past the end gives the last row, so that a bad
// id never reads outside the table. Block formats are decoded in runs of 32; formats of single elements take any row length.

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { CHUNK, type Format } from '../../quant/format.ts'
import { FORMATS, formatOf } from '../../quant/index.ts'
import { type GgmlType, tensorBytes } from '../../quant/type.ts'
import { type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane } from '../lanes.ts'
import { template } from '../template.ts'

export interface GatherParams {
  readonly format: GgmlType
  /** ids, and rows of the result */
  readonly rows: number
  readonly cols: number
  readonly tableRows: number
}

const LANES = 64
/** Elements of a row that one workgroup of a CPU decodes. */
const SERIAL = 1024

const paramsOf = ({ storage }: Format) => ({
  table: buffer(storage, 'read'),
  ids: buffer('u32', 'read'),
  y: buffer('f32', 'write'),
  runs: uniform('u32'),
  last: uniform('u32'),
})

interface GatherTraits {
  readonly format: GgmlType
}

/** A lane per run of 32, or per element. */
const lanes = template<GatherTraits>({ family: 'gather', form: 'lanes' }, (traits, kernel) => {
  const format = formatOf(traits.format)
  const { decode, element } = format
  const params = { ...paramsOf(format), total: uniform('u32') }
  return kernel(`gather_${format.name}`, { params, workgroup: [LANES] }, ({ table, ids, y, runs, last, total }, k) => {
    const run = k.let('run', flatLane(k, LANES))
    k.when(run.lt(total), (k) => {
      const id = ids.at(run.div(runs)).min(last)
      const from = k.let('from', id.mul(runs).add(run.rem(runs)))
      if (element !== undefined) y.set(run, element.one(table, from))
      else decode(k, table, from).forEach((values, i) => y.store(run.mul(CHUNK).add(4 * i), values))
    })
  })
})

/** A workgroup per part of a row. */
const parts = template<GatherTraits>({ family: 'gather', form: 'parts' }, (traits, kernel) => {
  const format = formatOf(traits.format)
  const { decode, element } = format
  const each = element === undefined ? SERIAL / CHUNK : SERIAL
  return kernel(`gather_${format.name}`, { params: paramsOf(format) }, ({ table, ids, y, runs, last }, k) => {
    const row = k.workgroupId.x
    const source = k.let('source', ids.at(row).min(last).mul(runs))
    const target = k.let('target', row.mul(runs))
    const from = k.let('from', k.workgroupId.y.mul(each))
    const to = k.let('to', from.add(each).min(runs))
    if (element === undefined) {
      k.for({ name: 'run', from, to }, (run: Value<'u32'>) => {
        const first = target.add(run).mul(CHUNK)
        decode(k, table, source.add(run)).forEach((values, i) => y.store(first.add(4 * i), values))
      })
      return
    }
    const whole = k.let('whole', from.add(to.sub(from).div(4).mul(4)))
    k.for({ name: 'c', from, to: whole, step: 4 }, (c) => y.store(target.add(c), element.four(table, source.add(c))))
    k.for({ name: 'c', from: whole, to }, (c) => y.set(target.add(c), element.one(table, source.add(c))))
  })
})

export const gather = family<GatherParams>({
  name: 'gather',
  about: 'rows of a table in any weight format, chosen by ids',
  tolerance: () => 0,
  cases: [
    { format: 'q4_k', rows: 3, cols: 512, tableRows: 7 },
    { format: 'f32', rows: 5, cols: 67, tableRows: 9 },
    { format: 'f16', rows: 3, cols: 1030, tableRows: 4 },
    { format: 'bf16', rows: 1, cols: 3, tableRows: 1 },
    { format: 'f32', rows: 2, cols: 1, tableRows: 3 },
    { format: 'q8_0', rows: 4, cols: 96, tableRows: 5 },
    { format: 'q6_k', rows: 2, cols: 1280, tableRows: 3 },
  ],
  buffers: ({ format, rows, cols, tableRows }) => [
    { name: 'table', role: 'in', type: format, elements: tableRows * cols, cold: true },
    { name: 'ids', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'f32', elements: rows * cols },
  ],
  // Some ids lie past the end.
  inputs: ({ rows, tableRows }, random) => ({ ids: Uint32Array.from({ length: rows }, () => Math.floor(random() * (tableRows + 2))) }),
  forms: [
    {
      name: 'parts',
      fits: isCpu,
      work: (_caps, params) => ({
        launches: [
          {
            kernel: parts({ format: params.format }),
            uniforms: { runs: runsOf(params), last: params.tableRows - 1 },
            grid: [params.rows, Math.ceil(params.cols / SERIAL), 1],
          },
        ],
      }),
      kernels: () => FORMATS.map(({ name }) => parts({ format: name })),
    },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  // what is read is a row for each id
  cost: ({ format, rows, cols }) => ({
    operations: 2 * rows * cols,
    arithmetic: 'f32',
    bytes: tensorBytes(format, [cols, rows]) + 4 * rows * cols,
  }),
  define: ({ table, ids }, { rows, cols, tableRows }) => {
    const y = new Float32Array(rows * cols)
    for (let row = 0; row < rows; row++) {
      const id = Math.min(ids![row]!, tableRows - 1)
      for (let c = 0; c < cols; c++) y[row * cols + c] = table![id * cols + c]!
    }
    return { y }
  },
})

/** Runs of 32, or single elements, that make up a row. */
function runsOf({ format, cols }: GatherParams): number {
  const run = formatOf(format).element === undefined ? CHUNK : 1
  if (cols % run === 0) return cols / run
  throw new IngotError('bad-argument', `rows of ${format} must hold whole runs`, {
    op: 'gather',
    got: cols,
    wanted: `a multiple of ${run}`,
  })
}

function lanesWork(caps: Caps, params: GatherParams): Work {
  const runs = runsOf(params)
  const total = params.rows * runs
  const uniforms = { runs, last: params.tableRows - 1, total }
  return { launches: [{ kernel: lanes({ format: params.format }), uniforms, grid: flatGrid(caps, Math.ceil(total / LANES)) }] }
}
