// RMSNorm and LayerNorm over the last axis: y = (x - mean?) * rsqrt(mean square + eps) * weight? + bias?
// One workgroup per row. LayerNorm takes two passes (mean, then centred squares), so that large means cost no accuracy.

import type { Caps } from '../base/caps.ts'
import { type LaneScope, type Readable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { combineLanes, lanesFor } from './lanes.ts'
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
      values.forEach((v, c) => { y[row * cols + c] = ((v - mean) / Math.sqrt(square + eps)) * (weight?.[c] ?? 1) + (bias?.[c] ?? 0) })
    }
    return { y }
  },
}

function work(caps: Caps, { kind, rows, cols, eps, weight, bias }: NormParams): Work {
  const lanes = lanesFor(caps, cols)
  const vectors = caps.lanes === 1
  const written = kernel(`${kind}Norm`, {
    params: {
      x: buffer('f32', 'read'),
      ...(weight ? { weight: buffer('f32', 'read') } : {}),
      ...(bias ? { bias: buffer('f32', 'read') } : {}),
      y: buffer('f32', 'write'),
      cols: uniform('u32'),
      eps: uniform('f32'),
    },
    workgroup: [lanes],
    ...(caps.subgroup > 0 && lanes > 1 ? { subgroup: caps.subgroup } : {}),
  }, (p, k) => {
    const combine = combineLanes(k, caps, lanes)
    const start = k.let('start', k.workgroupId.x.mul(p.cols))
    const sumOver = (f: (value: Value<'f32'>) => Value<'f32'>): Value<'f32'> =>
      combine('sum', vectors ? sumVectors(k, p.x, start, p.cols, caps.width, f) : sumStrided(k, p.x, start, p.cols, lanes, f))
    const count = p.cols.to('f32')
    const mean = kind === 'layer' ? k.let('mean', sumOver((v) => v).div(count)) : undefined
    const centred = (v: Value<'f32'>): Value<'f32'> => (mean === undefined ? v : v.sub(mean))
    const scale = k.let('scale', sumOver((v) => centred(v).mul(centred(v))).div(count).add(p.eps).rsqrt())
    k.for({ name: 'c', from: k.lane, to: p.cols, step: lanes }, (c) => {
      let value = centred(p.x.at(start.add(c))).mul(scale)
      if (p.weight !== undefined) value = value.mul(p.weight.at(c))
      if (p.bias !== undefined) value = value.add(p.bias.at(c))
      p.y.set(start.add(c), value)
    })
  })
  return { launches: [{ kernel: written, uniforms: { cols, eps }, grid: [rows, 1, 1] }] }
}

type Row = Readable<'f32', Uniformity>
type Each = (value: Value<'f32'>) => Value<'f32'>

/** Sum of f over a row, this lane's share. */
function sumStrided(k: LaneScope, x: Row, start: Value<'u32'>, cols: Value<'u32'>, lanes: number, f: Each): Value<'f32'> {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'c', from: k.lane, to: cols, step: lanes }, (c) => sum.set(sum.get().add(f(x.at(start.add(c))))))
  return sum.get()
}

/** Sum of f over a row with vectors of `width`, and one by one past the last whole vector. */
function sumVectors(k: LaneScope, x: Row, start: Value<'u32'>, cols: Value<'u32'>, width: 2 | 4 | 8 | 16, f: Each): Value<'f32'> {
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
