// RMSNorm and LayerNorm over the last axis: y = (x - mean?) * rsqrt(mean square + eps) * weight? + bias?
// One workgroup per row. LayerNorm takes two passes (mean, then centred squares), so that large means cost no accuracy.

import type { Caps } from '../../base/caps.ts'
import type { Vector, Width } from '../../base/dtype.ts'
import { type LaneScope, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value } from '../../ir/value.ts'
import { elements } from '../element.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, flatGrid, flatGroup, teamFor } from '../lanes.ts'
import { type Write, combinations, template } from '../template.ts'
import { type FloatSource, type FloatType, floatSource, floatTarget, toleranceOf } from './float-row.ts'

export interface NormParams {
  readonly kind: 'rms' | 'layer'
  readonly rows: number
  readonly cols: number
  readonly eps: number
  readonly weight: boolean
  readonly bias: boolean
  /** of x and the result; f32 if not given */
  readonly type?: FloatType
  /** of weight and bias; f32 if not given */
  readonly scaleType?: FloatType
}

/** What a kernel is written for. */
type NormTraits = Required<Pick<NormParams, 'kind' | 'weight' | 'bias' | 'type' | 'scaleType'>> & Team & { readonly width: Width }

const vectors = template({ family: 'norm', form: 'vectors' }, writeNorm)
const lanes = template({ family: 'norm', form: 'lanes' }, writeNorm)

export const norm = family<NormParams>({
  name: 'norm',
  about: 'RMSNorm or LayerNorm of each row, with optional weight and bias',
  tolerance: ({ type = 'f32' }) => toleranceOf(type, 1e-12),
  cases: [
    { kind: 'rms', rows: 3, cols: 256, eps: 1e-5, weight: true, bias: false, type: 'f32', scaleType: 'f32' },
    { kind: 'rms', rows: 2, cols: 67, eps: 1e-6, weight: false, bias: false },
    { kind: 'rms', rows: 1, cols: 1000, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 3, cols: 193, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 1, cols: 1, eps: 1e-5, weight: true, bias: false },
    { kind: 'rms', rows: 30, cols: 16, eps: 1e-5, weight: true, bias: false },
    { kind: 'layer', rows: 5, cols: 2048, eps: 1e-12, weight: false, bias: false },
    { kind: 'rms', rows: 2, cols: 35, eps: 1e-5, weight: false, bias: true },
    { kind: 'layer', rows: 2, cols: 35, eps: 1e-5, weight: false, bias: true },
    ...(['rms', 'layer'] as const).flatMap((kind) =>
      (['f16', 'bf16'] as const).flatMap((type): NormParams[] => [
        { kind, rows: 3, cols: 131, eps: 1e-5, weight: true, bias: true, type },
        { kind, rows: 2, cols: 67, eps: 1e-5, weight: true, bias: true, type, scaleType: type },
      ]),
    ),
  ],
  proofs: [
    { kind: 'rms', rows: 3, cols: 256, eps: 1e-5, weight: true, bias: false },
    { kind: 'layer', rows: 3, cols: 193, eps: 1e-5, weight: true, bias: true },
  ],
  buffers: ({ rows, cols, weight, bias, type = 'f32', scaleType = 'f32' }) => [
    { name: 'x', role: 'in', type, elements: rows * cols },
    ...(weight ? [{ name: 'weight', role: 'in', type: scaleType, elements: cols } as const] : []),
    ...(bias ? [{ name: 'bias', role: 'in', type: scaleType, elements: cols } as const] : []),
    { name: 'y', role: 'out', type, elements: rows * cols },
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
          type: ['f32'],
          scaleType: ['f32'],
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

function work(caps: Caps, params: NormParams, kernelFor: (traits: NormTraits) => Kernel): Work {
  const { kind, rows, cols, eps, weight, bias, type = 'f32', scaleType = 'f32' } = params
  const kernel = kernelFor({ kind, weight, bias, type, scaleType, ...teamFor(caps, cols), width: caps.width })
  return { launches: [{ kernel, uniforms: { rows, cols, eps }, grid: flatGrid(caps, rows) }] }
}

function writeNorm({ kind, weight, bias, type, scaleType, lanes, subgroup, width }: NormTraits, kernel: Write): Kernel {
  const params = {
    x: elements(type, 'read'),
    ...(weight ? { weight: elements(scaleType, 'read') } : {}),
    ...(bias ? { bias: elements(scaleType, 'read') } : {}),
    y: elements(type, 'write'),
    rows: uniform('u32'),
    cols: uniform('u32'),
    eps: uniform('f32'),
  }
  return kernel(`${kind}Norm`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = combineLanes(k, { lanes, subgroup })
    const [x, y] = [floatSource(k, type, p.x), floatTarget(type, p.y)]
    const [scales, shifts] = [p.weight, p.bias].map((memory) => memory && floatSource(k, scaleType, memory))
    const row = k.let('row', flatGroup(k))
    k.when(row.lt(p.rows), () => {
      const start = k.let('start', row.mul(p.cols))
      const sumOver = (f: Each): Value<'f32'> =>
        combine('sum', lanes === 1 ? sumVectors(k, x, start, p.cols, width, f) : sumStrided(k, x, start, p.cols, lanes, f))
      const normalise = normaliser(k, kind, p, sumOver)
      const whole = lanes === 1 ? k.let('whole', p.cols.div(width).mul(width)) : k.const('u32', 0)
      if (lanes === 1) {
        k.for({ name: 'c', to: whole, step: width }, (c) => {
          const at = start.add(c)
          y.store(at, normalise(x.vector(at, width), scales?.vector(c, width), shifts?.vector(c, width)), width)
        })
      }
      k.for({ name: 'c', from: whole.add(k.lane), to: p.cols, step: lanes }, (c) => {
        const at = start.add(c)
        y.set(at, normalise(x.one(at), scales?.one(c), shifts?.one(c)))
      })
    })
  })
}

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
function sumStrided(k: LaneScope, x: FloatSource, start: Value<'u32'>, cols: Value<'u32'>, lanes: number, f: Each): Value<'f32'> {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'c', from: k.lane, to: cols, step: lanes }, (c) => sum.set(sum.get().add(f(x.one(start.add(c))))))
  return sum.get()
}

/** Sum of f over a row with vectors of `width`, and one by one past the last whole vector. */
export function sumVectors(k: LaneScope, x: FloatSource, start: Value<'u32'>, cols: Value<'u32'>, width: Width, f: Each): Value<'f32'> {
  const sums = k.var('sums', k.const('f32', 0).splat(width))
  const whole = k.let('whole', cols.div(width).mul(width))
  k.for({ name: 'c', to: whole, step: width }, (c) => sums.set(sums.get().add(f(x.vector(start.add(c), width)))))
  const sum = k.var('sum', sums.get().hsum())
  k.for({ name: 'c', from: whole, to: cols }, (c) => sum.set(sum.get().add(f(x.one(start.add(c))))))
  return sum.get()
}
