// Reductions of f32 tensors over any axes: sum, mean, max, min, prod, and the index of the largest or smallest element,
// counted over the reduced axes in order (ties: the lowest; NaN loses). max and min of a NaN are not specified.
// Neighbouring axes of one fate are merged first, so that kept and reduced axes alternate. Forms:
// - rows: the last axis is reduced; a workgroup per result, its lanes (or vectors) along that axis
// - columns: the last axis is kept; a lane (or an element of a vector) per result
// - long rows are cut into parts that are reduced into scratch memory, which a second launch reduces

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { type Arrays, type Launch, type Work, family, isCpu } from '../family.ts'
import { flatGrid, teamFor, teamOf } from '../lanes.ts'
import { pickWork } from '../select/argmax.ts'
import { template } from '../template.ts'
import { type FoldKind, type ReduceKind, type ReduceTraits, isArg, writeColumns, writeRows } from './form.ts'

export type { ReduceKind }
export interface ReduceParams {
  readonly kind: ReduceKind
  readonly axes: readonly number[]
  readonly shape: readonly number[]
}

/** An axis after merging; it steps `stride` elements of the input. */
interface Axis {
  readonly size: number
  readonly stride: number
}
export interface Layout {
  readonly kept: readonly Axis[]
  readonly reduced: readonly Axis[]
  /** whether the contiguous axis is a reduced one */
  readonly lastReduced: boolean
}

const FOLDS: readonly FoldKind[] = ['sum', 'max', 'min', 'prod', 'argmax', 'argmin']
/** Kept and reduced axes where the last is reduced, and where it is kept. */
const ROWS_AXES = [
  [1, 1],
  [1, 2],
  [2, 2],
] as const
const COLUMNS_AXES = [
  [1, 1],
  [2, 1],
  [2, 2],
] as const

const rows = template({ family: 'reduce', form: 'rows' }, writeRows)
const columns = template({ family: 'reduce', form: 'columns' }, writeColumns)
const parts = template({ family: 'reduce', form: 'split' }, writeRows)

/** Rows from this length on are cut into parts where there are few of them. */
const LONG = 32768
/** Elements of one part. */
const PART = 8192
/** On a GPU, shorter last axes are not worth a workgroup. */
const SHORT = 32
const LANES = 64

export const reduce = family<ReduceParams>({
  name: 'reduce',
  about: 'sum, mean, max, min, prod, argmax or argmin over any axes',
  // a product is rounded once for each factor
  tolerance: ({ kind, shape }) => (kind === 'prod' ? Math.max(1e-12, 1e-14 * product(shape)) : 1e-11),
  cases: [
    { kind: 'sum', axes: [1], shape: [3, 256] },
    { kind: 'sum', axes: [0], shape: [1] },
    { kind: 'mean', axes: [1], shape: [5, 67] },
    { kind: 'mean', axes: [0], shape: [67, 193] },
    { kind: 'max', axes: [0, 1], shape: [3, 1000] },
    { kind: 'sum', axes: [0, 2, 4], shape: [2, 3, 5, 7, 3] },
    { kind: 'argmax', axes: [1], shape: [9, 3] },
    { kind: 'sum', axes: [0], shape: [70001] },
    { kind: 'argmax', axes: [0, 1], shape: [3, 13001] },
    // every kind with every arrangement of axes that kernels are listed for
    ...FOLDS.flatMap((kind): ReduceParams[] => [
      { kind, axes: [1], shape: [5, 67] },
      { kind, axes: [0, 2], shape: [3, 2, 35] },
      { kind, axes: [1, 3], shape: [2, 3, 5, 37] },
      { kind, axes: [0], shape: [67, 19] },
      { kind, axes: [1], shape: [4, 29, 3] },
      { kind, axes: [0, 2], shape: [5, 3, 7, 6] },
      { kind, axes: [1], shape: [2, 33000] },
    ]),
  ],
  buffers: ({ kind, axes, shape }) => [
    { name: 'x', role: 'in', type: 'f32', elements: product(shape) },
    { name: 'y', role: 'out', type: isArg(kind) ? 'u32' : 'f32', elements: product(shape.filter((_, axis) => !axes.includes(axis))) },
  ],
  inputs: ({ kind, shape }, random): Arrays => {
    const fill = (value: () => number): Arrays => ({ x: Float32Array.from({ length: product(shape) }, value) })
    if (isArg(kind)) return fill(() => Math.round(40 * random() - 20)) // few different values, so that there are ties
    // Near 1, or the product of many ends among the numbers that GPUs flush to zero.
    const spread = 1 / Math.sqrt(product(shape))
    return kind === 'prod' ? fill(() => (random() < 0.5 ? -1 : 1) * (1 + spread * (random() - 0.5))) : {}
  },
  forms: [
    {
      name: 'pick',
      fits: (_caps, params) => isArg(params.kind) && alongRows(layoutFor(params)),
      work: (caps, params) => {
        const { outputs, count } = sizesOf(layoutFor(params))
        return pickWork(caps, { rows: outputs, cols: count, lowest: params.kind === 'argmin' })
      },
    },
    {
      name: 'split',
      fits: (caps, params) => {
        const layout = layoutFor(params)
        const { outputs, count } = sizesOf(layout)
        return alongRows(layout) && count >= LONG && outputs < 4 * caps.parallel
      },
      work: splitWork,
      kernels: (caps) =>
        listed(caps, [[1, 1]])
          .filter(({ kind }) => !isArg(kind))
          .flatMap((traits) => [true, false].map((cut) => parts({ ...traits, cut }))),
    },
    {
      name: 'rows',
      fits: (caps, params) => {
        const { lastReduced, reduced } = layoutFor(params)
        return lastReduced && (isCpu(caps) || (reduced.at(-1)?.size ?? 1) >= SHORT)
      },
      work: rowsWork,
      kernels: (caps) =>
        listed(caps, ROWS_AXES)
          .filter(({ kind, reduced }) => !isArg(kind) || reduced > 1) // one row is picked from
          .map((traits) => rows({ ...traits, cut: false })),
    },
    { name: 'columns', fits: () => true, work: columnsWork, kernels: (caps) => listed(caps, COLUMNS_AXES).map(columns) },
  ],
  cost: ({ shape }) => ({ operations: product(shape), arithmetic: 'f32' }),
  define: ({ x }, { kind, axes, shape }) => {
    const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis))
    const groups: number[][] = Array.from({ length: product(kept.map((axis) => shape[axis]!)) }, () => [])
    x!.forEach((value, at) => {
      const index = shape.map((size, axis) => Math.floor(at / product(shape.slice(axis + 1))) % size)
      groups[kept.reduce((flat, axis) => flat * shape[axis]! + index[axis]!, 0)]!.push(value)
    })
    const results = groups.map((values) => reduceValues(kind, values))
    return { y: isArg(kind) ? Uint32Array.from(results) : Float32Array.from(results) }
  },
})

function reduceValues(kind: ReduceKind, values: readonly number[]): number {
  switch (kind) {
    case 'sum':
      return values.reduce((a, b) => a + b, 0)
    case 'mean':
      return values.reduce((a, b) => a + b, 0) / values.length
    case 'prod':
      return values.reduce((a, b) => a * b, 1)
    case 'max':
      return values.reduce((a, b) => Math.max(a, b))
    case 'min':
      return values.reduce((a, b) => Math.min(a, b))
    case 'argmax':
      return values.reduce((best, v, i) => (v > values[best]! || (Number.isNaN(values[best]) && !Number.isNaN(v)) ? i : best), 0)
    case 'argmin':
      return values.reduce((best, v, i) => (v < values[best]! || (Number.isNaN(values[best]) && !Number.isNaN(v)) ? i : best), 0)
  }
}

function product(sizes: readonly number[]): number {
  return sizes.reduce((a, b) => a * b, 1)
}

/** Merges neighbouring axes that are all kept or all reduced; each list has at least one axis. */
export function layoutOf(shape: readonly number[], axes: readonly number[]): Layout {
  const merged: { size: number; reduced: boolean }[] = []
  shape.forEach((size, axis) => {
    if (size === 1) return
    const reduced = axes.includes(axis)
    const before = merged.at(-1)
    if (before?.reduced === reduced) before.size *= size
    else merged.push({ size, reduced })
  })
  const strides = merged.map((_, i) => product(merged.slice(i + 1).map(({ size }) => size)))
  const list = (wanted: boolean): Axis[] => {
    const found = merged.flatMap(({ size, reduced }, i) => (reduced === wanted ? [{ size, stride: strides[i]! }] : []))
    return found.length > 0 ? found : [{ size: 1, stride: 1 }]
  }
  return { kept: list(false), reduced: list(true), lastReduced: merged.at(-1)?.reduced ?? true }
}

function layoutFor({ axes, shape }: ReduceParams): Layout {
  if (shape.some((size) => size < 1) || axes.some((axis) => shape[axis] === undefined)) {
    const got = `axes [${axes.join(',')}] of [${shape.join(',')}]`
    throw new IngotError('bad-argument', 'cannot reduce', { op: 'reduce', got, wanted: 'axes of a tensor with elements' })
  }
  return layoutOf(shape, axes)
}

/** Results, and elements that each is made of. */
function sizesOf({ kept, reduced }: Layout): { outputs: number; count: number } {
  return { outputs: product(kept.map(({ size }) => size)), count: product(reduced.map(({ size }) => size)) }
}

/** Whether a result is made of one run of neighbouring elements. */
function alongRows({ lastReduced, reduced }: Layout): boolean {
  return lastReduced && reduced.length === 1
}

function rowsWork(caps: Caps, params: ReduceParams): Work {
  const layout = layoutFor(params)
  const team = teamFor(caps, layout.reduced.at(-1)?.size ?? 1)
  const kernel = rows({ ...traitsOf(caps, params.kind, layout), ...team, cut: false })
  return { launches: [launch(kernel, params.kind, layout, flatGrid(caps, sizesOf(layout).outputs))] }
}

function columnsWork(caps: Caps, params: ReduceParams): Work {
  const layout = layoutFor(params)
  const team = teamOf(caps, Math.min(LANES, caps.lanes))
  const each = team.lanes * (isCpu(caps) ? caps.width : 1)
  const kernel = columns({ ...traitsOf(caps, params.kind, layout), ...team })
  return { launches: [launch(kernel, params.kind, layout, flatGrid(caps, Math.ceil(sizesOf(layout).outputs / each)))] }
}

/** Two launches: each row in parts, then the results of the parts. */
function splitWork(caps: Caps, { kind, ...params }: ReduceParams): Work {
  const layout = layoutFor({ kind, ...params })
  const { outputs, count } = sizesOf(layout)
  const pieces = Math.ceil(count / PART)
  const again: Layout = { kept: [{ size: outputs, stride: pieces }], reduced: [{ size: pieces, stride: 1 }], lastReduced: true }
  const cut = parts({ ...traitsOf(caps, kind, layout), ...teamFor(caps, PART), cut: true })
  const join = parts({ ...traitsOf(caps, kind, again), ...teamFor(caps, pieces), cut: false })
  const first = launch(cut, 'sum', layout, flatGrid(caps, outputs * pieces)) // not scaled yet
  const second = launch(join, kind, again, flatGrid(caps, outputs), count)
  return {
    launches: [
      { ...first, uniforms: { ...first.uniforms, part: PART, parts: pieces }, binds: { y: 'partial' } },
      { ...second, binds: { x: 'partial' } },
    ],
    scratch: { partial: 4 * outputs * pieces },
  }
}

function traitsOf({ width }: Caps, kind: ReduceKind, { kept, reduced }: Layout): Omit<ReduceTraits, 'lanes' | 'subgroup'> {
  return { kind: kind === 'mean' ? 'sum' : kind, kept: kept.length, reduced: reduced.length, width }
}

/**
 * What CPU kernels are written for, with so many kept and reduced axes. Kept and reduced axes alternate after merging, so which is last
 * says how many there can be of each; more than two of a kind are left only in made-up examples.
 */
function listed({ width }: Caps, axes: readonly (readonly [kept: number, reduced: number])[]): ReduceTraits[] {
  return FOLDS.flatMap((kind) => axes.map(([kept, reduced]) => ({ kind, kept, reduced, width, lanes: 1, subgroup: 0 })))
}

/** `count`: elements of which each result is the mean, if it is one. */
function launch(kernel: Launch['kernel'], kind: ReduceKind, layout: Layout, grid: Launch['grid'], count = sizesOf(layout).count): Launch {
  const entries = (name: string, list: readonly Axis[]): [string, number][] =>
    list.flatMap(({ size, stride }, i) => [
      [`${name}Size${i}`, size],
      [`${name}Stride${i}`, stride],
    ])
  const sizes = Object.fromEntries([...entries('kept', layout.kept), ...entries('reduced', layout.reduced)])
  return { kernel, uniforms: { ...sizes, outputs: sizesOf(layout).outputs, scale: kind === 'mean' ? 1 / count : 1 }, grid }
}
