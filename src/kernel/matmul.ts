// y [n, m] = x [n, k] times w [m, k] transposed, for many rows of x (prefill). Weights are decoded once per tile.
// Forms: 8x8 matrix tiles of a subgroup fed through shared memory; register tiles of a workgroup fed the same way; on CPUs one
// lane decodes a few rows of w into scratch and takes all rows of x along them.

import type { Caps } from '../base/caps.ts'
import { type Range, type Scope, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Value } from '../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../quant/format.ts'
import { formatOf } from '../quant/index.ts'
import { type LinearParams, defineLinear, linearBuffers } from './linear-params.ts'
import { matmulSerial } from './matmul-serial.ts'
import { matmulTiles } from './matmul-tiles.ts'
import type { KernelRecord, Work } from './record.ts'

/** one workgroup computes this many outputs (rows of w) for this many rows of x */
const TILE_M = 64
const TILE_N = 32
/** k is taken in steps of one chunk of weights */
const TILE_K = CHUNK

export const matmul: KernelRecord<LinearParams> = {
  name: 'matmul',
  about: 'many vectors times a weight matrix of any format',
  tolerance: 5e-7,
  cases: [
    { format: 'q4_k', m: 64, k: 256, n: 32, bias: false },
    { format: 'q4_k', m: 67, k: 512, n: 45, bias: true },
    ...['q4_0', 'q8_0', 'q6_k', 'mxfp4'].map((format) => ({ format, m: 32, k: 256, n: 9, bias: false })),
    ...['f32', 'f16'].flatMap((format) => [
      { format, m: 83, k: 193, n: 45, bias: true }, { format, m: 64, k: 64, n: 33, bias: false }, { format, m: 1, k: 67, n: 12, bias: false },
    ]),
  ],
  buffers: linearBuffers,
  work,
  define: defineLinear,
}

function work(caps: Caps, params: LinearParams): Work {
  if (caps.lanes === 1) return matmulSerial(params)
  if (caps.tiles && caps.subgroup === 32) return matmulTiles(params)
  const { format, m, k: inner, n, bias } = params
  return { launches: [{ kernel: writeRegisters(formatOf(format), bias), uniforms: { m, k: inner, n }, grid: [Math.ceil(m / TILE_M), Math.ceil(n / TILE_N), 1] }] }
}

const params = (format: Format, bias: boolean) => ({
  x: buffer('f32', 'read'), w: buffer(format.storage, 'read'),
  ...(bias ? { bias: buffer('f32', 'read') } : {}),
  y: buffer('f32', 'write'), m: uniform('u32'), k: uniform('u32'), n: uniform('u32'),
})

/** 128 lanes; each keeps 4 outputs x 4 rows in registers. */
function writeRegisters(format: Format, bias: boolean): Kernel {
  const LANES = 128
  return kernel(`matmul_${format.name}`, { params: params(format, bias), workgroup: [LANES] }, (p, k) => {
    // Stored by k, so that the four values a lane needs of each step lie together.
    const a = k.shared('a', 'f32', TILE_K * TILE_M)
    const b = k.shared('b', 'f32', TILE_K * TILE_N)
    const [outFirst, rowFirst] = [k.let('outFirst', k.workgroupId.x.mul(TILE_M)), k.let('rowFirst', k.workgroupId.y.mul(TILE_N))]
    const out = k.let('out', k.lane.rem(TILE_M / 4).mul(4))
    const row = k.let('row', k.lane.div(TILE_M / 4).mul(4))
    const sums = [0, 1, 2, 3].map(() => k.var('sum', k.const('f32', 0).splat(4)))
    k.for(steps(p.k), (from) => {
      stageWeights(k, { format, w: p.w, m: p.m, inner: p.k, first: outFirst, from, lanes: LANES }, (i, j, value) => a.set(j.mul(TILE_M).add(i), value))
      stageRows(k, { x: p.x, n: p.n, inner: p.k, first: rowFirst, from, lanes: LANES }, (i, j, value) => b.set(j.mul(TILE_N).add(i), value))
      k.barrier()
      k.for({ name: 'j', to: TILE_K }, (j) => {
        const weights = a.load(j.mul(TILE_M).add(out), 4)
        const rows = b.load(j.mul(TILE_N).add(row), 4)
        sums.forEach((sum, r) => sum.set(sum.get().add(weights.mul(rows.lane(r)))))
      })
      k.barrier()
    })
    sums.forEach((sum, r) => {
      const four = k.let('four', sum.get())
      for (let o = 0; o < 4; o++) {
        const [m, n] = [outFirst.add(out).add(o), rowFirst.add(row).add(r)]
        k.when(m.lt(p.m).and(n.lt(p.n)), () => {
          const value = four.lane(o)
          p.y.set(n.mul(p.m).add(m), p.bias === undefined ? value : value.add(p.bias.at(m)))
        })
      }
    })
  })
}

function steps(inner: Value<'u32', 'uniform'>): Range<'uniform'> {
  return { name: 'from', to: inner, step: TILE_K }
}

type Put = (i: Value<'u32'>, j: Value<'u32'>, value: Value<'f32'>) => void
interface Stage { readonly inner: Value<'u32'>; readonly first: Value<'u32'>; readonly from: Value<'u32'>; readonly lanes: number }

/** Decodes a chunk of each of TILE_M rows of w; rows past the end repeat the last. Element (i, j): row i of the tile, k j. */
function stageWeights(k: Scope, { format, w, m, inner, first, from, lanes }: Stage & { format: Format; w: Weights; m: Value<'u32'> }, put: Put): void {
  const { element } = format
  if (element === undefined) {
    k.for({ name: 'i', from: k.lane, to: TILE_M, step: lanes }, (i, body) => {
      const chunk = first.add(i).min(m.sub(1)).mul(inner.div(CHUNK)).add(from.div(CHUNK))
      format.decode(body, w, chunk).forEach((four, v) => [0, 1, 2, 3].forEach((lane) => put(i, k.const('u32', 4 * v + lane), four.lane(lane))))
    })
    return
  }
  k.for({ name: 'e', from: k.lane, to: TILE_M * TILE_K, step: lanes }, (e) => {
    const [i, j] = [e.div(TILE_K), e.and(TILE_K - 1)]
    stageOne(k, first.add(i), m, from.add(j), inner, (index) => element.one(w, index), (value) => put(i, j, value))
  })
}

/** The same for TILE_N rows of x. */
function stageRows(k: Scope, { x, n, inner, first, from, lanes }: Stage & { x: Weights<'f32'>; n: Value<'u32'> }, put: Put): void {
  k.for({ name: 'e', from: k.lane, to: TILE_N * TILE_K, step: lanes }, (e) => {
    const [i, j] = [e.div(TILE_K), e.and(TILE_K - 1)]
    stageOne(k, first.add(i), n, from.add(j), inner, (index) => x.at(index), (value) => put(i, j, value))
  })
}

/** One element of a matrix, 0 past its end along k. */
function stageOne(
  k: Scope, row: Value<'u32'>, rows: Value<'u32'>, at: Value<'u32'>, inner: Value<'u32'>,
  read: (index: Value<'u32'>) => Value<'f32'>, put: (value: Value<'f32'>) => void,
): void {
  const value = read(row.min(rows.sub(1)).mul(inner).add(at.min(inner.sub(1))))
  put(at.lt(inner).select(value, k.const('f32', 0)))
}

