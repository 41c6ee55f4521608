// Softmax over the last axis, y = exp(x - max) / sum of exp(x - max), or its logarithm, y = x - max - log of that sum. One workgroup per
// row. On GPUs maximum and sum come out of one pass over memory: a sum that is scaled down whenever the maximum rises; a second pass
// writes. On CPUs a row stays in the cache, and exponentials take the time: each is computed once, if the result can hold it meanwhile.
// Entries of -Infinity give 0. A row of nothing but -Infinity gives zeros, which is what a fully masked row should weigh. The logarithm
// of either is -Infinity.

import type { Caps } from '../../base/caps.ts'
import type { Vector, Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { type LaneScope, type Var, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { expBelowZero } from '../../ir/math.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { elements } from '../element.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, flatGrid, flatGroup, teamFor } from '../lanes.ts'
import { type Write, combinations, template } from '../template.ts'
import { type FloatSource, type FloatType, floatSource, floatTarget, toleranceOf } from './float-row.ts'

export interface SoftmaxParams {
  readonly rows: number
  readonly cols: number
  /** of elements and results; f32 if not given */
  readonly type?: FloatType
  /** the logarithm of the softmax */
  readonly log?: boolean
}

/** Where the maximum starts: finite, so that differences of it are never NaN. Entries below it count as -Infinity. */
const LOWEST = -1e38
const MOST_LANES = 1024
/** Vectors that a CPU works on at a time: a sum need not wait for the one before it. */
const STREAMS = 4

/** What a kernel is written for. */
type SoftmaxTraits = Required<Pick<SoftmaxParams, 'type' | 'log'>> & Team & { readonly width: Width }

const vectors = template({ family: 'softmax', form: 'vectors' }, writeVectors)
const lanes = template({ family: 'softmax', form: 'lanes' }, writeLanes)

export const softmax = family<SoftmaxParams>({
  name: 'softmax',
  about: 'softmax of each row, or its logarithm',
  tolerance: ({ type = 'f32' }) => toleranceOf(type, 1e-11),
  cases: [
    { rows: 3, cols: 256, type: 'f32', log: false },
    { rows: 1, cols: 1 },
    { rows: 31, cols: 3 },
    { rows: 2, cols: 67 },
    { rows: 3, cols: 193 },
    { rows: 1, cols: 5000 },
    { rows: 3, cols: 67, log: true },
    { rows: 31, cols: 3, log: true },
    { rows: 1, cols: 5000, log: true },
    ...combinations<SoftmaxParams>({ rows: [3], cols: [67, 1030], type: ['f16', 'bf16'], log: [false, true] }),
  ],
  buffers: ({ rows, cols, type = 'f32' }) => [
    { name: 'x', role: 'in', type, elements: rows * cols },
    { name: 'y', role: 'out', type, elements: rows * cols },
  ],
  // Every fifth entry or so is masked, and where there are several rows one is masked as a whole; but where the result would be an infinity
  // as a half, which WGSL leaves open.
  inputs: ({ rows, cols, type, log }, random) => ({
    x: Float32Array.from({ length: rows * cols }, (_, i) => {
      const isMasked = (rows > 2 && i < cols) || (cols > 3 && random() < 0.2)
      return isMasked && !(log === true && type === 'f16') ? -Infinity : 40 * random() - 20
    }),
  }),
  proofs: [{ rows: 2, cols: 67 }],
  forms: [
    {
      name: 'vectors',
      fits: isCpu,
      work: (caps, params) => work(caps, params, vectors),
      kernels: ({ width }) => [false, true].map((log) => vectors({ type: 'f32', log, lanes: 1, subgroup: 0, width })),
    },
    { name: 'lanes', fits: isGpu, work: (caps, params) => work(caps, params, lanes) },
  ],
  define: ({ x = NONE }, { rows, cols, log = false }) => {
    const y = new Float32Array(rows * cols)
    for (let row = 0; row < rows; row++) {
      const values = Array.from(x.subarray(row * cols, (row + 1) * cols))
      const max = values.reduce((a, b) => Math.max(a, b), -Infinity)
      const weights = values.map((v) => (max === -Infinity ? 0 : Math.exp(v - max)))
      const sum = weights.reduce((a, b) => a + b, 0)
      weights.forEach((w, c) => {
        const entry = values[c] ?? Number.NaN
        y[row * cols + c] = !log ? (sum === 0 ? 0 : w / sum) : sum === 0 ? -Infinity : entry - max - Math.log(sum)
      })
    }
    return { y }
  },
  // difference, exponential, sum and quotient of each element, and the maximum
  cost: ({ rows, cols }) => ({ operations: 5 * rows * cols, arithmetic: 'f32' }),
})

function work(caps: Caps, { rows, cols, type = 'f32', log = false }: SoftmaxParams, kernelFor: (traits: SoftmaxTraits) => Kernel): Work {
  const kernel = kernelFor({ type, log, ...teamFor(caps, cols, MOST_LANES), width: caps.width })
  return { launches: [{ kernel, uniforms: { rows, cols }, grid: flatGrid(caps, rows) }] }
}

function writeLanes({ type, log, lanes, subgroup }: SoftmaxTraits, kernel: Write): Kernel {
  const params = { x: elements(type, 'read'), y: elements(type, 'write'), rows: uniform('u32'), cols: uniform('u32') }
  return kernel(log ? 'logSoftmax' : 'softmax', { params, workgroup: [lanes], subgroup }, ({ rows, cols, ...p }, k) => {
    const [x, y] = [floatSource(k, type, p.x), floatTarget(type, p.y)]
    const combine = combineLanes(k, { lanes, subgroup })
    const row = k.let('row', flatGroup(k))
    k.when(row.lt(rows), () => {
      const start = k.let('start', row.mul(cols))
      const mine = runStrided(k, x, start, cols, lanes)
      const max = combine('max', mine.max)
      const sum = combine('sum', mine.sum.mul(mine.max.sub(max).exp()))
      const scale = k.let('scale', scaleOf(k, sum, log))
      k.for({ name: 'c', from: k.lane, to: cols, step: lanes }, (c) => y.set(start.add(c), weigh(x.one(start.add(c)), max, scale, log)))
    })
  })
}

function writeVectors({ type, log, width }: SoftmaxTraits, kernel: Write): Kernel {
  const keeps = type === 'f32' && !log // exponentials, until it is known what they are divided by
  const params = { x: elements(type, 'read'), y: elements(type, keeps ? 'readwrite' : 'write'), rows: uniform('u32'), cols: uniform('u32') }
  return kernel(log ? 'logSoftmax' : 'softmax', { params, workgroup: [1], subgroup: 0 }, ({ rows, cols, ...p }, k) => {
    const [x, y] = [floatSource(k, type, p.x), floatTarget(type, p.y)]
    const row = k.let('row', flatGroup(k))
    k.when(row.lt(rows), () => {
      const start = k.let('start', row.mul(cols))
      const blocks = k.let('blocks', cols.div(STREAMS * width).mul(STREAMS * width))
      const whole = k.let('whole', cols.div(width).mul(width))
      /** Several vectors at a time, of which each has its own `stream`, then the rest. */
      const each = (vector: (at: Value<'u32'>, stream: number) => void, one: (at: Value<'u32'>) => void): void => {
        k.for({ name: 'c', to: blocks, step: STREAMS * width }, (c) => {
          for (let stream = 0; stream < STREAMS; stream++) vector(start.add(c).add(stream * width), stream)
        })
        k.for({ name: 'c', from: blocks, to: whole, step: width }, (c) => vector(start.add(c), 0))
        k.for({ name: 'c', from: whole, to: cols }, (c) => one(start.add(c)))
      }
      const streams = (name: string, value: number): Var<Vector<'f32'>>[] =>
        Array.from({ length: STREAMS }, () => k.var(name, k.const('f32', value).splat(width)))
      const together = (all: readonly Var<Vector<'f32'>>[], join: (a: VectorOf<'f32'>, b: VectorOf<'f32'>) => VectorOf<'f32'>) =>
        all.map((each) => each.get()).reduce(join)
      const maxes = streams('maxes', LOWEST)
      const highest = k.var('highest', k.const('f32', LOWEST))
      each(
        (at, stream) => item(maxes, stream).set(item(maxes, stream).get().max(x.vector(at, width))), // NaN is seen by the sum
        (at) => highest.set(highest.get().max(x.one(at))),
      )
      const max = k.let('max', highest.get().max(together(maxes, (a, b) => a.max(b)).hmax()))
      const sums = streams('sums', 0)
      const rest = k.var('rest', k.const('f32', 0))
      each(
        (at, stream) => {
          const weights = k.let('weights', expBelowZero(x.vector(at, width).sub(max)))
          if (keeps) y.store(at, weights, width)
          item(sums, stream).set(item(sums, stream).get().add(weights))
        },
        (at) => {
          const weight = k.let('weight', x.one(at).sub(max).exp())
          if (keeps) y.set(at, weight)
          rest.set(rest.get().add(weight))
        },
      )
      const sum = rest.get().add(together(sums, (a, b) => a.add(b)).hsum())
      const scale = k.let('scale', scaleOf(k, sum, log))
      const kept = keeps && 'load' in p.y ? floatSource(k, type, p.y) : undefined
      each(
        (at) => y.store(at, kept ? kept.vector(at, width).mul(scale) : weigh(x.vector(at, width), max, scale, log), width),
        (at) => y.set(at, kept ? kept.one(at).mul(scale) : weigh(x.one(at), max, scale, log)),
      )
    })
  })
}

/** What weights are multiplied with, or logarithms lessened by; nothing is left of a row without weights. */
function scaleOf(k: LaneScope, sum: Value<'f32'>, log: boolean): Value<'f32'> {
  return sum.le(0).select(k.const('f32', 0), log ? sum.log() : k.const('f32', 1).div(sum))
}

function weigh<D extends Floats>(value: Value<D>, max: Value<'f32'>, scale: Value<'f32'>, log: boolean): Value<D> {
  const below = value.sub(max.like(value))
  return log ? below.sub(scale.like(value)) : below.exp().mul(scale.like(value))
}

type Floats = 'f32' | Vector<'f32'>

/** A maximum and the sum of exp(x - maximum), of the entries seen so far. */
interface Running<D extends Floats> {
  readonly max: Value<D>
  readonly sum: Value<D>
}

/** One more entry, with one exponential: whichever of sum and entry belongs to the lower maximum is scaled down. */
function include<D extends Floats>({ max, sum }: Running<D>, value: Value<D>): Running<D> {
  const factor = value.sub(max).abs().neg().exp()
  const higher = value.gt(max)
  return { max: higher.select(value, max), sum: higher.select(sum.fma(factor, 1), sum.add(factor)) }
}

function runStrided(k: LaneScope, x: FloatSource, start: Value<'u32'>, cols: Value<'u32'>, lanes: number): Running<'f32'> {
  const max = k.var('max', k.const('f32', LOWEST))
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'c', from: k.lane, to: cols, step: lanes }, (c) => {
    const next = include({ max: max.get(), sum: sum.get() }, x.one(start.add(c)))
    max.set(next.max)
    sum.set(next.sum)
  })
  return { max: max.get(), sum: sum.get() }
}
