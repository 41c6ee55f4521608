// How x lies in memory for the direct convolution, so that windows side by side see elements side by side under any tap: with padding, and
// with the phases of a stride apart (of a stride of two: even and odd columns). That is an unfold, whose taps are phases. Where x is laid
// out so already, it is taken as it is.

import type { Caps } from '../../base/caps.ts'
import { ELEMENT_BYTES } from '../../base/element.ts'
import { item } from '../../base/list.ts'
import type { Work } from '../family.ts'
import type { ConvolveParams } from './convolution.ts'
import { unfold } from './unfold.ts'
import { type WindowAxis, product, windowAxes } from './windows.ts'

/** An axis whose taps fall into phases of its stride: a tap is whole strides from the first, and a rest: `unit` times its phase. */
export interface PhasedAxis extends WindowAxis {
  readonly phases: number
  readonly unit: number
  /** whole strides of the last tap */
  readonly reach: number
}

export interface Layout {
  readonly rowAxis: PhasedAxis
  readonly columnAxis: PhasedAxis
  /** vectors in a row of windows */
  readonly across: number
  /** rows of a phase, and elements of such a row */
  readonly rows: number
  readonly pitch: number
  /** elements of all phases of a channel */
  readonly plane: number
  /** what brings x into this layout, as memory called `phases`; undefined if x is in it */
  readonly work: Required<Work> | undefined
}

export function layOut(caps: Caps, params: ConvolveParams): Layout {
  const axes = windowAxes(params, 2).map(phasesOf)
  const [rowAxis, columnAxis] = [item(axes, 0), item(axes, 1)]
  const across = Math.ceil(columnAxis.out / caps.width)
  const [rows, pitch] = [rowAxis.out + rowAxis.reach, across * caps.width + columnAxis.reach]
  const plane = rowAxis.phases * columnAxis.phases * rows * pitch
  const layout = { rowAxis, columnAxis, across, rows, pitch, plane }
  const isThere = axes.every(({ stride, before }) => stride === 1 && before === 0) && rows === rowAxis.in && pitch === columnAxis.in
  if (isThere) return { ...layout, work: undefined }
  const { type, n, channels } = params
  const { launches } = unfold.work(caps, {
    type,
    n: n * channels,
    value: 0,
    in: axes.map((axis) => axis.in),
    kernel: axes.map(({ phases }) => phases),
    strides: axes.map(({ stride }) => stride),
    dilations: axes.map(({ unit }) => unit),
    padding: axes.map(({ before }) => [before, 0] as const),
    out: [rows, pitch],
  })
  const scratch = { phases: n * channels * plane * ELEMENT_BYTES[type] }
  return { ...layout, work: { launches: launches.map((launch) => ({ ...launch, binds: { y: 'phases' } })), scratch } }
}

function phasesOf(axis: WindowAxis): PhasedAxis {
  const { kernel, stride, dilation } = axis
  const last = (kernel - 1) * dilation
  if (last < stride) return { ...axis, phases: kernel, unit: dilation, reach: 0 }
  const unit = greatestDivisor(stride, dilation)
  return { ...axis, phases: stride / unit, unit, reach: Math.floor(last / stride) }
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b)
}

/**
 * A convolution of single elements, 1x1, has the channels of a group as rows of an image, and one window over all of them: so its loop over
 * taps is long, and rows of the image are one. Others are what they are.
 */
export function unite(params: ConvolveParams, mostTaps: number): ConvolveParams {
  const { in: sizes, out, kernel, strides, padding, groups } = params
  const isPointwise = sizes.every(
    (size, axis) => kernel[axis] === 1 && strides[axis] === 1 && padding[axis]?.[0] === 0 && out[axis] === size,
  )
  const [size, inputs] = [product(sizes), params.channels / groups]
  if (!isPointwise || inputs > mostTaps) return params
  const none = [0, 0] as const
  const windows = { kernel: [inputs, 1], strides: [1, 1], dilations: [1, 1], padding: [none, none] }
  return { ...params, channels: groups, in: [inputs, size], out: [1, size], ...windows }
}
