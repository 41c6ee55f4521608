// Methods that move elements without computing: other shapes, other orders, parts and wholes.

import { describeKind } from '../../base/argument.ts'
import { MOST_ELEMENTS, checkList, checkShape, checkWhole, checkWord, fail, optionsOf } from '../operand.ts'
import type { Axes } from './base.ts'
import { ElementwiseMethods } from './elementwise.ts'

/** Part of an axis: [start, end, step], each counted from the end if below 0, and null for the default; null is all of it. */
export type SliceRange = readonly [start?: number | null, end?: number | null, step?: number | null] | null
/** Elements to add before and after an axis. */
export type PadWidth = readonly [before: number, after: number]
/** constant: a number; edge: the last element; reflect: mirrored at it; symmetric: mirrored behind it */
export type PadMode = 'constant' | 'edge' | 'reflect' | 'symmetric'
const PAD_MODES: readonly PadMode[] = ['constant', 'edge', 'reflect', 'symmetric']

export abstract class ShapeMethods extends ElementwiseMethods {
  /** The same elements in another shape; one size may be -1, which is what is left. */
  reshape(...shape: readonly number[]): this {
    for (const size of shape) checkWhole('reshape', 'a size', size, -1)
    const open = shape.indexOf(-1)
    if (open < 0) return this.apply('reshape', [this], { shape })
    const rest = shape.reduce((product, size, axis) => (axis === open ? product : product * size), 1)
    return this.apply('reshape', [this], { shape: shape.with(open, this.size / rest) })
  }
  /** All axes from one to another (both included) as one. */
  flatten(from = 0, to = -1): this {
    if (this.rank === 0) return this.reshape(1)
    const [first, last] = [this.axisOf('flatten', from), this.axisOf('flatten', to)]
    if (last < first) fail('flatten', 'axes end before they begin', [from, to])
    return this.reshape(...this.shape.slice(0, first), -1, ...this.shape.slice(last + 1))
  }
  /** Without these axes, which must have size 1; default: all such. */
  squeeze(axes?: Axes): this {
    const gone = axes === undefined ? this.shape.flatMap((size, axis) => (size === 1 ? [axis] : [])) : this.axesOf('squeeze', axes)
    for (const axis of gone) if (this.shape[axis] !== 1) fail('squeeze', `axis ${axis} has more than one element`, this.shape)
    return this.reshape(...this.shape.filter((_, axis) => !gone.includes(axis)))
  }
  /** With a new axis of size 1 at this place of the result. */
  unsqueeze(axis: number): this {
    checkWhole('unsqueeze', 'the axis', axis, -this.rank - 1, this.rank)
    const at = axis < 0 ? axis + this.rank + 1 : axis
    return this.reshape(...this.shape.toSpliced(at, 0, 1))
  }
  /** Axis i of the result is axis `axes[i]`. */
  permute(...axes: readonly number[]): this {
    return this.apply('permute', [this], { axes: axes.map((axis) => this.axisOf('permute', axis)) })
  }
  /** With two axes exchanged, by default the last two. */
  transpose(a = -1, b = -2): this {
    const [first, second] = [this.axisOf('transpose', a), this.axisOf('transpose', b)]
    const axes = this.shape.map((_, axis) => (axis === first ? second : axis === second ? first : axis))
    return this.permute(...axes)
  }
  /** Repeated along axes of size 1, and along new ones in front, to this shape. */
  expand(...shape: readonly number[]): this {
    return this.apply('expand', [this], { shape })
  }

  /** A part: a range for each axis; all of those not named. `x.slice([0, 2], null, [null, null, -1])` */
  slice(...ranges: readonly SliceRange[]): this {
    if (ranges.length > this.rank) fail('slice', 'too many ranges', ranges.length, `at most ${this.rank}`)
    const parts = this.shape.map((size, axis) => resolveRange(ranges[axis] ?? null, size, axis))
    return this.cut(
      parts.map(({ start }) => start),
      parts.map(({ count }) => count),
      parts.map(({ step }) => step),
    )
  }
  /** `sizes` elements along each axis, from `starts` on in `steps`. */
  cut(starts: readonly number[], sizes: readonly number[], steps: readonly number[]): this {
    return this.apply('slice', [this], { starts, sizes, steps })
  }
  /** A tensor of one number, with this one in part of it, from `starts` on in `steps`: what `cut` would take out. */
  place(shape: readonly number[], starts: readonly number[], steps: readonly number[], value = 0): this {
    return this.apply('place', [this], { shape, starts, steps, value })
  }
  /** What lies at these indices of the first axes, which are gone then. */
  at(...indices: readonly number[]): this {
    if (indices.length > this.rank) fail('at', 'too many indices', indices.length, `at most ${this.rank}`)
    const starts = indices.map((index, axis) => {
      const size = this.shape[axis] ?? 1
      checkWhole('at', `the index of axis ${axis}`, index, -size, size - 1)
      return index < 0 ? index + size : index
    })
    return this.slice(...starts.map((start) => [start, start + 1] as const)).reshape(...this.shape.slice(indices.length))
  }
  /** From one index on, so many along an axis. */
  narrow(axis: number, start: number, count: number): this {
    const at = this.axisOf('narrow', axis)
    const size = this.shape[at] ?? 1
    checkWhole('narrow', 'the start', start, 0, size - 1)
    checkWhole('narrow', 'the count', count, 1, size - start)
    return this.slice(...this.shape.map((_, each): SliceRange => (each === at ? [start, start + count] : null)))
  }
  /** In reverse along these axes. */
  flip(axes?: Axes): this {
    const reversed = this.axesOf('flip', axes)
    return this.slice(...this.shape.map((_, axis): SliceRange => (reversed.includes(axis) ? [null, null, -1] : null)))
  }
  /** In parts along an axis: so many alike, or of these sizes. */
  split(parts: number | readonly number[], axis = 0): this[] {
    const at = this.axisOf('split', axis)
    const size = this.shape[at] ?? 1
    if (typeof parts === 'number') checkWhole('split', 'the number of parts', parts, 1, size)
    if (typeof parts === 'number' && size % parts !== 0) fail('split', 'an axis does not split evenly', size, `a multiple of ${parts}`)
    if (typeof parts !== 'number') checkList('split', 'what names the parts', parts)
    const sizes = typeof parts === 'number' ? Array.from({ length: parts }, () => size / parts) : parts
    for (const each of sizes) checkWhole('split', 'the size of a part', each, 1, size)
    const total = sizes.reduce((sum, each) => sum + each, 0)
    if (total !== size) fail('split', 'the parts are not the whole', sizes, `${size} together`)
    let from = 0
    return sizes.map((count) => {
      from += count
      return this.narrow(at, from - count, count)
    })
  }

  /** Followed by others along an axis. */
  concat(others: readonly this[], axis = 0): this {
    checkList('concat', 'what is joined', others)
    return this.apply('concat', [this, ...others], { axis: this.axisOf('concat', axis) })
  }
  /** With more elements at the ends of axes: [before, after] for each. */
  pad(widths: readonly PadWidth[], options: { mode?: PadMode; value?: number } = {}): this {
    const { mode = 'constant', value = 0 } = optionsOf('pad', options)
    checkWord('pad', 'mode', mode, PAD_MODES)
    checkList('pad', 'what names the widths', widths)
    for (const width of widths) checkList('pad', 'a width', width)
    if (widths.length !== this.rank) fail('pad', 'wrong number of axes', widths.length, this.rank)
    for (const [before, after] of widths) for (const count of [before, after]) checkWhole('pad', 'a width', count, 0)
    if (mode === 'constant') {
      const shape = this.shape.map((size, axis) => size + (widths[axis]?.[0] ?? 0) + (widths[axis]?.[1] ?? 0))
      const starts = widths.map(([before]) => before)
      return this.place(
        shape,
        starts,
        shape.map(() => 1),
        value,
      )
    }
    return widths.reduce<this>((padded, width, axis) => padded.#padAxis(axis, width, mode), this)
  }
  #padAxis(axis: number, [before, after]: PadWidth, mode: Exclude<PadMode, 'constant'>): this {
    const size = this.shape[axis] ?? 1
    const most = mode === 'edge' ? Infinity : mode === 'reflect' ? size - 1 : size
    for (const width of [before, after]) checkWhole('pad', `a width of axis ${axis}`, width, 0, most)
    const part = (from: number, count: number): this => this.narrow(axis, from, count)
    const repeat = (at: number, count: number): this => part(at, 1).expand(...this.shape.with(axis, count))
    const skip = mode === 'reflect' ? 1 : 0 // the edge itself is not mirrored
    const head = (): this => (mode === 'edge' ? repeat(0, before) : part(skip, before).flip(axis))
    const tail = (): this => (mode === 'edge' ? repeat(size - 1, after) : part(size - skip - after, after).flip(axis))
    const parts = [...(before > 0 ? [head()] : []), this, ...(after > 0 ? [tail()] : [])]
    const [first, ...rest] = parts
    return first === undefined || rest.length === 0 ? this : first.concat(rest, axis)
  }
  /** All of it several times along each axis. */
  tile(...counts: readonly number[]): this {
    for (const count of counts) checkWhole('tile', 'a count', count, 1)
    const rank = Math.max(this.rank, counts.length)
    const times = [...Array.from({ length: rank - counts.length }, () => 1), ...counts]
    const shape = [...Array.from({ length: rank - this.rank }, () => 1), ...this.shape]
    const apart = shape.flatMap((size) => [1, size])
    const repeated = shape.flatMap((size, axis) => [times[axis] ?? 1, size])
    return this.reshape(...apart)
      .expand(...repeated)
      .reshape(...shape.map((size, axis) => size * (times[axis] ?? 1)))
  }
  /** Moved along an axis; what leaves at one end comes back at the other. */
  roll(by: number, axis = 0): this {
    const at = this.axisOf('roll', axis)
    const size = this.shape[at] ?? 1
    checkWhole('roll', 'the distance', by, -MOST_ELEMENTS)
    const shift = ((by % size) + size) % size
    return shift === 0 ? this : this.narrow(at, size - shift, shift).concat([this.narrow(at, 0, size - shift)], at)
  }
  /** Zeros of the same type, and the same shape unless another is given. */
  zeros(shape: readonly number[] = this.shape): this {
    const type = this.elementType('zeros')
    checkShape('zeros', shape)
    return this.expression({ cast: type, of: { const: 0, type: 'f32' } }, [], type).expand(...shape)
  }
  /** The same values, whose changes count for nothing in gradients. */
  stopGradient(): this {
    return this.apply('stopGradient', [this], {})
  }
  /** The index of every element of a shape along an axis, as u32. */
  indices(shape: readonly number[], axis: number): this {
    return this.apply('iota', [], { shape, axis })
  }
  /** The lower triangle of the last two axes, up to the diagonal number `k`; zeros elsewhere. */
  tril(k = 0): this {
    return this.#triangle(k, 'lower')
  }
  /** The upper triangle of the last two axes, from the diagonal number `k` on; zeros elsewhere. */
  triu(k = 0): this {
    return this.#triangle(k, 'upper')
  }
  #triangle(k: number, which: 'lower' | 'upper'): this {
    if (this.rank < 2) fail('triangle', 'a triangle has two axes', this.shape)
    checkWhole('triangle', 'the diagonal', k, -MOST_ELEMENTS)
    const shape = this.shape.slice(-2)
    const distance = this.indices(shape, 1).to('i32').sub(this.indices(shape, 0).to('i32'))
    return (which === 'lower' ? distance.le(k) : distance.ge(k)).where(this, 0)
  }
}

function resolveRange(range: SliceRange, size: number, axis: number): { start: number; count: number; step: number } {
  if (range !== null && !Array.isArray(range))
    fail('slice', `the range of axis ${axis} is no list`, describeKind(range), '[start, end, step]')
  const [from = null, to = null, by = null] = range ?? []
  for (const place of [from, to]) if (place !== null) checkWhole('slice', `an end of axis ${axis}`, place, -MOST_ELEMENTS)
  const step = by ?? 1
  if (!Number.isSafeInteger(step) || step === 0)
    fail('slice', `the step of axis ${axis} is out of range`, typeof step === 'number' ? step : describeKind(step), 'a whole number but 0')
  const place = (value: number): number => (value < 0 ? value + size : value)
  const limit = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high)
  const start = from === null ? (step > 0 ? 0 : size - 1) : limit(place(from), step > 0 ? 0 : -1, step > 0 ? size : size - 1)
  const end = to === null ? (step > 0 ? size : -1) : limit(place(to), step > 0 ? 0 : -1, step > 0 ? size : size - 1)
  const count = Math.ceil((end - start) / step)
  if (!(count > 0)) fail('slice', `nothing is left of axis ${axis}`, range, `a range of 0 to ${size} with elements`)
  return { start, count, step }
}
