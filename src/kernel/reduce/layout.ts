// How a reduction lies in memory: which axes are left after merging, along which one kernels go, and into how many parts the reduced axes
// are cut. Axes that neighbour each other once kept and reduced ones are put apart are merged, and all but the picks, whose results count
// elements in order, may take the reduced ones in any order: the one with the shortest steps last.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { isCpu } from '../family.ts'
import type { MapInput } from '../map/params.ts'
import { type Walk, mergeAxes, sizeOf, walkOf } from '../map/walk.ts'
import { type ReduceParams, axesOf, isPick } from './params.ts'

/** An axis after merging; every input has a step. */
export interface Axis {
  readonly size: number
  readonly steps: readonly number[]
}

/** Kernels go along the last reduced axis (`rows`), or the last kept one (`columns`). */
export type Arrangement = 'rows' | 'columns'

export interface Layout {
  readonly arrangement: Arrangement
  readonly kept: readonly Axis[]
  readonly reduced: readonly Axis[]
  /** results, and elements that each is made of */
  readonly outputs: number
  readonly count: number
}

type Reduction = Pick<ReduceParams, 'kind' | 'axes' | 'shape' | 'inputs'>

const MOST_AXES = 10
/** Shorter last axes are not worth a workgroup of a GPU, nor a vector of a CPU, where there are other results to go along. */
const SHORT = { gpu: 32, cpu: 8 } as const
/** CPUs have one kernel for all that has so few axes. */
const PADDED = 2

export function layoutOf(caps: Caps, { kind, axes, shape, inputs }: Reduction): Layout {
  const { kept, reduced } = axesOf({ axes, shape })
  const longest = (axis: number): number => Math.max(0, ...inputs.map(({ strides }) => Math.abs(strides[axis] ?? 0)))
  const sorted = isPick(kind) ? reduced : reduced.toSorted((a, b) => longest(b) - longest(a))
  const merge = (list: readonly number[]): Axis[] => {
    const merged = mergeAxes(
      list.map((axis) => shape[axis] ?? 1),
      inputs.map(({ strides }) => list.map((axis) => strides[axis] ?? 0)),
    )
    return pad(
      caps,
      inputs.length,
      merged.shape.map((size, i) => ({ size, steps: merged.strides.map((steps) => steps[i] ?? 0) })),
    )
  }
  const found = { kept: merge(kept), reduced: merge(sorted) }
  const rank = found.kept.length + found.reduced.length
  if (rank > MOST_AXES) throw new IngotError('unsupported', 'too many axes', { op: 'reduce', got: rank, wanted: `at most ${MOST_AXES}` })
  return { ...found, arrangement: arrange(caps, inputs, found), outputs: countOf(found.kept), count: countOf(found.reduced) }
}

function pad(caps: Caps, inputs: number, axes: readonly Axis[]): Axis[] {
  const missing = isCpu(caps) ? Math.max(0, PADDED - axes.length) : 0
  return [...Array.from({ length: missing }, () => ({ size: 1, steps: Array.from({ length: inputs }, () => 0) })), ...axes]
}

/** Along the axis on which more inputs have neighbours side by side. */
function arrange(caps: Caps, inputs: readonly MapInput[], { kept, reduced }: Pick<Layout, 'kept' | 'reduced'>): Arrangement {
  const [outer, inner] = [kept.at(-1), reduced.at(-1)]
  const neighbours = (axis?: Axis): number => inputs.filter(({ counts }, i) => !counts && axis?.steps[i] === 1).length
  if (countOf(kept) === 1) return 'rows'
  if ((inner?.size ?? 1) < (isCpu(caps) ? SHORT.cpu : SHORT.gpu)) return 'columns'
  return neighbours(inner) >= neighbours(outer) ? 'rows' : 'columns'
}

function countOf(axes: readonly Axis[]): number {
  return sizeOf(axes.map(({ size }) => size))
}

/** All axes, in the order that kernels know them. */
export function orderOf({ arrangement, kept, reduced }: Layout): readonly Axis[] {
  return arrangement === 'rows' ? [...kept, ...reduced] : [...reduced, ...kept]
}

export function walksOf(caps: Caps, layout: Layout, inputs: readonly MapInput[]): Walk[] {
  const axes = orderOf(layout)
  return inputs.map(({ offset }, i) =>
    walkOf(
      axes.map(({ steps }) => steps[i] ?? 0),
      offset,
      isCpu(caps),
    ),
  )
}

/** How the first and the last of the reduced axes are cut, which may be one and the same: so many parts, of so many elements. */
export interface Cut {
  readonly parts: readonly number[]
  readonly part: readonly number[]
}

export function cutsOf(reduced: number): number {
  return reduced > 1 ? 2 : 1
}

export function partsOf({ parts }: Cut): number {
  return sizeOf(parts)
}

/** Parts of so many elements of a result, or somewhat more. */
export function cutInto({ reduced, count }: Layout, most: number): Cut {
  const [first = 1, last = 1] = [reduced[0]?.size, reduced.at(-1)?.size]
  const inner = Math.min(last, most)
  if (reduced.length === 1) return { parts: [Math.ceil(last / inner)], part: [inner] }
  const outer = Math.min(first, Math.max(1, Math.floor(most / (count / first))))
  return { parts: [Math.ceil(first / outer), Math.ceil(last / inner)], part: [outer, inner] }
}

/** Elements of a result that are summed at one go, at most: of more, sums of sums are nearer to the truth. */
const LONGEST = { rows: 32768, columns: 2048 } as const
/** Elements of a part, and the fewest that are worth one. */
const PART = 8192
/** Elements of a column that are worth a part. */
const LEAST_ROWS = 64
/** Elements in all that are worth more launches than one. */
const WORTH_A_LAUNCH = 16384
/** Workgroups for each that runs at the same time: some, so that one that comes late does not hold up all. */
const GROUPS = 4

/** `groups`: how many workgroups there would be without parts. */
export function cutOf({ parallel }: Caps, layout: Layout, groups: number): Cut {
  const { arrangement, outputs, count } = layout
  const wanted = outputs * count >= WORTH_A_LAUNCH ? Math.ceil((GROUPS * parallel) / groups) : 1
  const accurate = count > LONGEST[arrangement] ? Math.ceil(count / (arrangement === 'rows' ? PART : LONGEST.columns)) : 1
  const possible = Math.floor(count / (arrangement === 'rows' ? PART : LEAST_ROWS))
  return cutInto(layout, Math.ceil(count / Math.max(accurate, Math.min(wanted, possible), 1)))
}
