// Windows that slide over the last axes of a tensor: what convolutions, pooling, unfold and fold have in common. Positions are counted from
// the first element of padding; kernels treat whatever lies outside of the tensor as padding, so windows may also stick out at the end.

/* oxlint-disable typescript/no-non-null-assertion -- `checkWindows` has seen that every list has an entry for each axis */

import { IngotError } from '../../base/error.ts'
import { item } from '../../base/list.ts'
import { type LaneScope, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'

/** Each list has an entry for every axis that windows slide over, the outermost first. */
export interface Windows {
  /** elements of the tensor */
  readonly in: readonly number[]
  /** taps of a window */
  readonly kernel: readonly number[]
  /** from window to window */
  readonly strides: readonly number[]
  /** from tap to tap */
  readonly dilations: readonly number[]
  readonly padding: readonly (readonly [before: number, after: number])[]
  /** windows: usually `windowCounts` */
  readonly out: readonly number[]
}

/** What is known of one axis. */
export interface WindowAxis {
  readonly in: number
  readonly kernel: number
  readonly stride: number
  readonly dilation: number
  readonly before: number
  readonly after: number
  readonly out: number
}

/** How many windows lie within the tensor and its padding along each axis; with `ceil`, the last may stick out if it begins inside. */
export function windowCounts({ in: sizes, kernel, strides, dilations, padding }: Omit<Windows, 'out'>, ceil = false): number[] {
  return sizes.map((size, axis) => {
    const [before, after] = padding[axis]!
    const rest = size + before + after - dilations[axis]! * (kernel[axis]! - 1) - 1
    if (rest < 0) return 0
    const whole = Math.floor(rest / strides[axis]!)
    const begins = (whole + 1) * strides[axis]! < size + before // one that has only padding counts for nothing
    return whole + 1 + Number(ceil && rest % strides[axis]! !== 0 && begins)
  })
}

/** Throws `bad-argument` unless there are windows along each of up to `most` axes. */
export function checkWindows(op: string, windows: Windows, most: number): void {
  const { in: sizes, kernel, strides, dilations, padding, out } = windows
  const lists = [kernel, strides, dilations, padding, out]
  const isWhole = (least: number) => (size: number) => Number.isInteger(size) && size >= least
  const positive = [sizes, kernel, strides, dilations, out].every((list) => list.every(isWhole(1)))
  if (
    sizes.length < 1 ||
    sizes.length > most ||
    lists.some(({ length }) => length !== sizes.length) ||
    !positive ||
    !padding.flat().every(isWhole(0))
  )
    throw new IngotError('bad-argument', 'no windows', {
      op,
      got: windows,
      wanted: `whole numbers from 1 on for each of at most ${most} axes`,
    })
}

/** The axes one by one; trivial ones come before them, so that there are `count`. */
export function windowAxes(windows: Windows, count: number): WindowAxis[] {
  const axes = windows.in.map((size, axis): WindowAxis => ({
    in: size,
    kernel: windows.kernel[axis]!,
    stride: windows.strides[axis]!,
    dilation: windows.dilations[axis]!,
    before: windows.padding[axis]![0],
    after: windows.padding[axis]![1],
    out: windows.out[axis]!,
  }))
  const trivial: WindowAxis = { in: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, out: 1 }
  return [...Array.from({ length: count - axes.length }, () => trivial), ...axes]
}

/** The numbers of each axis that kernels are given. */
const FIELDS = ['in', 'kernel', 'stride', 'dilation', 'before', 'out'] as const
type Field = (typeof FIELDS)[number]

const numbers = (axes: number) => Array.from({ length: axes }, () => uniform('u32'))

/** As many uniforms of each kind as there are axes: `in0`, `in1`... */
export const windowParams = (axes: number) => ({
  in: numbers(axes),
  kernel: numbers(axes),
  stride: numbers(axes),
  dilation: numbers(axes),
  before: numbers(axes),
  out: numbers(axes),
})

export function windowUniforms(axes: readonly WindowAxis[]): Record<string, number> {
  return Object.fromEntries(axes.flatMap((axis, i) => FIELDS.map((field): [string, number] => [`${field}${i}`, axis[field]])))
}

type U32 = Value<'u32'>
type Uniform = Value<'u32', 'uniform'>

/** One axis in a kernel. */
export type AxisHandle = { readonly [F in Field]: Uniform }

export function axisHandle(lists: { readonly [F in Field]: readonly Uniform[] }, axis: number): AxisHandle {
  return {
    in: item(lists.in, axis),
    kernel: item(lists.kernel, axis),
    stride: item(lists.stride, axis),
    dilation: item(lists.dilation, axis),
    before: item(lists.before, axis),
    out: item(lists.out, axis),
  }
}

/** A number of several axes as one of all but the last, and the index in the last, which has `size` elements. */
export function splitIndex(k: LaneScope, number: U32, size: U32): [rest: U32, index: U32] {
  return [k.let('rest', number.div(size)), k.let('index', number.rem(size))]
}

/** The element under a tap of a window; those in the padding before the first wrap around, and so are no elements either. */
export function elementUnder({ stride, dilation, before }: AxisHandle, window: U32, tap: U32): U32 {
  return window.mul(stride).add(tap.mul(dilation)).sub(before)
}

/** How many steps of `step` from `from` on are below `to`: 0 if none is. */
export function stepsBelow(from: U32, to: U32, step: U32): U32 {
  return to.gt(from).select(to.sub(from).add(step).sub(1).div(step), 0)
}

/** Visits every tap that meets the tensor: `visit` gets the number of the window, of the tap in it, and of the element. */
export function visitTaps(windows: Windows, visit: (window: number, tap: number, element: number) => void): void {
  const axes = windowAxes(windows, windows.in.length)
  const enter = (axis: number, window: number, tap: number, element: number): void => {
    const own = axes[axis]
    if (own === undefined) return visit(window, tap, element)
    for (let o = 0; o < own.out; o++) {
      for (let t = 0; t < own.kernel; t++) {
        const at = o * own.stride + t * own.dilation - own.before
        if (at >= 0 && at < own.in) enter(axis + 1, window * own.out + o, tap * own.kernel + t, element * own.in + at)
      }
    }
  }
  enter(0, 0, 0, 0)
}

export function product(sizes: readonly number[]): number {
  return sizes.reduce((a, b) => a * b, 1)
}
