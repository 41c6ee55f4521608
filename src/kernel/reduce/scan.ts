// Cumulative sums and products along any axis: y[i] = x[0] + ... + x[i]; without the element itself if `exclusive`, from the end if
// `reversed`. Floats are added in f32, integers wrap at 32 bits. Where the axis is long and there are few others to share the work, it is
// cut into parts: their sums come first, then what precedes each, then the parts themselves.

import type { Caps } from '../../base/caps.ts'
import { ELEMENT_BYTES, type ElementType } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { registerOf } from '../element.ts'
import { type Arrays, type Launch, NONE, type Work, family, isCpu } from '../family.ts'
import { flatGrid, teamFor } from '../lanes.ts'
import { sizeOf } from '../map/walk.ts'
import { template } from '../template.ts'
import { definedAs, toleranceOf } from './float-row.ts'
import { isFloat, stateOf } from './fold.ts'
import { plainReduce } from './params.ts'
import { type ScanTraits, writeScanColumns, writeScanRows } from './scan-kernel.ts'
import { STRIP } from './strip.ts'
import { partsLaunch } from './work.ts'

export interface ScanParams {
  readonly kind: 'sum' | 'prod'
  readonly shape: readonly number[]
  readonly axis: number
  /** of elements and results; not bool */
  readonly type: ElementType
  /** without the element itself: the first is 0, or 1 of products */
  readonly exclusive?: boolean
  /** from the end of the axis */
  readonly reversed?: boolean
}

const KERNELS = {
  rows: template<ScanTraits>({ family: 'scan', form: 'rows' }, writeScanRows),
  columns: template<ScanTraits>({ family: 'scan', form: 'columns' }, writeScanColumns),
} as const

/** Elements of the axis that are worth a part. */
const LEAST = { rows: 8192, columns: 64 } as const
/** Elements in all that are worth more launches than one. */
const WORTH_LAUNCHES = 65536
const LANES = 64

export const scan = family<ScanParams>({
  name: 'scan',
  about: 'cumulative sum or product along an axis',
  // a product is rounded once for each factor
  tolerance: ({ kind, type, shape, axis }) => toleranceOf(type, kind === 'prod' ? Math.max(1e-12, 1e-14 * (shape[axis] ?? 1)) : 1e-11),
  cases: [
    { kind: 'sum', shape: [3, 256], axis: 1, type: 'f32', exclusive: false, reversed: false },
    { kind: 'sum', shape: [1], axis: 0, type: 'f32' },
    { kind: 'prod', shape: [5, 67, 3], axis: 0, type: 'f32' },
    { kind: 'sum', shape: [70001], axis: 0, type: 'f32' },
    { kind: 'sum', shape: [70001], axis: 0, type: 'i32', exclusive: true, reversed: true },
    { kind: 'sum', shape: [2, 35001], axis: 1, type: 'f32', reversed: true },
    { kind: 'sum', shape: [30011, 3], axis: 0, type: 'f32', exclusive: true },
    { kind: 'sum', shape: [2, 9001, 5], axis: 1, type: 'f32', reversed: true },
    { kind: 'sum', shape: [3, 4099], axis: 0, type: 'f32' },
    ...(['sum', 'prod'] as const).flatMap((kind) =>
      [false, true].flatMap((exclusive) =>
        [false, true].flatMap((reversed): ScanParams[] => [
          { kind, shape: [3, 1031], axis: 1, type: 'f32', exclusive, reversed },
          { kind, shape: [2, 300, 19], axis: 1, type: 'f32', exclusive, reversed },
        ]),
      ),
    ),
    ...(['f16', 'bf16', 'i32', 'u32', 'i8', 'u8', 'i64'] as const).flatMap((type): ScanParams[] => [
      { kind: 'sum', shape: [3, 131], axis: 1, type },
      { kind: 'sum', shape: [37, 19], axis: 0, type, reversed: true },
      { kind: 'prod', shape: [37, 3], axis: 0, type, exclusive: true },
    ]),
  ],
  buffers: ({ shape, type }) => [
    { name: 'x', role: 'in', type, elements: sizeOf(shape) },
    { name: 'y', role: 'out', type, elements: sizeOf(shape) },
  ],
  // Factors near 1, or the product of many ends among the numbers that GPUs flush to zero.
  inputs: ({ kind, shape, axis, type }, random): Arrays => {
    if (kind === 'sum') return {}
    const spread = 1 / Math.sqrt(shape[axis] ?? 1)
    const factor = (): number =>
      isFloat(registerOf(type)) ? (random() < 0.5 ? -1 : 1) * (1 + spread * (random() - 0.5)) : 2 * Math.floor(random() * 100) + 1
    return { x: Float64Array.from({ length: sizeOf(shape) }, factor) }
  },
  forms: (['rows', 'columns'] as const).map((form) => ({
    name: form,
    fits: (_: Caps, params: ScanParams) => arrangementOf(sizesOf(params)) === form,
    work: scanWork,
    kernels: ({ width }: Caps) =>
      [false, true].map((carried) => KERNELS[form]({ kind: 'sum', type: 'f32', carried, width, lanes: 1, subgroup: 0 })),
  })),
  cost: ({ shape }) => ({ operations: sizeOf(shape), arithmetic: 'f32' }),
  define: ({ x = NONE }, params) => {
    const { kind, type, exclusive = false, reversed = false } = params
    const { outer, length, inner } = sizesOf(params)
    const register = registerOf(type)
    const wrap = (value: number): number => (register === 'i32' ? value | 0 : register === 'u32' ? value >>> 0 : value)
    const join = (a: number, b: number): number =>
      kind === 'sum' ? wrap(a + b) : isFloat(registerOf(type)) ? a * b : wrap(Math.imul(a, b))
    const y = new Float64Array(x.length)
    for (let line = 0; line < outer * inner; line++) {
      let total = kind === 'sum' ? 0 : 1
      for (let j = 0; j < length; j++) {
        const along = reversed ? length - 1 - j : j
        const at = (Math.floor(line / inner) * length + along) * inner + (line % inner)
        const after = join(total, wrap(x[at] ?? Number.NaN))
        y[at] = exclusive ? total : after
        total = after
      }
    }
    return { y: definedAs(type, y) }
  },
})

/** Elements before, along and behind the axis. */
interface Sizes {
  readonly outer: number
  readonly length: number
  readonly inner: number
}

function sizesOf({ shape, axis, type }: ScanParams): Sizes {
  const length = shape[axis]
  if (length === undefined || shape.some((size) => size < 1) || registerOf(type) === 'bool')
    throw new IngotError('bad-argument', 'cannot scan', {
      op: 'scan',
      got: `axis ${axis} of ${type} [${shape.join(',')}]`,
      wanted: 'an axis of numbers',
    })
  return { outer: sizeOf(shape.slice(0, axis)), length, inner: sizeOf(shape.slice(axis + 1)) }
}

function arrangementOf({ inner }: Sizes): 'rows' | 'columns' {
  return inner === 1 ? 'rows' : 'columns'
}

/** Workgroups that there are without parts. */
function groupsOf(caps: Caps, { outer, inner }: Sizes): number {
  if (inner === 1) return outer
  return isCpu(caps) ? outer * Math.ceil(inner / STRIP) : Math.ceil((outer * inner) / lanesOf(caps))
}

function lanesOf(caps: Caps): number {
  return Math.min(LANES, caps.lanes)
}

/** Elements of the axis that one workgroup takes: all of them, unless the others are too few for the device. */
function partOf(caps: Caps, sizes: Sizes): number {
  const { outer, length, inner } = sizes
  if (caps.parallel === 1 || outer * length * inner < WORTH_LAUNCHES) return length
  const wanted = Math.ceil((2 * caps.parallel) / groupsOf(caps, sizes))
  const possible = Math.floor(length / LEAST[arrangementOf(sizes)])
  return Math.ceil(length / Math.max(1, Math.min(wanted, possible)))
}

function scanWork(caps: Caps, params: ScanParams): Work {
  const { kind, shape, axis, type } = params
  const sizes = sizesOf(params)
  const part = partOf(caps, sizes)
  if (part === sizes.length) return { launches: [launch(caps, params, sizes, part)] }
  const state = stateOf(registerOf(type))
  const { launch: sums, parts } = partsLaunch(caps, { ...plainReduce(kind, [axis], shape, type), kind }, part)
  const lines = sizes.outer * sizes.inner
  const between: ScanParams =
    sizes.inner === 1
      ? { ...params, shape: [lines, parts], axis: 1, type: state, exclusive: true }
      : { ...params, shape: [parts, lines], axis: 0, type: state, exclusive: true }
  const bytes = ELEMENT_BYTES[state] * lines * parts
  return {
    launches: [
      { ...sums, binds: { ...sums.binds, in0: 'x' } },
      { ...launch(caps, between, sizesOf(between), parts), binds: { x: 'partial', y: 'carry' } },
      launch(caps, params, sizes, part),
    ],
    scratch: { partial: bytes, carry: bytes },
  }
}

function launch(caps: Caps, { kind, type, exclusive, reversed }: ScanParams, sizes: Sizes, part: number): Launch {
  const parts = Math.ceil(sizes.length / part)
  const form = arrangementOf(sizes)
  const team = form === 'rows' ? teamFor(caps, part) : { lanes: lanesOf(caps), subgroup: 0 }
  return {
    kernel: KERNELS[form]({ kind, type, carried: parts > 1, width: caps.width, ...team }),
    uniforms: { ...sizes, parts, part, exclusive: Number(exclusive ?? false), reversed: Number(reversed ?? false) },
    grid: flatGrid(caps, groupsOf(caps, sizes) * parts),
  }
}
