// Reductions and scans of 16 M elements, which come from memory: all of them to one, rows, and columns; as they are and of expressions.
// `of reads` is the share of what memory gives; a scan also writes all that it reads.
// `node lab/run.js reduce [--device cpu,wasm,webgpu] [--threads 2] [--only sum] [--rounds 9] [--quick] [--json]`

import type { ElementType } from '../src/base/element.ts'
import type { Family } from '../src/kernel/family.ts'
import type { MapExpr, MapInput } from '../src/kernel/map/map.ts'
import { type ReduceKind, type ReduceParams, plainReduce, reduce } from '../src/kernel/reduce/reduce.ts'
import { type ScanParams, scan } from '../src/kernel/reduce/scan.ts'
import { type Entry, type Facts, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

const ALL = 2 ** 24
const SQUARE = [4096, 4096]
const SHAPES: readonly (readonly [shape: readonly number[], axes: readonly number[]])[] = [
  [[ALL], [0]],
  [[ALL / 1024, 1024], [1]],
  [SQUARE, [1]],
  [SQUARE, [0]],
]
/** Rows that are hardly any, columns that are hardly any, and columns among others. */
const ODD = [
  [[ALL / 4, 4], [1]],
  [[ALL / 16, 16], [1]],
  [[ALL / 16, 16], [0]],
  [[64, 256, 1024], [1]],
  [[ALL / 128, 8, 16], [1]],
] as const

const x: MapExpr = { input: 0 }
const square: MapExpr = { op: 'square', args: [x] }
const centred: MapExpr = { op: 'square', args: [{ op: 'sub', args: [x, { input: 1 }] }] }
const product: MapExpr = { op: 'mul', args: [x, { input: 1 }] }

/** What is read is found in memory; and is the same number everywhere, since values cost no time. */
function cold<P extends object>(family: Family<P>, params: P, facts: Facts): Entry {
  const { inputs: _, ...entry } = entryOf(family, params, facts)
  return { ...entry, buffers: entry.buffers.map((shape) => (shape.role === 'in' ? { ...shape, cold: true } : shape)) }
}

const nameOf = ({ shape, axes }: Pick<ReduceParams, 'shape' | 'axes'>): string => `${shape.join('x')} over ${axes.join()}`
const entry = (params: ReduceParams, kernel: string, quick = false): Entry => cold(reduce, params, { kernel, shape: nameOf(params), quick })

const plain = (kind: ReduceKind, type: ElementType = 'f32'): Entry[] =>
  SHAPES.map(([shape, axes]) => entry(plainReduce(kind, axes, shape, type), type === 'f32' ? kind : `${kind} ${type}`, kind === 'sum'))

/** Sums of an expression of the elements, and of another input that steps so along rows, where columns are reduced, and the other way. */
function sumsOf(name: string, expr: MapExpr, second: (shape: readonly number[], axes: readonly number[]) => MapInput[]): Entry[] {
  return SHAPES.map(([shape, axes]) => {
    const params = plainReduce('sum', axes, shape)
    return entry({ ...params, expr, inputs: [...params.inputs, ...second(shape, axes)] }, name)
  })
}
const perResult = (shape: readonly number[], axes: readonly number[]): MapInput[] => [
  { type: 'f32', strides: shape.length === 1 ? [0] : axes[0] === 0 ? [0, 1] : [1, 0] },
]
const another = (shape: readonly number[], axes: readonly number[]): MapInput[] => [...plainReduce('sum', axes, shape).inputs]

function scanOf(shape: readonly number[], axis: number): Entry {
  const params: ScanParams = { kind: 'sum', shape, axis, type: 'f32' }
  return cold(scan, params, { kernel: 'scan', shape: nameOf({ shape, axes: [axis] }), quick: true })
}

export const entries: Entry[] = [
  ...(['sum', 'max', 'prod', 'argmax'] as const).flatMap((kind) => plain(kind)),
  ...ODD.map(([shape, axes]) => entry(plainReduce('sum', axes, shape), 'sum')),
  ...sumsOf('sum of squares', square, () => []),
  ...sumsOf('sum of products', product, another),
  ...sumsOf('variance', centred, perResult),
  ...plain('sum', 'f16'),
  ...plain('sum', 'i32'),
  scanOf([ALL], 0),
  scanOf(SQUARE, 1),
  scanOf(SQUARE, 0),
]

export const main = experiment(entries)
