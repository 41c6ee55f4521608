// Activations as int8 for the packed layouts, in blocks of 32 with one scale, or of 256 with one for each 64. Columns (rows of x) lie side
// by side in tiles, so that a kernel that takes `columns` of them at a time finds what it needs next to each other: words
// [tile][k / 4][columns], then scales [tile][block][1 or 4][columns], then for blocks of 32 minus their scaled sums
// [tile][block][columns], for blocks of 256 the scale of their sums [tile][block][columns] and these [tile][block][SUMS][columns].
// What is quantised is x itself, its normal form, or an expression of several tensors: in these the floats are never written.

import type { Caps } from '../base/caps.ts'
import { type Width, widthOf } from '../base/dtype.ts'
import { type LaneScope, type ParamSpec, type Readable, type Scope, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { QUARTERS, SUMS, type Scaled } from '../quant/packed.ts'
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
  /** the block that it is made for (default: 32) */
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
  return columns * (k / 4 + (k / scaled) * (scaled === 32 ? 2 : QUARTERS + 1 + SUMS.words))
}

const PLAIN: Quantize8Source = { kind: 'plain' }

export const quantize8: KernelRecord<Quantize8Params> = {
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32 or 256, with scales and sums',
  tolerance: 1e-6,
  cases: [
    { n: 1, k: 256 },
    { n: 1, k: 96 },
    { n: 1, k: 2048 },
    { n: 1, k: 256, scaled: 256 },
    { n: 1, k: 2048, scaled: 256 },
  ],
  buffers: ({ n, k, scaled = 32, source = PLAIN }) => [
    ...quantize8Inputs(source).map(
      (name) => ({ name, role: 'in', type: 'f32', elements: name === 'weight' || name === 'bias' ? k : n * k }) as const,
    ),
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k, scaled) },
  ],
  work,
  define,
}

/** The tensors that a source is made of, by the names of the kernel's parameters. */
export function quantize8Inputs(source: Quantize8Source = PLAIN): readonly string[] {
  switch (source.kind) {
    case 'plain':
      return ['x']
    case 'norm':
      return ['x', ...(source.norm.weight ? ['weight'] : []), ...(source.norm.bias ? ['bias'] : [])]
    case 'map':
      return Array.from({ length: source.inputs }, (_, i) => `in${i}`)
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
    ...Object.fromEntries(quantize8Inputs(source).map((name) => [name, buffer('f32', 'read')])),
    y: buffer('u32', 'write'),
    cols: uniform('u32'),
    blocks: uniform('u32'),
    each: uniform('u32'),
    columns: uniform('u32'),
    tiles: uniform('u32'),
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
      block(
        (at) => load(b.mul(scaled).add(at)),
        (stream, per, i, value) => y.set(place.mul(per).add(i).mul(p.columns).add(column).add(all.mul(stream)), value),
      )
    })
  })
  const blocks = inner / scaled
  // Few rows are shared by threads; the sums of a norm are then taken by each.
  const parts = Math.max(1, Math.min(Math.floor(inner / LEAST_VALUES), Math.ceil((2 * caps.parallel) / n)))
  const each = Math.ceil(blocks / parts)
  const uniforms = {
    cols: inner,
    blocks,
    each,
    columns,
    tiles: Math.ceil(n / columns),
    ...(source.kind === 'norm' ? { eps: source.norm.eps } : {}),
  }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil(blocks / each), n, 1] }] }
}

type Block = (load: (at: Value<'u32'>) => Value<'f32x16'>, put: Put) => void

function largest(k: LaneScope, values: readonly Value<'f32x16'>[]): Value<'f32'> {
  return k.let(
    'top',
    values
      .map((some) => some.abs())
      .reduce((a, c) => a.max(c))
      .hmax(),
  )
}

/** What makes whole numbers up to `most` of values up to `top`. */
function scaleOf(k: LaneScope, top: Value<'f32'>, most: number): { scale: Value<'f32'>; inverse: Value<'f32'> } {
  return {
    scale: k.let('scale', top.div(most)),
    inverse: k.let('inverse', top.gt(0).select(k.const('f32', most).div(top), k.const('f32', 0))),
  }
}

/** Sums of each sixteen of some quants. */
function sixteenths(k: LaneScope, quants: readonly Value<'i32x16'>[], width: Width): Value<'i32'>[] {
  const each = 16 / width
  return Array.from({ length: quants.length / each }, (_, i) =>
    k.let(
      'sum',
      quants
        .slice(i * each, (i + 1) * each)
        .reduce((a, c) => a.add(c))
        .hsum(),
    ),
  )
}

/** Scales some values to bytes. */
function toBytes(k: LaneScope, values: readonly Value<'f32x16'>[]): { scale: Value<'f32'>; quants: Value<'i32x16'>[] } {
  const { scale, inverse } = scaleOf(k, largest(k, values), 127)
  return { scale, quants: values.map((some) => k.let('quants', some.mul(inverse).rint().to('i32'))) }
}

function block32(k: LaneScope, width: Width): Block {
  return (load, put) => {
    const { scale, quants } = toBytes(
      k,
      Array.from({ length: 32 / width }, (_, i) => k.let('values', load(k.const('u32', i * width)))),
    )
    quants.flatMap(fours).forEach((four, i) => put(0, 8, i, four.packI8()))
    put(8, 1, 0, scale.as('u32'))
    const [a, b] = sixteenths(k, quants, width)
    put(9, 1, 0, a!.add(b!).to('f32').mul(scale).neg().as('u32'))
  }
}

/** Sixteen sums of 16, then eight of 32, and room to make up whole vectors. */
const SUM_PLACES = 32

function block256(k: Scope, width: Width): Block {
  const sums = k.shared('sums', 'f32', SUM_PLACES)
  k.for({ name: 'i', from: 24, to: SUM_PLACES }, (i) => sums.set(i, 0))
  return (load, put) => {
    k.for({ name: 'quarter', to: QUARTERS }, (quarter) => {
      const { scale, quants } = toBytes(
        k,
        Array.from({ length: 64 / width }, (_, i) => k.let('values', load(quarter.mul(64).add(i * width)))),
      )
      quants.flatMap(fours).forEach((four, i) => put(0, 64, quarter.mul(16).add(i), four.packI8()))
      put(64, QUARTERS, quarter, scale.as('u32'))
      const [a, b, c, d] = sixteenths(k, quants, width).map((sum) => k.let('scaled', sum.to('f32').mul(scale)))
      ;[a!, b!, c!, d!].forEach((sum, i) => sums.set(quarter.mul(4).add(i), sum))
      ;[a!.add(b!), c!.add(d!)].forEach((sum, i) => sums.set(quarter.mul(2).add(16 + i), sum))
    })
    const values = Array.from({ length: SUM_PLACES / width }, (_, i) =>
      k.let('sums', sums.load(k.const('u32', i * width), width) as never as Value<'f32x16'>),
    )
    const { scale, inverse } = scaleOf(k, largest(k, values), SUMS.largest)
    put(68, 1, 0, scale.as('u32'))
    const whole = values.map((some) => k.let('whole', some.mul(inverse).rint().to('i32')))
    const [high, low] = [whole.map((some) => some.shr(SUMS.shift)), whole.map((some) => some.and(2 ** SUMS.shift - 1))]
    high
      .flatMap(fours)
      .slice(0, 6)
      .forEach((four, i) => put(69, SUMS.words, SUMS.high16 + i, four.packI8()))
    low
      .flatMap(fours)
      .slice(0, 6)
      .forEach((four, i) => put(69, SUMS.words, SUMS.low16 + i, four.packI8()))
  }
}

/** Vectors of what is to be quantised, from a column of the row that starts there. TypeScript is told 16 lanes throughout. */
function sourceOf(
  k: LaneScope,
  { width }: Caps,
  source: Quantize8Source,
  p: Params,
  start: Value<'u32'>,
  cols: Value<'u32'>,
): (column: Value<'u32'>) => Value<'f32x16'> {
  const vector = (name: string, at: Value<'u32'>): Value<'f32'> => (p[name] as Floats).load(at, width) as never
  switch (source.kind) {
    case 'plain':
      return (column) => vector('x', start.add(column)) as never
    case 'norm': {
      const { kind, weight, bias } = source.norm
      const normalise = normaliser(k, kind, { cols, eps: p['eps'] as Value<'f32'> }, (f) =>
        sumVectors(k, p['x'] as Floats, start, cols, width, f),
      )
      return (column) =>
        normalise(
          vector('x', start.add(column)),
          weight ? vector('weight', column) : undefined,
          bias ? vector('bias', column) : undefined,
        ) as never
    }
    case 'map':
      return (column) => {
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
  const [blocks, quantWords, per] = [(n * k) / scaled, (n * k) / 4, scaled === 32 ? 32 : 64]
  for (let at = 0; at < n * k; at += per) {
    const { scale, quants } = wholeNumbers(x.subarray(at, at + per), 127)
    bytes.set(quants, at)
    floats[quantWords + at / per] = scale
  }
  const sumOf = (from: number, count: number): number =>
    Math.fround(bytes.subarray(from, from + count).reduce((total, q) => total + q, 0) * floats[quantWords + Math.floor(from / per)]!)
  const sumsAt = quantWords + (n * k) / per
  for (let b = 0; b < blocks; b++) {
    if (scaled === 32) {
      floats[sumsAt + b] = -sumOf(32 * b, 32)
      continue
    }
    const sixteen = Array.from({ length: 16 }, (_, i) => sumOf(256 * b + 16 * i, 16))
    const { scale, quants } = wholeNumbers(
      [...sixteen, ...Array.from({ length: 8 }, (_, i) => Math.fround(sixteen[2 * i]! + sixteen[2 * i + 1]!))],
      SUMS.largest,
    )
    floats[sumsAt + b] = scale
    const first = 4 * (sumsAt + blocks + SUMS.words * b)
    quants.forEach((sum, i) => {
      bytes[first + 4 * SUMS.high16 + i] = sum >> SUMS.shift
      bytes[first + 4 * SUMS.low16 + i] = sum & (2 ** SUMS.shift - 1)
    })
  }
  return { y: words }
}

/** Values as whole numbers up to `most`, and what one of these stands for. */
function wholeNumbers(values: ArrayLike<number>, most: number): { scale: number; quants: number[] } {
  const all = Array.from(values)
  const top = Math.max(...all.map(Math.abs))
  return {
    scale: Math.fround(top / most),
    quants: all.map((value) => (top > 0 ? roundEven(Math.fround(value * Math.fround(most / top))) : 0)),
  }
}

function floatsOf(arrays: Arrays, n: number, k: number, source: Quantize8Source): Float32Array {
  switch (source.kind) {
    case 'plain':
      return arrays['x'] as Float32Array
    case 'norm':
      return norm.define(arrays, { ...source.norm, rows: n, cols: k })['y'] as Float32Array
    case 'map':
      return Float32Array.from({ length: n * k }, (_, i) =>
        evaluate(
          source.expr,
          quantize8Inputs(source).map((name) => arrays[name]![i]!),
        ),
      )
  }
}

function roundEven(value: number): number {
  const near = Math.round(value)
  return Math.abs(near - value) === 0.5 && near % 2 !== 0 ? near - 1 : near
}
