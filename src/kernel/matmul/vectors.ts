// Products of a matrix and a few vectors, from either side: they wait for memory, so the matrix is read once, in the order it lies. Where
// its rows go along l they are dot products, which linear knows best; where they go along the result, each is added to it, times a number.

import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type Form, type Launch, isCpu } from '../family.ts'
import { linear } from '../linear/linear.ts'
import { MATVEC_ROWS } from '../linear/params.ts'
import { combinations, template } from '../template.ts'
import { type MatmulParams, simplify } from './params.ts'

type U32 = Value<'u32'>

/** Which buffers are the vectors, x, and the matrix, w; and how many vectors and columns there are. */
interface Vectors {
  readonly binds: { readonly x: 'a' | 'b'; readonly w: 'a' | 'b' }
  readonly rows: number
  readonly columns: number
}

function vectorsOf({ m, n }: MatmulParams, x: 'a' | 'b'): Vectors {
  return x === 'a' ? { binds: { x, w: 'b' }, rows: m, columns: n } : { binds: { x, w: 'a' }, rows: n, columns: m }
}

/** Rows along l, times a matrix of such rows. */
function findDots(params: MatmulParams): Vectors | undefined {
  const { type, m, n, transposeA, transposeB, batch, bias } = params
  if (type !== 'f32' || batch.length > 0 || transposeA) return undefined
  if (m <= MATVEC_ROWS && (transposeB || n === 1)) return vectorsOf(params, 'a')
  return n === 1 && !bias ? vectorsOf(params, 'b') : undefined
}

export const matmulDots: Form<MatmulParams> = {
  name: 'dots',
  fits: (_caps, params) => findDots(simplify(params)) !== undefined,
  work: (caps, params) => {
    const { binds, rows, columns } = found(findDots(simplify(params)))
    const { launches, ...rest } = linear.work(caps, { format: 'f32', m: columns, n: rows, k: params.k, bias: params.bias })
    // What linear has bound to its own x and w is bound to ours.
    const own: Readonly<Record<string, string>> = binds
    const rebound = (given: Launch['binds'] = {}): Launch['binds'] =>
      Object.fromEntries(Object.entries(given).map(([name, of]) => [name, own[of] ?? of]))
    return { ...rest, launches: launches.map((launch) => ({ ...launch, binds: { ...rebound(launch.binds), ...binds } })) }
  },
}

interface SumTraits {
  /** room for so many vectors */
  readonly rows: number
  readonly bias: boolean
  readonly width: Width
}

const ROWS = [1, 4]
const MOST_ROWS = 4
/** Columns of a workgroup: their sums stay in the first-level cache, and a row of them is a stretch of memory. */
const MOST_COLUMNS = 1024
const LEAST_COLUMNS = 64

/** Vectors times a matrix whose rows go along the result. */
function findSums(params: MatmulParams): Vectors | undefined {
  const { type, m, n, transposeA, transposeB, batch } = params
  if (type !== 'f32' || batch.length > 0) return undefined
  if (m <= MOST_ROWS && !transposeB) return vectorsOf(params, 'a')
  return n <= MOST_ROWS && transposeA ? vectorsOf(params, 'b') : undefined
}

export const matmulSums: Form<MatmulParams> = {
  name: 'sums',
  fits: (caps, params) => isCpu(caps) && findSums(simplify(params)) !== undefined,
  work: ({ width, parallel }, params) => {
    const { m, n, k, transposeA, transposeB, bias, ...rest } = simplify(params)
    const { binds, rows, columns } = found(findSums({ m, n, k, transposeA, transposeB, bias, ...rest }))
    const share = Math.ceil(columns / (2 * parallel) / LEAST_COLUMNS) * LEAST_COLUMNS
    const each = Math.min(share, MOST_COLUMNS)
    const [along, next] = (binds.x === 'a' ? transposeA : !transposeB) ? [rows, 1] : [1, k]
    const places = binds.x === 'a' ? { yRow: n, yColumn: 1, biasRow: 0, biasColumn: 1 } : { yRow: 1, yColumn: n, biasRow: 1, biasColumn: 0 }
    const kernel = sums({ rows: ROWS.find((count) => count >= rows) ?? MOST_ROWS, bias, width })
    const { biasRow, biasColumn, ...spots } = places
    const uniforms = { k, rows, columns, each, xStep: along, xRow: next, ...spots, ...(bias ? { biasRow, biasColumn } : {}) }
    return { launches: [{ kernel, binds, uniforms, grid: [Math.ceil(columns / each), 1, 1] }] }
  },
  kernels: ({ width }) => combinations<SumTraits>({ rows: ROWS, bias: [false, true], width: [width] }).map(sums),
}

const sums = template<SumTraits>({ family: 'matmul', form: 'sums' }, ({ rows, bias, width }, kernel) => {
  // rows of the matrix that are added at a time, so that sums are read and written less often: their factors stay in registers
  const together = rows === 1 ? 4 : 2
  const params = {
    x: buffer('f32', 'read'),
    w: buffer('f32', 'read'),
    ...(bias ? { bias: buffer('f32', 'read'), biasRow: uniform('u32'), biasColumn: uniform('u32') } : {}),
    y: buffer('f32', 'write'),
    k: uniform('u32'),
    rows: uniform('u32'),
    columns: uniform('u32'),
    each: uniform('u32'),
    xRow: uniform('u32'),
    xStep: uniform('u32'),
    yRow: uniform('u32'),
    yColumn: uniform('u32'),
  }
  return kernel(`matmul_sums${rows}`, { params }, (p, k) => {
    const all = Array.from({ length: rows }, (_, r) => ({ r, total: k.shared(`total${r}`, 'f32', MOST_COLUMNS) }))
    const first = k.let('first', k.workgroupId.x.mul(p.each))
    const count = k.let('count', p.columns.sub(first).min(p.each))
    const whole = k.let('whole', count.div(width).mul(width))
    for (const { total } of all) k.for({ name: 'j', to: count }, (j) => total.set(j, 0))
    // vectors past the last repeat it and are not stored
    const vectors = all.map(({ r }) => k.let('vector', p.rows.sub(1).min(r).mul(p.xRow)))
    const add = (l: U32, steps: number): void => {
      const starts = Array.from({ length: steps }, (_, q) => k.let('start', l.add(q).mul(p.columns).add(first)))
      const factors = vectors.map((vector) => starts.map((_, q) => k.let('factor', p.x.at(l.add(q).mul(p.xStep).add(vector)))))
      k.for({ name: 'j', to: whole, step: width }, (j) => {
        const numbers = starts.map((start) => k.let('numbers', p.w.load(start.add(j), width)))
        for (const { r, total } of all) {
          const sum = numbers.reduce<VectorOf<'f32'>>((to, vector, q) => vector.fma(item(item(factors, r), q), to), total.load(j, width))
          total.store(j, sum)
        }
      })
      k.for({ name: 'j', from: whole, to: count }, (j) => {
        const numbers = starts.map((start) => k.let('number', p.w.at(start.add(j))))
        for (const { r, total } of all) {
          total.set(
            j,
            numbers.reduce<Value<'f32'>>((to, number, q) => number.fma(item(item(factors, r), q), to), total.at(j)),
          )
        }
      })
    }
    const even = k.let('even', p.k.div(together).mul(together))
    k.for({ name: 'l', to: even, step: together }, (l) => add(l, together))
    k.for({ name: 'l', from: even, to: p.k }, (l) => add(l, 1))
    for (const { r, total } of all) {
      k.when(p.rows.gt(r), () =>
        k.for({ name: 'j', to: count }, (j) => {
          const column = k.let('column', first.add(j))
          const at = column.mul(p.yColumn).add(p.yRow.mul(r))
          const { bias, biasRow, biasColumn } = p
          const added = bias && biasRow && biasColumn && bias.at(column.mul(biasColumn).add(biasRow.mul(r)))
          p.y.set(at, added === undefined ? total.at(j) : total.at(j).add(added))
        }),
      )
    }
  })
})

function found(vectors: Vectors | undefined): Vectors {
  if (vectors === undefined) throw new TypeError('not a product with a few vectors')
  return vectors
}
