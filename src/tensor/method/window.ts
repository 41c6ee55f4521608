// Methods with windows that slide over the last axes: convolutions, pooling, and changing the size of images.

import { windowCounts } from '../../kernel/window/windows.ts'
import type { WindowAttrs } from '../node.ts'
import { isFloatType } from '../promote.ts'
import { checkList, checkWhole, checkWord, fail, optionsOf } from '../operand.ts'
import { ProductMethods } from './product.ts'

/** One number for every axis, or one each. */
export type PerAxis = number | readonly number[]
/** Elements before and after each axis: one number for all, one for each axis, or both for each. */
export type Padding = number | readonly (number | readonly [before: number, after: number])[]

export interface WindowOptions {
  /** from window to window (default 1; for pooling, the size of the window) */
  readonly stride?: PerAxis
  readonly padding?: Padding
  /** from tap to tap (default 1) */
  readonly dilation?: PerAxis
}
export interface ConvOptions<T> extends WindowOptions {
  readonly bias?: T
  /** channels fall into so many groups, each convolved by itself (default 1) */
  readonly groups?: number
}
export interface ConvTransposeOptions<T> extends ConvOptions<T> {
  /** elements at the end of each axis that no window reaches (default 0) */
  readonly outputPadding?: PerAxis
}
export interface PoolOptions extends WindowOptions {
  /** a last window that sticks out counts, too */
  readonly ceil?: boolean
  /** how many windows there are, instead of as many as fit */
  readonly out?: readonly number[]
}

/** A number for each of `count` axes, from `least` on. */
function listOf(op: string, name: string, value: PerAxis = 1, count: number, least = 1): readonly number[] {
  const list = typeof value === 'number' ? Array.from({ length: count }, () => value) : value
  checkList(op, `what names ${name}`, list)
  if (list.length !== count) fail(op, `wrong number of axes of ${name}`, list.length, count)
  for (const each of list) checkWhole(op, name, each, least)
  return list
}
function paddingOf(op: string, value: Padding = 0, count: number): (readonly [number, number])[] {
  const list = typeof value === 'number' ? Array.from({ length: count }, () => value) : value
  checkList(op, 'the padding', list)
  if (list.length !== count) fail(op, 'wrong number of axes of the padding', list.length, count)
  return list.map((width) => {
    if (typeof width !== 'number') checkList(op, 'the padding of an axis', width)
    const [before, after] = typeof width === 'number' ? [width, width] : width
    for (const each of [before, after]) checkWhole(op, 'a width of padding', each, 0)
    return [before, after]
  })
}

export abstract class WindowMethods extends ProductMethods {
  /** What lies under each tap of each window: [.., ...in] -> [.., ...kernel, ...out]; outside lies `value`. */
  unfold(windows: WindowAttrs, value = 0): this {
    return this.apply('unfold', [this], { ...windows, value })
  }
  /** What lies under each tap added where it came from: [.., ...kernel, ...out] -> [.., ...sizes]. */
  fold(sizes: readonly number[], windows: WindowAttrs): this {
    return this.apply('fold', [this], { ...windows, in: sizes })
  }
  /** One number of each window of the last axes, or where the largest is among all. */
  pool(kind: 'max' | 'average' | 'l2' | 'argmax', windows: WindowAttrs, includePad = false): this {
    checkWord('pool', 'kind', kind, ['max', 'average', 'l2', 'argmax'])
    return this.apply('pool', [this], { ...windows, kind, includePad })
  }

  /** x [n, c, length] by weights [o, c / groups, kernel] */
  conv1d(weights: this, options: ConvOptions<this> = {}): this {
    return this.#convolve('conv1d', weights, 1, options)
  }
  /** x [n, c, h, w] by weights [o, c / groups, kh, kw]: cross-correlation, as everywhere in this field */
  conv2d(weights: this, options: ConvOptions<this> = {}): this {
    return this.#convolve('conv2d', weights, 2, options)
  }
  #convolve(op: string, weights: this, axes: number, given: ConvOptions<this>): this {
    const { bias, groups = 1, ...options } = optionsOf(op, given)
    this.checkTensors(op, [weights], [bias])
    checkWhole(op, 'the number of groups', groups, 1)
    const windows = this.#windows(op, weights.shape.slice(-axes), axes, options)
    return this.apply('convolve', bias === undefined ? [this, weights] : [this, weights, bias], { ...windows, groups })
  }

  /** x [n, c, length] by weights [c, o / groups, kernel]: what a convolution does to its gradient */
  convTranspose1d(weights: this, options: ConvTransposeOptions<this> = {}): this {
    return this.#convTranspose('convTranspose1d', weights, 1, options)
  }
  /** x [n, c, h, w] by weights [c, o / groups, kh, kw] */
  convTranspose2d(weights: this, options: ConvTransposeOptions<this> = {}): this {
    return this.#convTranspose('convTranspose2d', weights, 2, options)
  }
  #convTranspose(op: string, weights: this, axes: number, options: ConvTransposeOptions<this>): this {
    if (this.rank !== axes + 2) fail(op, 'wrong number of axes', this.shape, axes + 2)
    const { bias, groups = 1 } = optionsOf(op, options)
    this.checkTensors(op, [weights], [bias])
    checkWhole(op, 'the number of groups', groups, 1)
    if (weights.rank !== axes + 2) fail(op, 'wrong number of axes of the weights', weights.shape, axes + 2)
    if (!isFloatType(this.elementType(op))) fail(op, 'wrong type of x', this.dtype, 'floats', `.to('f32') first`)
    const [n = 1, channels = 1, ...sizes] = this.shape
    const [, perGroup = 1, ...kernel] = weights.shape
    if (weights.shape[0] !== channels || channels % groups !== 0)
      fail(op, 'the weights are of other channels', weights.shape, `[${channels}, outputs / ${groups}, ...kernel]`)
    const [strides, dilations] = [listOf(op, 'a stride', options.stride, axes), listOf(op, 'a dilation', options.dilation, axes)]
    const [padding, extra] = [paddingOf(op, options.padding, axes), listOf(op, 'extra elements', options.outputPadding ?? 0, axes, 0)]
    const out = sizes.map((size, axis) => {
      const [before, after] = padding[axis] ?? [0, 0]
      return (
        (size - 1) * (strides[axis] ?? 1) + (dilations[axis] ?? 1) * ((kernel[axis] ?? 1) - 1) + 1 - before - after + (extra[axis] ?? 0)
      )
    })
    for (const size of out) checkWhole(op, 'a size of the result', size, 1)
    const [windows, taps] = [sizes.reduce((a, b) => a * b, 1), kernel.reduce((a, b) => a * b, perGroup)]
    const spread = weights
      .reshape(groups, channels / groups, taps)
      .transpose()
      .matmul(this.reshape(n, groups, channels / groups, windows))
      .reshape(n, groups * perGroup, ...kernel, ...sizes)
    const y = spread.fold(out, { kernel, strides, dilations, padding, out: sizes })
    return bias === undefined ? y : y.add(bias.reshape(groups * perGroup, ...sizes.map(() => 1)))
  }

  /** The largest element of each window of the last two axes. */
  maxPool2d(kernel: PerAxis, options: PoolOptions = {}): this {
    return this.pool('max', this.#poolWindows('maxPool2d', kernel, options))
  }
  /** The mean of each window; padding counts only with `includePad`. */
  averagePool2d(kernel: PerAxis, given: PoolOptions & { includePad?: boolean } = {}): this {
    const { includePad = false, ...options } = optionsOf('averagePool2d', given)
    return this.pool('average', this.#poolWindows('averagePool2d', kernel, options), includePad)
  }
  /** The root of the sum of squares of each window. */
  l2Pool2d(kernel: PerAxis, options: PoolOptions = {}): this {
    return this.pool('l2', this.#poolWindows('l2Pool2d', kernel, options))
  }
  #poolWindows(op: string, kernel: PerAxis, given: PoolOptions): WindowAttrs {
    const { ceil = false, out, ...options } = optionsOf(op, given)
    const sizes = listOf(op, 'a size of the windows', kernel, 2)
    const windows = this.#windows(op, sizes, 2, { stride: sizes, ...options }, ceil)
    return out === undefined ? windows : { ...windows, out: listOf(op, 'a number of windows', out, 2) }
  }

  #windows(op: string, kernel: readonly number[], axes: number, options: WindowOptions, ceil = false): WindowAttrs {
    if (this.rank < axes) fail(op, 'too few axes', this.shape, `${axes} at least`)
    if (kernel.length !== axes) fail(op, 'wrong number of axes', kernel, `${axes} numbers`)
    const [strides, dilations] = [listOf(op, 'a stride', options.stride, axes), listOf(op, 'a dilation', options.dilation, axes)]
    const padding = paddingOf(op, options.padding, axes)
    const out = windowCounts({ in: this.shape.slice(-axes), kernel, strides, dilations, padding }, ceil)
    if (out.some((count) => count < 1)) fail(op, 'no window fits', `${kernel.join(' x ')} in [${this.shape.slice(-axes).join(', ')}]`)
    return { kernel, strides, dilations, padding, out }
  }

  /** Axes of another size, by default the last two: the nearest element, or the mean of neighbours by distance. */
  resize(sizes: readonly number[], options: { mode?: 'nearest' | 'linear'; axes?: readonly number[] } = {}): this {
    const { mode = 'nearest', axes } = optionsOf('resize', options)
    checkWord('resize', 'mode', mode, ['nearest', 'linear'])
    for (const list of [sizes, axes ?? []]) checkList('resize', 'what names sizes or axes', list)
    const list = axes ?? sizes.map((_, i) => this.rank - sizes.length + i)
    if (list.length !== sizes.length) fail('resize', 'wrong number of axes', list, `${sizes.length}`)
    const whole = mode === 'linear' ? this.floats('resize') : this
    return sizes.reduce<this>((image, size, i) => image.#resizeAxis(this.axisOf('resize', list[i] ?? 0), size, mode), whole)
  }
  #resizeAxis(axis: number, size: number, mode: 'nearest' | 'linear'): this {
    checkWhole('resize', 'a size', size, 1)
    const from = this.shape[axis] ?? 1
    if (size === from) return this
    // The middle of each new element, in old ones.
    const middle = this.indices([size], 0)
      .to('f32')
      .add(0.5)
      .mul(from / size)
    if (mode === 'nearest')
      return this.gather(
        middle
          .floor()
          .clamp(0, from - 1)
          .to('i32'),
        axis,
      )
    const place = middle.sub(0.5).clamp(0, from - 1)
    const low = place.floor()
    const share = place
      .sub(low)
      .to(this.elementType('resize'))
      .reshape(size, ...this.shape.slice(axis + 1).map(() => 1))
    const [a, b] = [low, low.add(1).minimum(from - 1)].map((index) => this.gather(index.to('i32'), axis)) as [this, this]
    return a.add(b.sub(a).mul(share))
  }
}
