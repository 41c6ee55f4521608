// Activations as int8 for the packed layouts (activations.ts). What is quantised is x itself, its normal form, or an expression of several
// tensors: of these the floats are never written.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type Handles, type LaneScope, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { QUARTERS, SUMS, type Scaled } from '../../quant/packed/packed.ts'
import { fours, largest, scaleOf, toBytes } from '../bytes.ts'
import { type Arrays, type Work, family, isCpu } from '../family.ts'
import { type MapExpr, evaluate, writeExpr } from '../map/expr.ts'
import type { MapOp } from '../map/op.ts'
import { floatSource } from '../reduce/float-row.ts'
import { type NormParams, norm, normaliser, sumVectors } from '../reduce/norm.ts'
import { combinations, template } from '../template.ts'
import { type ActivationShape, type Stream, dequantized, quantize, quantizedWords, streamsOf, sumsOf } from './activations.ts'

type NormKind = Pick<NormParams, 'kind' | 'weight' | 'bias'>

/** `plain`: x itself; `norm`: of x with `weight` and `bias`; `map`: of tensors in0, in1... of the same shape. */
export type Quantize8Source =
  | { readonly kind: 'plain' }
  | { readonly kind: 'norm'; readonly norm: NormKind & { readonly eps: number } }
  | { readonly kind: 'map'; readonly expr: MapExpr; readonly inputs: number }

export interface Quantize8Params extends ActivationShape {
  readonly source: Quantize8Source
}

/** fewest values that are worth a workgroup */
const LEAST_VALUES = 512

const NORMS: readonly NormKind[] = combinations<NormKind>({ kind: ['rms', 'layer'], weight: [true, false], bias: [true, false] })

const PLAIN: Quantize8Source = { kind: 'plain' }
const rms: Quantize8Source = { kind: 'norm', norm: { kind: 'rms', weight: true, bias: false, eps: 1e-5 } }
const gatedBy = (op: MapOp): Quantize8Source => ({
  kind: 'map',
  expr: { op: 'mul', args: [{ op, args: [{ input: 0 }] }, { input: 1 }] },
  inputs: 2,
})

export const quantize8 = family<Quantize8Params>({
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32 or 256, with scales and sums: of a tensor, its norm, or an expression',
  // A norm or an expression that is off by a last bit may be rounded to the neighbouring byte.
  tolerance: ({ source }) => (source.kind === 'plain' ? 0 : 1e-6),
  cases: [
    ...([32, 256] as const).flatMap((scaled) => [
      { n: 1, k: 256, scaled, columns: 1, source: PLAIN },
      { n: 1, k: 2048, scaled, columns: 1, source: PLAIN },
      { n: 3, k: 512, scaled, columns: 4, source: PLAIN },
      { n: 11, k: 256, scaled, columns: 8, source: PLAIN },
      ...NORMS.map((norm): Quantize8Params => ({
        n: 2,
        k: 768,
        scaled,
        columns: 2,
        source: { kind: 'norm', norm: { ...norm, eps: 1e-5 } },
      })),
      { n: 5, k: 256, scaled, columns: 8, source: gatedBy('silu') },
      { n: 1, k: 1024, scaled, columns: 1, source: gatedBy('gelu') },
    ]),
    { n: 1, k: 96, scaled: 32, columns: 1, source: PLAIN },
    { n: 9, k: 288, scaled: 32, columns: 8, source: rms },
  ],
  proofs: [{ n: 3, k: 512, scaled: 256, columns: 4, source: rms }],
  buffers: ({ n, k, scaled, source }) => [
    ...quantize8Inputs(source).map(
      (name) => ({ name, role: 'in', type: 'f32', elements: name === 'weight' || name === 'bias' ? k : n * k }) as const,
    ),
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k, scaled) },
  ],
  forms: [
    {
      name: 'blocks',
      fits: isCpu,
      work,
      kernels: ({ width }) =>
        combinations<BlockTraits>({
          scaled: [32, 256],
          source: [PLAIN, ...NORMS.map((kind) => ({ kind: 'norm', norm: kind }) as const)],
          width: [width],
        }).map(blocks),
    },
  ],
  // maximum, scale, rounding and sum of each element, beside what it is computed from
  cost: ({ n, k, source }) => ({ operations: (5 + (source.kind === 'plain' ? 0 : 4)) * n * k, arithmetic: 'f32' }),
  define: (arrays, params) => ({ y: quantize(floatsOf(arrays, params), params) }),
  meaning: ({ y }, params) => {
    const words = Uint32Array.from(y ?? [])
    return { values: Float32Array.from(dequantized(words, params)), sums: Float32Array.from(sumsOf(words, params)) }
  },
})

/** The tensors that a source is made of, by the names of the kernel's parameters. */
export function quantize8Inputs(source: Quantize8Source): readonly string[] {
  switch (source.kind) {
    case 'plain':
      return ['x']
    case 'norm':
      return ['x', ...(source.norm.weight ? ['weight'] : []), ...(source.norm.bias ? ['bias'] : [])]
    case 'map':
      return Array.from({ length: source.inputs }, (_, i) => `in${i}`)
  }
}

function floatsOf(arrays: Arrays, { n, k, source }: Quantize8Params): Float32Array {
  switch (source.kind) {
    case 'plain':
      return Float32Array.from(arrays['x'] ?? [])
    case 'norm':
      return Float32Array.from(norm.define(arrays, { ...source.norm, rows: n, cols: k })['y'] ?? [])
    case 'map': {
      const inputs = quantize8Inputs(source).map((name) => arrays[name] ?? [])
      const types = inputs.map(() => 'f32' as const)
      return Float32Array.from({ length: n * k }, (_, i) =>
        evaluate(
          source.expr,
          inputs.map((input) => input[i] ?? 0),
          types,
        ),
      )
    }
  }
}

/** What a kernel is written for: a source as far as its text depends on it. */
type SourceTraits =
  | { readonly kind: 'plain' }
  | { readonly kind: 'norm'; readonly norm: NormKind }
  | Extract<Quantize8Source, { kind: 'map' }>
interface BlockTraits {
  readonly scaled: Scaled
  readonly source: SourceTraits
  readonly width: Width
}

function traitsOf(source: Quantize8Source): SourceTraits {
  if (source.kind !== 'norm') return source
  const { kind, weight, bias } = source.norm
  return { kind: 'norm', norm: { kind, weight, bias } }
}

function work(caps: Caps, { n, k, scaled, columns, source }: Quantize8Params): Work {
  const count = k / scaled
  // Few rows are shared by threads; the sums of a norm are then taken by each.
  const parts = Math.max(1, Math.min(Math.floor(k / LEAST_VALUES), Math.ceil((2 * caps.parallel) / n)))
  const each = Math.ceil(count / parts)
  const uniforms = {
    cols: k,
    blocks: count,
    each,
    columns,
    tiles: Math.ceil(n / columns),
    ...(source.kind === 'norm' ? { eps: source.norm.eps } : {}),
  }
  const kernel = blocks({ scaled, source: traitsOf(source), width: caps.width })
  return { launches: [{ kernel, uniforms, grid: [Math.ceil(count / each), n, 1] }] }
}

/** Writes word i of a stream of the block at hand. */
type Put = (stream: Stream, i: Value<'u32'> | number, value: Value<'u32'>) => void

const inputsOf = (source: SourceTraits) => ({
  ...(source.kind === 'map' ? { in: Array.from({ length: source.inputs }, () => buffer('f32', 'read')) } : {}),
  ...(source.kind === 'map' ? {} : { x: buffer('f32', 'read') }),
  ...(source.kind === 'norm' && source.norm.weight ? { weight: buffer('f32', 'read') } : {}),
  ...(source.kind === 'norm' && source.norm.bias ? { bias: buffer('f32', 'read') } : {}),
  ...(source.kind === 'norm' ? { eps: uniform('f32') } : {}),
})

/** A workgroup takes some blocks of one row. */
const blocks = template<BlockTraits>({ family: 'quantize8', form: 'blocks' }, ({ scaled, source, width }, kernel): Kernel => {
  const params = {
    ...inputsOf(source),
    y: buffer('u32', 'write'),
    cols: uniform('u32'),
    blocks: uniform('u32'),
    each: uniform('u32'),
    columns: uniform('u32'),
    tiles: uniform('u32'),
  }
  const name = `quantize8${scaled === 32 ? '' : `_${scaled}`}${source.kind === 'plain' ? '' : `_${source.kind}`}`
  return kernel(name, { params }, (p, k) => {
    const row = k.workgroupId.y
    const start = k.let('start', row.mul(p.cols))
    const load = loaderOf(k, source, p, start, p.cols, width)
    const [tile, column] = [k.let('tile', row.div(p.columns)), k.let('column', row.rem(p.columns))]
    const all = k.let('all', p.tiles.mul(p.blocks).mul(p.columns)) // blocks of all rows, those that fill up the last tile too
    const first = k.let('first', k.workgroupId.x.mul(p.each))
    const block = scaled === 32 ? block32(k, width) : block256(k, width)
    k.for({ name: 'b', from: first, to: first.add(p.each).min(p.blocks) }, (b) => {
      const place = k.let('place', tile.mul(p.blocks).add(b)) // among all blocks of all tiles
      block(
        (at) => load(b.mul(scaled).add(at)),
        ({ each, before }, i, value) => p.y.set(place.mul(each).add(i).mul(p.columns).add(column).add(all.mul(before)), value),
      )
    })
  })
})

type Inputs = Handles<ReturnType<typeof inputsOf>>

/** Vectors of what is to be quantised, from a column of the row that starts there. */
function loaderOf(
  k: LaneScope,
  source: SourceTraits,
  p: Inputs,
  start: Value<'u32'>,
  cols: Value<'u32'>,
  width: Width,
): (column: Value<'u32'>) => VectorOf<'f32'> {
  if (source.kind === 'map') {
    return (column) => {
      const inputs = (p.in ?? []).map((input) => k.let('input', input.load(start.add(column), width)))
      return writeExpr(k, source.expr, { inputs, types: inputs.map(() => 'f32') }, width) as VectorOf<'f32'>
    }
  }
  const { x } = p
  if (x === undefined) throw new TypeError(`a source of kind ${source.kind} has x`)
  if (source.kind === 'plain') return (column) => x.load(start.add(column), width)
  const eps = p.eps ?? k.const('f32', 0)
  const normalise = normaliser(k, source.norm.kind, { cols, eps }, (f) => sumVectors(k, floatSource(k, 'f32', x), start, cols, width, f))
  return (column) => normalise(x.load(start.add(column), width), p.weight?.load(column, width), p.bias?.load(column, width))
}

type QuantizeBlock = (load: (at: Value<'u32'>) => VectorOf<'f32'>, put: Put) => void

/** Sums of each sixteen of some quants. */
function sixteenths(k: LaneScope, quants: readonly VectorOf<'i32'>[], width: Width): Value<'i32'>[] {
  const each = 16 / width
  return Array.from({ length: quants.length / each }, (_, i) => {
    const some = quants.slice(i * each, (i + 1) * each)
    return k.let('sum', some.reduce((a, c) => a.add(c)).hsum())
  })
}

function block32(k: LaneScope, width: Width): QuantizeBlock {
  const streams = streamsOf(32)
  return (load, put) => {
    const values = Array.from({ length: 32 / width }, (_, i) => k.let('values', load(k.const('u32', i * width))))
    const { scale, quants } = toBytes(k, values)
    quants.flatMap(fours).forEach((four, i) => put(streams.quants, i, four.packI8()))
    put(streams.scales, 0, scale.as('u32'))
    const sum = sixteenths(k, quants, width).reduce((a, b) => a.add(b))
    put(streams.sum, 0, sum.to('f32').mul(scale).neg().as('u32'))
  }
}

/** Sixteen sums of 16, then eight of 32, and room to make up whole vectors. */
const SUM_PLACES = 32
const SUMS_OF_32 = 16

function block256(k: Scope, width: Width): QuantizeBlock {
  const streams = streamsOf(256)
  const each = 256 / QUARTERS
  const sums = k.shared('sums', 'f32', SUM_PLACES)
  k.for({ name: 'i', from: SUMS.count, to: SUM_PLACES }, (i) => sums.set(i, 0))
  return (load, put) => {
    k.for({ name: 'quarter', to: QUARTERS }, (quarter) => {
      const values = Array.from({ length: each / width }, (_, i) => k.let('values', load(quarter.mul(each).add(i * width))))
      const { scale, quants } = toBytes(k, values)
      quants.flatMap(fours).forEach((four, i) => put(streams.quants, quarter.mul(each / 4).add(i), four.packI8()))
      put(streams.scales, quarter, scale.as('u32'))
      const parts = sixteenths(k, quants, width).map((sum) => k.let('scaled', sum.to('f32').mul(scale)))
      parts.forEach((part, i) => sums.set(quarter.mul(4).add(i), part))
      const [a, b, c, d] = parts as [Value<'f32'>, Value<'f32'>, Value<'f32'>, Value<'f32'>] // 64 are four sixteens
      ;[a.add(b), c.add(d)].forEach((sum, i) => sums.set(quarter.mul(2).add(SUMS_OF_32 + i), sum))
    })
    const values = Array.from({ length: SUM_PLACES / width }, (_, i) => k.let('sums', sums.load(k.const('u32', i * width), width)))
    const { scale, inverse } = scaleOf(k, largest(k, values), SUMS.largest)
    put(streams.sum, 0, scale.as('u32'))
    const whole = values.map((some) => k.let('whole', some.mul(inverse).rint().to('i32')))
    const [high, low] = [whole.map((some) => some.shr(SUMS.shift)), whole.map((some) => some.and(2 ** SUMS.shift - 1))]
    const used = (vectors: readonly VectorOf<'i32'>[]): Value<'i32x4'>[] => vectors.flatMap(fours).slice(0, SUMS.count / 4)
    used(high).forEach((four, i) => put(streams.sums, SUMS.high16 + i, four.packI8()))
    used(low).forEach((four, i) => put(streams.sums, SUMS.low16 + i, four.packI8()))
  }
}
