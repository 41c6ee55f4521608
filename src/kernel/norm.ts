// RMSNorm and LayerNorm over the last axis: y = (x - mean?) * rsqrt(mean square + eps) * weight? + bias?
// One workgroup per row. LayerNorm takes two passes (mean, then centred squares), so that large means cost no accuracy.

import type { Caps } from '../base/caps.ts'
import { type LaneScope, type Readable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { combineLanes, flatGrid, flatGroup, lanesFor, subgroupOf } from './lanes.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

export interface NormParams {
  readonly kind: 'rms' | 'layer'
  readonly rows: number
  readonly cols: number
  readonly eps: number
  readonly weight: boolean
  readonly bias: boolean
}

export const norm: KernelRecord<NormParams> = {
  name: 'norm',
  about: 'RMSNorm or LayerNorm of each row, with optional weight and bias',
  tolerance: 1e-7,
  cases: [
    { kind: 'rms', rows: 3, cols: 256, eps: 1e-5, weight: true, bias: false },
    { kind: 'rms', rows: 2, cols: 67, eps: 1e-6, weight: false, bias: false },
    { kind: 'rms', rows: 1, cols: 1000, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 3, cols: 193, eps: 1e-5, weight: true, bias: true },
    { kind: 'layer', rows: 1, cols: 1, eps: 1e-5, weight: true, bias: false },
    { kind: 'rms', rows: 30, cols: 16, eps: 1e-5, weight: true, bias: false },
    { kind: 'layer', rows: 5, cols: 2048, eps: 1e-12, weight: false, bias: false },
  ],
  buffers: ({ rows, cols, weight, bias }) => [
    { name: 'x', role: 'in', type: 'f32', elements: rows * cols },
    ...(weight ? [{ name: 'weight', role: 'in', type: 'f32', elements: cols } as const] : []),
    ...(bias ? [{ name: 'bias', role: 'in', type: 'f32', elements: cols } as const] : []),
    { name: 'y', role: 'out', type: 'f32', elements: rows * cols },
  ],
  work,
  define: ({ x, weight, bias }: Arrays, { kind, rows, cols, eps }) => {
    const y = new Float32Array(rows * cols)
    for (let row = 0; row < rows; row++) {
      const values = Array.from(x!.subarray(row * cols, (row + 1) * cols))
      const mean = kind === 'layer' ? values.reduce((sum, v) => sum + v, 0) / cols : 0
      const square = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / cols
      values.forEach((v, c) => {
        y[row * cols + c] = ((v - mean) / Math.sqrt(square + eps)) * (weight?.[c] ?? 1) + (bias?.[c] ?? 0)
      })
    }
    return { y }
  },
}

function work(caps: Caps, { kind, rows, cols, eps, weight, bias }: NormParams): Work {
  const lanes = lanesFor(caps, cols)
  const written = kernel(
    `${kind}Norm`,
    {
      params: {
        x: buffer('f32', 'read'),
        ...(weight ? { weight: buffer('f32', 'read') } : {}),
        ...(bias ? { bias: buffer('f32', 'read') } : {}),
        y: buffer('f32', 'write'),
        rows: uniform('u32'),
        cols: uniform('u32'),
        eps: uniform('f32'),
      },
      workgroup: [lanes],
      variant: `width ${caps.width}`,
      ...subgroupOf(caps, lanes),
    },
    (p, k) => {
      const combine = combineLanes(k, caps, lanes)
      const row = k.let('row', flatGroup(k))
      k.when(row.lt(p.rows), () => {
        const start = k.let('start', row.mul(p.cols))
        const sumOver = (f: (value: Value<'f32'>) => Value<'f32'>): Value<'f32'> =>
          combine('sum', lanes === 1 ? sumVectors(k, p.x, start, p.cols, caps.width, f) : sumStrided(k, p.x, start, p.cols, lanes, f))
        const normalise = normaliser(k, kind, p, sumOver)
        /** One element, or with a width a vector of them. */
        const write = (c: Value<'u32'>, width?: Width): void => {
          const load = (memory: Row, at: Value<'u32'>): Value<'f32'> =>
            width === undefined ? memory.at(at) : (memory.load(at, width) as unknown as Value<'f32'>)
          const value = normalise(load(p.x, start.add(c)), p.weight && load(p.weight, c), p.bias && load(p.bias, c))
          if (width === undefined) p.y.set(start.add(c), value)
          else p.y.store(start.add(c), value as never)
        }
        const whole = lanes === 1 ? k.let('whole', p.cols.div(caps.width).mul(caps.width)) : k.const('u32', 0)
        if (lanes === 1) k.for({ name: 'c', to: whole, step: caps.width }, (c) => write(c, caps.width))
        k.for({ name: 'c', from: whole.add(k.lane), to: p.cols, step: lanes }, (c) => write(c))
      })
    },
  )
  return { launches: [{ kernel: written, uniforms: { rows, cols, eps }, grid: flatGrid(caps, rows) }] }
}

type Row = Readable<'f32', Uniformity>
type Width = Caps['width']
type Each = (value: Value<'f32'>) => Value<'f32'>
export type Normalise = (value: Value<'f32'>, weight?: Value<'f32'>, bias?: Value<'f32'>) => Value<'f32'>

/** What makes of an element of a row, or a vector of them, its normal form; takes sums over the row first. */
export function normaliser(
  k: LaneScope,
  kind: NormParams['kind'],
  p: { cols: Value<'u32'>; eps: Value<'f32'> },
  sumOver: (f: Each) => Value<'f32'>,
): Normalise {
  const count = p.cols.to('f32')
  const mean = kind === 'layer' ? k.let('mean', sumOver((v) => v).div(count)) : undefined
  const centred = (v: Value<'f32'>): Value<'f32'> => (mean === undefined ? v : v.sub(mean))
  const scale = k.let(
    'scale',
    sumOver((v) => centred(v).mul(centred(v)))
      .div(count)
      .add(p.eps)
      .rsqrt(),
  )
  return (value, weight, bias) => {
    const scaled = centred(value).mul(scale)
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
  k.for({ name: 'c', to: whole, step: width }, (c) => {
    const v = f(x.load(start.add(c), width) as unknown as Value<'f32'>)
    sums.set(sums.get().add(v as never))
  })
  const sum = k.var('sum', sums.get().hsum())
  k.for({ name: 'c', from: whole, to: cols }, (c) => sum.set(sum.get().add(f(x.at(start.add(c))))))
  return sum.get()
}
