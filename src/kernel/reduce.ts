// Reductions of f32 tensors over any axes: sum, mean, max, min, prod, and the index of the largest or smallest element,
// counted over the reduced axes in order (ties: the lowest; NaN loses). max and min of a NaN are not specified.
// Neighbouring axes of one fate are merged first, so that kept and reduced axes alternate. Forms:
// - rows: the last axis is reduced; a workgroup per result, its lanes (or vectors) along that axis
// - columns: the last axis is kept; a lane (or an element of a vector) per result
// - long rows are cut into parts that are reduced into scratch memory, which a second launch reduces

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { flatGrid, lanesFor } from './lanes.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'
import { type Axis, type Layout, type ReduceKind, columnsKernel, isArg, rowsKernel } from './reduce-form.ts'
import { pickWork } from './select.ts'

export type { ReduceKind }
export interface ReduceParams {
  readonly kind: ReduceKind
  readonly axes: readonly number[]
  readonly shape: readonly number[]
}

/** Rows from this length on are cut into parts where there are few of them. */
const LONG = 32768
/** Elements of one part. */
const PART = 8192
/** On a GPU, shorter last axes are not worth a workgroup. */
const SHORT = 32
const LANES = 64

export const reduce: KernelRecord<ReduceParams> = {
  name: 'reduce',
  about: 'sum, mean, max, min, prod, argmax or argmin over any axes',
  tolerance: 1e-7,
  cases: [
    { kind: 'sum', axes: [1], shape: [3, 256] },
    { kind: 'sum', axes: [0], shape: [1] },
    { kind: 'mean', axes: [1], shape: [5, 67] },
    { kind: 'mean', axes: [0], shape: [67, 193] },
    { kind: 'max', axes: [0, 1], shape: [3, 1000] },
    { kind: 'min', axes: [1], shape: [4, 193, 3] },
    { kind: 'prod', axes: [0, 2], shape: [3, 2, 35] },
    { kind: 'sum', axes: [0, 2, 4], shape: [2, 3, 5, 7, 3] },
    { kind: 'max', axes: [1, 3], shape: [2, 3, 5, 67] },
    { kind: 'argmax', axes: [1], shape: [3, 1000] },
    { kind: 'argmin', axes: [0], shape: [67, 19] },
    { kind: 'argmin', axes: [0, 2], shape: [5, 2, 67] },
    { kind: 'argmax', axes: [1], shape: [9, 3] },
    { kind: 'sum', axes: [0], shape: [70001] },
    { kind: 'mean', axes: [1], shape: [2, 33000] },
    { kind: 'argmax', axes: [0, 1], shape: [3, 13001] },
  ],
  buffers: ({ kind, axes, shape }) => [
    { name: 'x', role: 'in', type: 'f32', elements: product(shape) },
    { name: 'y', role: 'out', type: isArg(kind) ? 'u32' : 'f32', elements: product(shape.filter((_, axis) => !axes.includes(axis))) },
  ],
  inputs: ({ kind, shape }, random): Arrays => {
    const fill = (value: () => number): Arrays => ({ x: Float32Array.from({ length: product(shape) }, value) })
    if (isArg(kind)) return fill(() => Math.round(40 * random() - 20)) // few different values, so that there are ties
    // Near 1, or the product of many ends among the numbers that GPUs flush to zero.
    return kind === 'prod' ? fill(() => (random() < 0.5 ? -1 : 1) * (0.75 + random() / 2)) : {}
  },
  work,
  define: ({ x }: Arrays, { kind, axes, shape }) => {
    const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis))
    const groups: number[][] = Array.from({ length: product(kept.map((axis) => shape[axis]!)) }, () => [])
    x!.forEach((value, at) => {
      const index = shape.map((size, axis) => Math.floor(at / product(shape.slice(axis + 1))) % size)
      groups[kept.reduce((flat, axis) => flat * shape[axis]! + index[axis]!, 0)]!.push(value)
    })
    const results = groups.map((values) => reduceValues(kind, values))
    return { y: isArg(kind) ? Uint32Array.from(results) : Float32Array.from(results) }
  },
}

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

function work(caps: Caps, { kind, axes, shape }: ReduceParams): Work {
  if (shape.some((size) => size < 1) || axes.some((axis) => shape[axis] === undefined)) {
    throw new IngotError('bad-argument', 'cannot reduce', {
      op: 'reduce',
      got: `axes [${axes.join(',')}] of [${shape.join(',')}]`,
      wanted: 'axes of a tensor with elements',
    })
  }
  const layout = layoutOf(shape, axes)
  const outputs = product(layout.kept.map(({ size }) => size))
  const count = product(layout.reduced.map(({ size }) => size))
  const scale = kind === 'mean' ? 1 / count : 1
  const uniforms = uniformsOf(layout)
  const inner = layout.reduced.at(-1)!.size
  if (layout.lastReduced && layout.reduced.length === 1) {
    if (isArg(kind)) return pickWork(caps, { rows: outputs, cols: count, lowest: kind === 'argmin' })
    if (count >= LONG && outputs < 4 * caps.parallel) return split(caps, kind, layout, outputs, count)
  }
  if (layout.lastReduced && (caps.lanes === 1 || inner >= SHORT)) {
    const lanes = lanesFor(caps, inner)
    const grid = flatGrid(caps, outputs)
    return { launches: [{ kernel: rowsKernel(caps, lanes, kind, layout), uniforms: { ...uniforms, outputs, scale }, grid }] }
  }
  const lanes = Math.min(LANES, caps.lanes)
  const each = caps.lanes === 1 ? caps.width : 1
  const grid = flatGrid(caps, Math.ceil(outputs / (lanes * each)))
  return { launches: [{ kernel: columnsKernel(caps, lanes, kind, layout), uniforms: { ...uniforms, outputs, scale }, grid }] }
}

function uniformsOf({ kept, reduced }: Layout): Record<string, number> {
  const entries = (name: string, list: readonly Axis[]): [string, number][] =>
    list.flatMap(({ size, stride }, i) => [
      [`${name}Size${i}`, size],
      [`${name}Stride${i}`, stride],
    ])
  return Object.fromEntries([...entries('kept', kept), ...entries('reduced', reduced)])
}

/** Two launches: each row in parts, then the results of the parts. */
function split(caps: Caps, kind: ReduceKind, layout: Layout, outputs: number, count: number): Work {
  const parts = Math.ceil(count / PART)
  const again: Layout = { kept: [{ size: outputs, stride: parts }], reduced: [{ size: parts, stride: 1 }], lastReduced: true }
  const first = rowsKernel(caps, lanesFor(caps, PART), kind, layout, 'cut')
  const second = rowsKernel(caps, lanesFor(caps, parts), kind, again, 'join')
  return {
    launches: [
      { kernel: first, uniforms: { ...uniformsOf(layout), outputs, scale: 1, part: PART, parts }, grid: flatGrid(caps, outputs * parts) },
      {
        kernel: second,
        uniforms: { ...uniformsOf(again), outputs, scale: kind === 'mean' ? 1 / count : 1 },
        grid: flatGrid(caps, outputs),
      },
    ],
    scratch: { partial: 4 * outputs * parts },
  }
}
