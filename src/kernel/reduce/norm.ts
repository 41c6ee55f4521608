// RMSNorm and LayerNorm over the last axis: y = (x - mean?) * rsqrt(mean square + eps) * weight? + bias?
// One workgroup per row. LayerNorm takes two passes (mean, then centred squares), so that large means cost no accuracy.

import type { Caps } from '../../base/caps.ts'
import type { Vector, Width } from '../../base/dtype.ts'
import { type LaneScope, type Readable, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, flatGrid, flatGroup, teamFor } from '../lanes.ts'
import { type Write, combinations, template } from '../template.ts'

export interface NormParams {
  readonly kind: 'rms' | 'layer'
  readonly rows: number
  readonly cols: number
  readonly eps: number
  readonly weight: boolean
  readonly bias: boolean
}

/** What a kernel is written for. */
type NormTraits = Pick<NormParams, 'kind' | 'weight' | 'bias'> & Team & { readonly width: Width }

const vectors = template({ family: 'norm', form: 'vectors' }, writeNorm)
const lanes = template({ family: 'norm', form: 'lanes' }, writeNorm)

export const norm = family<NormParams>({
  name: 'norm',
  about: 'RMSNorm or LayerNorm of each row, with optional weight and bias',
  tolerance: () => 1e-12,
  cases: [
    { kind: 'rms', rows: 3, cols: 256, eps: 1e-5, weight: true, bias: false },
    { kind: 'rms', rows: 2, cols: 67, eps: 1e-6, weight: false, bias: false },
    { kind: 'rms', rows: 1, cols: 1000, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 3, cols: 193, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 1, cols: 1, eps: 1e-5, weight: true, bias: false },
    { kind: 'rms', rows: 30, cols: 16, eps: 1e-5, weight: true, bias: false },
    { kind: 'layer', rows: 5, cols: 2048, eps: 1e-12, weight: false, bias: false },
    { kind: 'rms', rows: 2, cols: 35, eps: 1e-5, weight: false, bias: true },
    { kind: 'layer', rows: 2, cols: 35, eps: 1e-5, weight: false, bias: true },
  ],
  proofs: [
    { kind: 'rms', rows: 3, cols: 256, eps: 1e-5, weight: true, bias: false },
    { kind: 'layer', rows: 3, cols: 193, eps: 1e-5, weight: true, bias: true },
  ],
  buffers: ({ rows, cols, weight, bias }) => [
    { name: 'x', role: 'in', type: 'f32', elements: rows * cols },
    ...(weight ? [{ name: 'weight', role: 'in', type: 'f32', elements: cols } as const] : []),
    ...(bias ? [{ name: 'bias', role: 'in', type: 'f32', elements: cols } as const] : []),
    { name: 'y', role: 'out', type: 'f32', elements: rows * cols },
  ],
  forms: [
    {
      name: 'vectors',
      fits: isCpu,
      work: (caps, params) => work(caps, params, vectors),
      kernels: ({ width }) =>
        combinations<NormTraits>({
          kind: ['rms', 'layer'],
          weight: [true, false],
          bias: [true, false],
          lanes: [1],
          subgroup: [0],
          width: [width],
        }).map(vectors),
    },
    { name: 'lanes', fits: isGpu, work: (caps, params) => work(caps, params, lanes) },
  ],
  define: ({ x = NONE, weight, bias }, { kind, rows, cols, eps }) => {
    const y = new Float32Array(rows * cols)
    for (let row = 0; row < rows; row++) {
      const values = Array.from(x.subarray(row * cols, (row + 1) * cols))
      const mean = kind === 'layer' ? values.reduce((sum, v) => sum + v, 0) / cols : 0
      const square = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / cols
      values.forEach((v, c) => {
        y[row * cols + c] = ((v - mean) / Math.sqrt(square + eps)) * (weight?.[c] ?? 1) + (bias?.[c] ?? 0)
      })
    }
    return { y }
  },
  // square, sum, scale and weight of each element
  cost: ({ rows, cols }) => ({ operations: 4 * rows * cols, arithmetic: 'f32' }),
})

function work(caps: Caps, { kind, rows, cols, eps, weight, bias }: NormParams, kernelFor: (traits: NormTraits) => Kernel): Work {
  const kernel = kernelFor({ kind, weight, bias, ...teamFor(caps, cols), width: caps.width })
  return { launches: [{ kernel, uniforms: { rows, cols, eps }, grid: flatGrid(caps, rows) }] }
}

function writeNorm({ kind, weight, bias, lanes, subgroup, width }: NormTraits, kernel: Write): Kernel {
  const params = {
    x: buffer('f32', 'read'),
    ...(weight ? { weight: buffer('f32', 'read') } : {}),
    ...(bias ? { bias: buffer('f32', 'read') } : {}),
    y: buffer('f32', 'write'),
    rows: uniform('u32'),
    cols: uniform('u32'),
    eps: uniform('f32'),
  }
  return kernel(`${kind}Norm`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = combineLanes(k, { lanes, subgroup })
    const row = k.let('row', flatGroup(k))
    k.when(row.lt(p.rows), () => {
      const start = k.let('start', row.mul(p.cols))
      const sumOver = (f: Each): Value<'f32'> =>
        combine('sum', lanes === 1 ? sumVectors(k, p.x, start, p.cols, width, f) : sumStrided(k, p.x, start, p.cols, lanes, f))
      const normalise = normaliser(k, kind, p, sumOver)
      const whole = lanes === 1 ? k.let('whole', p.cols.div(width).mul(width)) : k.const('u32', 0)
      if (lanes === 1) {
        k.for({ name: 'c', to: whole, step: width }, (c) => {
          p.y.store(start.add(c), normalise(p.x.load(start.add(c), width), p.weight?.load(c, width), p.bias?.load(c, width)))
        })
      }
      k.for({ name: 'c', from: whole.add(k.lane), to: p.cols, step: lanes }, (c) => {
        p.y.set(start.add(c), normalise(p.x.at(start.add(c)), p.weight?.at(c), p.bias?.at(c)))
      })
    })
  })
}

type Row = Readable<'f32', Uniformity>
type Floats = 'f32' | Vector<'f32'>
type Each = <D extends Floats>(value: Value<D>) => Value<D>
export type Normalise = <D extends Floats>(value: Value<D>, weight?: Value<D>, bias?: Value<D>) => Value<D>

/** What makes of an element of a row, or a vector of them, its normal form; takes sums over the row first. */
export function normaliser(
  k: LaneScope,
  kind: NormParams['kind'],
  p: { cols: Value<'u32'>; eps: Value<'f32'> },
  sumOver: (f: Each) => Value<'f32'>,
): Normalise {
  const count = p.cols.to('f32')
  const mean = kind === 'layer' ? k.let('mean', sumOver((v) => v).div(count)) : undefined
  const centred: Each = (v) => (mean === undefined ? v : v.sub(mean.like(v)))
  const square = sumOver((v) => centred(v).mul(centred(v))).div(count)
  const scale = k.let('scale', square.add(p.eps).rsqrt())
  return (value, weight, bias) => {
    const scaled = centred(value).mul(scale.like(value))
    const weighted = weight === undefined ? scaled : scaled.mul(weight)
    return bias === undefined ? weighted : weighted.add(bias)
  }
}

/** Sum of f over a row, this lane's share. */
function sumStrided(k: LaneScope, x: Row, start: Value<'u32'>, cols: Value<'u32'>, lanes: number, f: Each): Value<'f32'> {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'c', from: k.lane, to: cols, step: lanes }, (c) => sum.set(sum.get().add(f(x.at(start.add(c))))))
  return sum.get()
}

/** Sum of f over a row with vectors of `width`, and one by one past the last whole vector. */
export function sumVectors(k: LaneScope, x: Row, start: Value<'u32'>, cols: Value<'u32'>, width: Width, f: Each): Value<'f32'> {
  const sums = k.var('sums', k.const('f32', 0).splat(width))
  const whole = k.let('whole', cols.div(width).mul(width))
  k.for({ name: 'c', to: whole, step: width }, (c) => sums.set(sums.get().add(f(x.load(start.add(c), width)))))
  const sum = k.var('sum', sums.get().hsum())
  k.for({ name: 'c', from: whole, to: cols }, (c) => sum.set(sum.get().add(f(x.at(start.add(c))))))
  return sum.get()
}
