// Activations as int8 for the packed layouts: 32 or 256 with one scale, and sums. Columns (rows of x) lie side by side in tiles, so that
// a kernel that takes `columns` of them at a time finds what it needs next to each other: words [tile][k / 4][columns], then scales
// [tile][block][columns], then for blocks of 32 minus their scaled sums [tile][block][columns], for blocks of 256 the sums of each 32 and
// 16 as bytes [tile][block][SUMS][columns].
// What is quantised is x itself, its normal form, or an expression of several tensors: in these the floats are never written.

import type { Caps } from '../base/caps.ts'
import { type Width, widthOf } from '../base/dtype.ts'
import { type LaneScope, type ParamSpec, type Readable, type Scope, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { SUMS, type Scaled, joinBytes } from '../quant/packed.ts'
import { type MapExpr, evaluate, writeExpr } from './map-expr.ts'
import { type NormParams, norm, normaliser, sumVectors } from './norm.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

/** `plain`: x itself; `norm`: of x with `weight` and `bias`; `map`: of tensors in0, in1... of the same shape. */
export type Quantize8Source =
  | { readonly kind: 'plain' }
  | ({ readonly kind: 'norm' } & { readonly norm: Omit<NormParams, 'rows' | 'cols'> })
  | { readonly kind: 'map'; readonly expr: MapExpr; readonly inputs: number }

export interface Quantize8Params {
  readonly n: number
  readonly k: number
  /** values per scale (default: 32) */
  readonly scaled?: Scaled
  readonly source?: Quantize8Source
}

/** columns that a kernel takes at a time, by the width of a register: what its register file holds */
const COLUMNS: Readonly<Record<Width, readonly number[]>> = { 2: [1], 4: [1, 2], 8: [1, 2, 4], 16: [1, 2, 4, 8] }
const MOST_COLUMNS = 8
/** fewest values that are worth a workgroup */
const LEAST_VALUES = 512

/** The tile that serves n columns. */
export function tileColumns({ width }: Caps, n: number): number {
  const sizes = COLUMNS[width]
  return sizes.find((size) => size >= n) ?? sizes.at(-1) ?? 1
}

/** Words that hold n quantised rows of k on any device. */
export function quantizedWords(n: number, k: number, scaled: Scaled = 32): number {
  const columns = n === 1 ? 1 : Math.ceil(n / MOST_COLUMNS) * MOST_COLUMNS
  return columns * (k / 4 + (k / scaled) * (1 + (scaled === 32 ? 1 : SUMS.words)))
}

const PLAIN: Quantize8Source = { kind: 'plain' }

export const quantize8: KernelRecord<Quantize8Params> = {
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32 or 256, with scales and sums',
  tolerance: 1e-6,
  cases: [{ n: 1, k: 256 }, { n: 1, k: 96 }, { n: 1, k: 2048 }, { n: 1, k: 256, scaled: 256 }, { n: 1, k: 2048, scaled: 256 }],
  buffers: ({ n, k, scaled = 32, source = PLAIN }) => [
    ...quantize8Inputs(source).map((name) => ({ name, role: 'in', type: 'f32', elements: name === 'weight' || name === 'bias' ? k : n * k } as const)),
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k, scaled) },
  ],
  work,
  define,
}

/** The tensors that a source is made of, by the names of the kernel's parameters. */
export function quantize8Inputs(source: Quantize8Source = PLAIN): readonly string[] {
  switch (source.kind) {
    case 'plain': return ['x']
    case 'norm': return ['x', ...(source.norm.weight ? ['weight'] : []), ...(source.norm.bias ? ['bias'] : [])]
    case 'map': return Array.from({ length: source.inputs }, (_, i) => `in${i}`)
  }
}

/** What the body of a kernel depends on, beside the width. Epsilon is a uniform. */
function keyOf(source: Quantize8Source): string {
  return JSON.stringify(source.kind === 'norm' ? { ...source, norm: { ...source.norm, eps: 0 } } : source)
}

type Floats = Readable<'f32', Uniformity>
type Params = Readonly<Record<string, unknown>>

/** Where the words of a column's block go: `put(stream, per, i, value)` writes word i of the `per` that a block has behind `stream` words per block. */
type Put = (stream: number, per: number, i: Value<'u32'> | number, value: Value<'u32'>) => void

/** A workgroup takes some blocks of one row. */
function work(caps: Caps, { n, k: inner, scaled = 32, source = PLAIN }: Quantize8Params): Work {
  const columns = tileColumns(caps, n)
  const { width } = caps
  const params: Record<string, ParamSpec> = {
    ...Object.fromEntries(quantize8Inputs(source).map((name) => [name, buffer('f32', 'read')])), y: buffer('u32', 'write'),
    cols: uniform('u32'), blocks: uniform('u32'), each: uniform('u32'), columns: uniform('u32'), tiles: uniform('u32'),
    ...(source.kind === 'norm' ? { eps: uniform('f32') } : {}),
  }
  const name = `quantize8${scaled === 32 ? '' : `_${scaled}`}${source.kind === 'plain' ? '' : `_${source.kind}`}`
  const written = kernel(name, { params, variant: `width ${width}, ${scaled}, ${keyOf(source)}` }, (given, k) => {
    const p = given as unknown as Readonly<Record<'cols' | 'blocks' | 'each' | 'columns' | 'tiles', Value<'u32'>>>
    const row = k.workgroupId.y
    const start = k.let('start', row.mul(p.cols))
    const load = sourceOf(k, caps, source, given as unknown as Params, start, p.cols)
    const [tile, column] = [k.let('tile', row.div(p.columns)), k.let('column', row.rem(p.columns))]
    const all = k.let('all', p.tiles.mul(p.blocks).mul(p.columns)) // blocks of all rows, those that fill up the last tile too
    const y = (given as unknown as { y: Writable<'u32'> }).y
    const first = k.let('first', k.workgroupId.x.mul(p.each))
    const block = scaled === 32 ? block32(k, width) : block256(k, width)
    k.for({ name: 'b', from: first, to: first.add(p.each).min(p.blocks) }, (b) => {
      const place = k.let('place', tile.mul(p.blocks).add(b)) // among all blocks of all tiles
      block((at) => load(b.mul(scaled).add(at)), (stream, per, i, value) => y.set(place.mul(per).add(i).mul(p.columns).add(column).add(all.mul(stream)), value))
    })
  })
  const blocks = inner / scaled
  // Few rows are shared by threads; the sums of a norm are then taken by each.
  const parts = Math.max(1, Math.min(Math.floor(inner / LEAST_VALUES), Math.ceil((2 * caps.parallel) / n)))
  const each = Math.ceil(blocks / parts)
  const uniforms = { cols: inner, blocks, each, columns, tiles: Math.ceil(n / columns), ...(source.kind === 'norm' ? { eps: source.norm.eps } : {}) }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil(blocks / each), n, 1] }] }
}

type Block = (load: (at: Value<'u32'>) => Value<'f32x16'>, put: Put) => void

function scaleOf(k: LaneScope, top: Value<'f32'>): { scale: Value<'f32'>; inverse: Value<'f32'> } {
  return { scale: k.let('scale', top.div(127)), inverse: k.let('inverse', top.gt(0).select(k.const('f32', 127).div(top), k.const('f32', 0))) }
}

/** Sums of the two halves of 32 quants. */
function halfSums(k: LaneScope, quants: readonly Value<'i32x16'>[]): Value<'i32'>[] {
  const half = quants.length / 2
  return [quants.slice(0, half), quants.slice(half)].map((some) => k.let('sum', some.reduce((a, c) => a.add(c)).hsum()))
}

function block32(k: LaneScope, width: Width): Block {
  return (load, put) => {
    const values = Array.from({ length: 32 / width }, (_, i) => k.let('values', load(k.const('u32', i * width))))
    const { scale, inverse } = scaleOf(k, k.let('top', values.map((some) => some.abs()).reduce((a, c) => a.max(c)).hmax()))
    const quants = values.map((some) => k.let('quants', some.mul(inverse).rint().to('i32')))
    quants.flatMap(fours).forEach((four, i) => put(0, 8, i, four.packI8()))
    put(8, 1, 0, scale.as('u32'))
    const [a, b] = halfSums(k, quants)
    put(9, 1, 0, a!.add(b!).to('f32').mul(scale).neg().as('u32'))
  }
}

/** Values wait in scratch until their largest is known. */
function block256(k: Scope, width: Width): Block {
  const staged = k.shared('staged', 'f32', 256)
  return (load, put) => {
    const tops = k.var('tops', k.const('f32', 0).splat(width as 16))
    k.for({ name: 'i', to: 256, step: width }, (i) => {
      const values = k.let('values', load(i))
      staged.store(i, values as never)
      tops.set(tops.get().max(values.abs()))
    })
    const { scale, inverse } = scaleOf(k, k.let('top', tops.get().hmax()))
    put(64, 1, 0, scale.as('u32'))
    k.for({ name: 'half', to: 2 }, (half) => {
      const sums = [0, 1, 2, 3].map((sub) => {
        const quants = Array.from({ length: 32 / width }, (_, i) =>
          k.let('quants', (staged.load(half.mul(128).add(32 * sub + i * width), width) as never as Value<'f32x16'>).mul(inverse).rint().to('i32')))
        quants.flatMap(fours).forEach((four, i) => put(0, 64, half.mul(32).add(8 * sub + i), four.packI8()))
        return halfSums(k, quants)
      })
      const putBytes = (at: { high: number; low: number }, index: Value<'u32'>, parts: readonly Value<'i32'>[]): void => {
        put(65, SUMS.words, index.add(at.high), joinBytes(parts.map((sum) => sum.shr(SUMS.shift).as('u32'))))
        put(65, SUMS.words, index.add(at.low), joinBytes(parts.map((sum) => sum.and(2 ** SUMS.shift - 1).as('u32'))))
      }
      putBytes({ high: SUMS.high32, low: SUMS.low32 }, half, sums.map(([a, b]) => a!.add(b!)))
      for (const pair of [0, 1]) putBytes({ high: SUMS.high16, low: SUMS.low16 }, half.mul(2).add(pair), [...sums[2 * pair]!, ...sums[2 * pair + 1]!])
    })
  }
}

/** Vectors of what is to be quantised, from a column of the row that starts there. TypeScript is told 16 lanes throughout. */
function sourceOf(k: LaneScope, { width }: Caps, source: Quantize8Source, p: Params, start: Value<'u32'>, cols: Value<'u32'>): (column: Value<'u32'>) => Value<'f32x16'> {
  const vector = (name: string, at: Value<'u32'>): Value<'f32'> => (p[name] as Floats).load(at, width) as never
  switch (source.kind) {
    case 'plain': return (column) => vector('x', start.add(column)) as never
    case 'norm': {
      const { kind, weight, bias } = source.norm
      const normalise = normaliser(k, kind, { cols, eps: p['eps'] as Value<'f32'> }, (f) => sumVectors(k, p['x'] as Floats, start, cols, width, f))
      return (column) => normalise(vector('x', start.add(column)), weight ? vector('weight', column) : undefined, bias ? vector('bias', column) : undefined) as never
    }
    case 'map': return (column) => {
      const inputs = quantize8Inputs(source).map((name) => k.let('input', vector(name, start.add(column))))
      return writeExpr(k, source.expr, inputs, `f32x${width}`) as never
    }
  }
}

/** The fours that a vector of any width is made of. */
function fours(vector: Value<'i32x16'>): Value<'i32x4'>[] {
  const width = widthOf(vector.dtype)
  return width === 4 ? [vector as never] : Array.from({ length: width / 4 }, (_, i) => vector.slice(4 * i, 4))
}

/** The meaning for one column; where more lie is the business of the kernels that read them. */
function define(arrays: Arrays, { n, k, scaled = 32, source = PLAIN }: Quantize8Params): Arrays {
  const x = floatsOf(arrays, n, k, source)
  const words = new Uint32Array(quantizedWords(n, k, scaled))
  const [bytes, floats] = [new Int8Array(words.buffer), new Float32Array(words.buffer)]
  const [blocks, quantWords] = [(n * k) / scaled, (n * k) / 4]
  for (let b = 0; b < blocks; b++) {
    const values = x.subarray(scaled * b, scaled * (b + 1))
    const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const scale = Math.fround(top / 127)
    values.forEach((value, i) => { bytes[scaled * b + i] = top > 0 ? roundEven(Math.fround(value * Math.fround(127 / top))) : 0 })
    floats[quantWords + b] = scale
    const sumOf = (from: number, count: number): number => bytes.subarray(scaled * b + from, scaled * b + from + count).reduce((total, q) => total + q, 0)
    if (scaled === 32) {
      floats[quantWords + blocks + b] = -Math.fround(sumOf(0, 32) * scale)
      continue
    }
    const first = 4 * (quantWords + blocks + SUMS.words * b)
    const split = (at: { high: number; low: number }, index: number, sum: number): void => {
      bytes[first + 4 * at.high + index] = sum >> SUMS.shift
      bytes[first + 4 * at.low + index] = sum & (2 ** SUMS.shift - 1)
    }
    for (let i = 0; i < 8; i++) split({ high: SUMS.high32, low: SUMS.low32 }, i, sumOf(32 * i, 32))
    for (let i = 0; i < 16; i++) split({ high: SUMS.high16, low: SUMS.low16 }, i, sumOf(16 * i, 16))
  }
  return { y: words }
}

function floatsOf(arrays: Arrays, n: number, k: number, source: Quantize8Source): Float32Array {
  switch (source.kind) {
    case 'plain': return arrays['x'] as Float32Array
    case 'norm': return norm.define(arrays, { ...source.norm, rows: n, cols: k })['y'] as Float32Array
    case 'map': return Float32Array.from({ length: n * k }, (_, i) => evaluate(source.expr, quantize8Inputs(source).map((name) => arrays[name]![i]!)))
  }
}

function roundEven(value: number): number {
  const near = Math.round(value)
  return Math.abs(near - value) === 0.5 && near % 2 !== 0 ? near - 1 : near
}
