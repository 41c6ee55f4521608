// Activations as int8 for the packed layouts: blocks of 32 with one scale, and the scaled sum of each 16. Columns (rows of x) lie side
// by side in tiles, so that a kernel that takes `columns` of them at a time finds what it needs next to each other:
// words [tile][k / 4][columns], then scales [tile][k / 32][columns], sums [tile][k / 16][columns], and minus the sums of 32
// [tile][k / 32][columns].
// What is quantised is x itself, its normal form, or an expression of several tensors: in these the floats are never written.

import type { Caps } from '../base/caps.ts'
import { type Width, widthOf } from '../base/dtype.ts'
import { type LaneScope, type ParamSpec, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { ACTIVATION_BLOCK } from '../quant/packed.ts'
import { type MapExpr, evaluate, writeExpr } from './map-expr.ts'
import { type NormParams, norm, normaliser, sumVectors } from './norm.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

/** `plain`: x itself; `norm`: of x with `weight` and `bias`; `map`: of tensors in0, in1... of the same shape. */
export type Quantize8Source =
  | { readonly kind: 'plain' }
  | ({ readonly kind: 'norm' } & { readonly norm: Omit<NormParams, 'rows' | 'cols'> })
  | { readonly kind: 'map'; readonly expr: MapExpr; readonly inputs: number }

export interface Quantize8Params { readonly n: number; readonly k: number; readonly source?: Quantize8Source }

/** columns that a kernel takes at a time, by the width of a register: what its register file holds */
const COLUMNS: Readonly<Record<Width, readonly number[]>> = { 2: [1], 4: [1, 2], 8: [1, 2, 4], 16: [1, 2, 4, 8] }
const MOST_COLUMNS = 8
/** fewest blocks that are worth a workgroup */
const LEAST_BLOCKS = 16

/** The tile that serves n columns. */
export function tileColumns({ width }: Caps, n: number): number {
  const sizes = COLUMNS[width]
  return sizes.find((size) => size >= n) ?? sizes.at(-1) ?? 1
}

/** Words that hold n quantised rows of k on any device. */
export function quantizedWords(n: number, k: number): number {
  const columns = n === 1 ? 1 : Math.ceil(n / MOST_COLUMNS) * MOST_COLUMNS
  return columns * (k / 4 + k / 32 + k / 16 + k / 32)
}

const PLAIN: Quantize8Source = { kind: 'plain' }

export const quantize8: KernelRecord<Quantize8Params> = {
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32, with scales and sums',
  tolerance: 1e-6,
  cases: [{ n: 1, k: 256 }, { n: 1, k: 96 }, { n: 1, k: 2048 }],
  buffers: ({ n, k, source = PLAIN }) => [
    ...quantize8Inputs(source).map((name) => ({ name, role: 'in', type: 'f32', elements: name === 'weight' || name === 'bias' ? k : n * k } as const)),
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k) },
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

/** A workgroup takes some blocks of one row. */
function work(caps: Caps, { n, k: inner, source = PLAIN }: Quantize8Params): Work {
  const columns = tileColumns(caps, n)
  const { width } = caps
  const params: Record<string, ParamSpec> = {
    ...Object.fromEntries(quantize8Inputs(source).map((name) => [name, buffer('f32', 'read')])), y: buffer('u32', 'write'),
    cols: uniform('u32'), blocks: uniform('u32'), each: uniform('u32'), columns: uniform('u32'), tiles: uniform('u32'),
    ...(source.kind === 'norm' ? { eps: uniform('f32') } : {}),
  }
  const written = kernel(source.kind === 'plain' ? 'quantize8' : `quantize8_${source.kind}`, { params, variant: `width ${width}, ${keyOf(source)}` }, (given, k) => {
    const p = given as unknown as Readonly<Record<'cols' | 'blocks' | 'each' | 'columns' | 'tiles', Value<'u32'>>>
    const row = k.workgroupId.y
    const start = k.let('start', row.mul(p.cols))
    const load = sourceOf(k, caps, source, given as unknown as Params, start, p.cols)
    const [tile, column] = [k.let('tile', row.div(p.columns)), k.let('column', row.rem(p.columns))]
    const perStream = k.let('perStream', p.tiles.mul(p.blocks).mul(p.columns)) // blocks of all rows, those that fill up the last tile too
    const y = (given as unknown as { y: Writable<'u32'> }).y
    const first = k.let('first', k.workgroupId.x.mul(p.each))
    k.for({ name: 'b', from: first, to: first.add(p.each).min(p.blocks) }, (b) => {
      const values = Array.from({ length: ACTIVATION_BLOCK / width }, (_, i) => k.let('values', load(b.mul(ACTIVATION_BLOCK).add(i * width))))
      const top = k.let('top', values.map((some) => some.abs()).reduce((a, c) => a.max(c)).hmax())
      const scale = k.let('scale', top.div(127))
      const inverse = k.let('inverse', top.gt(0).select(k.const('f32', 127).div(top), k.const('f32', 0)))
      const quants = values.map((some) => k.let('quants', some.mul(inverse).rint().to('i32')))
      const place = k.let('place', tile.mul(p.blocks).add(b)) // among all blocks of all tiles
      const put = (start: Value<'u32'> | number, per: number, i: number, value: Value<'u32'>): void =>
        y.set(place.mul(per).add(i).mul(p.columns).add(column).add(start), value)
      quants.flatMap(fours).forEach((four, i) => put(0, 8, i, four.packI8()))
      put(perStream.mul(8), 1, 0, scale.as('u32'))
      const sumOf = (some: readonly Value<'i32x16'>[]): Value<'f32'> => some.reduce((a, c) => a.add(c)).hsum().to('f32').mul(scale)
      const half = quants.length / 2
      const sums = [quants.slice(0, half), quants.slice(half)].map((some) => k.let('sum', sumOf(some)))
      sums.forEach((sum, i) => put(perStream.mul(9), 2, i, sum.as('u32')))
      put(perStream.mul(11), 1, 0, sums[0]!.add(sums[1]!).neg().as('u32'))
    })
  })
  const blocks = inner / ACTIVATION_BLOCK
  // Few rows are shared by threads; the sums of a norm are then taken by each.
  const parts = Math.max(1, Math.min(Math.floor(blocks / LEAST_BLOCKS), Math.ceil((2 * caps.parallel) / n)))
  const each = Math.ceil(blocks / parts)
  const uniforms = { cols: inner, blocks, each, columns, tiles: Math.ceil(n / columns), ...(source.kind === 'norm' ? { eps: source.norm.eps } : {}) }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil(blocks / each), n, 1] }] }
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
function define(arrays: Arrays, { n, k, source = PLAIN }: Quantize8Params): Arrays {
  const x = floatsOf(arrays, n, k, source)
  const words = new Uint32Array(quantizedWords(n, k))
  const [bytes, floats] = [new Int8Array(words.buffer), new Float32Array(words.buffer)]
  const blocks = (n * k) / 32
  for (let b = 0; b < blocks; b++) {
    const values = x.subarray(32 * b, 32 * b + 32)
    const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const scale = Math.fround(top / 127)
    values.forEach((value, i) => { bytes[32 * b + i] = top > 0 ? roundEven(Math.fround(value * Math.fround(127 / top))) : 0 })
    floats[8 * blocks + b] = scale
    for (const half of [0, 1]) {
      const sum = bytes.subarray(32 * b + 16 * half, 32 * b + 16 * half + 16).reduce((total, q) => total + q, 0)
      floats[9 * blocks + 2 * b + half] = sum * scale
    }
    floats[11 * blocks + b] = -Math.fround(floats[9 * blocks + 2 * b]! + floats[9 * blocks + 2 * b + 1]!)
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
