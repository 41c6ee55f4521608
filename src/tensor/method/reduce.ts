// Methods over whole axes. Without axes, all of them are meant; with `keep` they stay, with size 1.

import type { ReduceKind } from '../../kernel/reduce/reduce.ts'
import { checkFinite, checkList, optionsOf } from '../operand.ts'
import type { Axes } from './base.ts'
import { ShapeMethods } from './shape.ts'

export interface ScanOptions {
  /** without the element itself */
  readonly exclusive?: boolean
  /** from the end */
  readonly reversed?: boolean
}

export abstract class ReduceMethods extends ShapeMethods {
  #reduce(kind: ReduceKind, axes: Axes | undefined, keep = false): this {
    return this.apply('reduce', [this], { kind, axes: this.axesOf(kind, axes), keep })
  }
  /** Summed over what broadcasting this shape to the tensor's would repeat. */
  sumTo(shape: readonly number[]): this {
    checkList('sumTo', 'the shape', shape)
    const before = this.rank - shape.length
    const axes = this.shape.flatMap((size, axis) => (axis < before || (shape[axis - before] === 1 && size !== 1) ? [axis] : []))
    return axes.length === 0 ? this : this.sum(axes, true).reshape(...shape)
  }
  /** The sum of all elements; of bools, how many hold. */
  sum(axes?: Axes, keep?: boolean): this {
    return this.#counted().#reduce('sum', axes, keep)
  }
  /** The mean of all elements; of integers, after `.to('f32')`. */
  mean(axes?: Axes, keep?: boolean): this {
    return this.#reduce('mean', axes, keep)
  }
  /** The largest element; `maximum` takes that of two tensors. */
  max(axes?: Axes, keep?: boolean): this {
    return this.#reduce('max', axes, keep)
  }
  /** The smallest element; `minimum` takes that of two tensors. */
  min(axes?: Axes, keep?: boolean): this {
    return this.#reduce('min', axes, keep)
  }
  /** The product of all elements. */
  prod(axes?: Axes, keep?: boolean): this {
    return this.#counted().#reduce('prod', axes, keep)
  }
  /** Bools as numbers. */
  #counted(): this {
    return this.dtype === 'bool' ? this.to('i32') : this
  }
  /** The index of the largest element along an axis, the first of equal ones. */
  argmax(axis = -1, keep?: boolean): this {
    return this.#reduce('argmax', axis, keep)
  }
  /** The index of the smallest element along an axis, the first of equal ones. */
  argmin(axis = -1, keep?: boolean): this {
    return this.#reduce('argmin', axis, keep)
  }

  /** The logarithm of the sum of exponentials, without overflow. */
  logsumexp(axes?: Axes, keep = false): this {
    const x = this.floats('logsumexp')
    const most = x.max(axes, true).stopGradient()
    const finite = most.isInfinite().where(0, most) // of nothing but -Infinity it is that
    const sum = x.sub(finite).exp().sum(axes, true).log().add(finite)
    return keep ? sum : sum.reshape(...this.#without(axes))
  }
  /** The sum of absolute values. */
  l1Norm(axes?: Axes, keep?: boolean): this {
    return this.abs().sum(axes, keep)
  }
  /** The root of the sum of squares. */
  l2Norm(axes?: Axes, keep?: boolean): this {
    return this.floats('l2Norm').square().sum(axes, keep).sqrt()
  }
  /** The mean squared distance from the mean; `correction` is what the count is lessened by (1: of a sample). */
  variance(axes?: Axes, options: { keep?: boolean; correction?: number } = {}): this {
    const { keep = false, correction = 0 } = optionsOf('variance', options)
    checkFinite('variance', 'the correction', correction)
    const count = this.axesOf('variance', axes).reduce((product, axis) => product * (this.shape[axis] ?? 1), 1)
    const sum = this.sub(this.mean(axes, true)).square().sum(axes, keep)
    return sum.div(count - correction)
  }
  /** The root of the variance. */
  std(axes?: Axes, options?: { keep?: boolean; correction?: number }): this {
    return this.variance(axes, options).sqrt()
  }
  /** Whether any element holds (is not zero). */
  any(axes?: Axes, keep?: boolean): this {
    return this.to('bool').#reduce('max', axes, keep)
  }
  /** Whether all elements hold. */
  all(axes?: Axes, keep?: boolean): this {
    return this.to('bool').#reduce('min', axes, keep)
  }
  #without(axes: Axes | undefined): number[] {
    const gone = this.axesOf('reduce', axes)
    return this.shape.filter((_, axis) => !gone.includes(axis))
  }

  /** Sums of all elements up to each along an axis. */
  cumsum(axis = 0, options: ScanOptions = {}): this {
    return this.#scan('sum', axis, options)
  }
  /** Products of all elements up to each along an axis. */
  cumprod(axis = 0, options: ScanOptions = {}): this {
    return this.#scan('prod', axis, options)
  }
  #scan(kind: 'sum' | 'prod', axis: number, options: ScanOptions): this {
    const { exclusive = false, reversed = false } = optionsOf('cumsum', options)
    return this.apply('scan', [this], { kind, axis: this.axisOf('cumsum', axis), exclusive, reversed })
  }

  /** exp(x) over the sum of exp(x) along an axis */
  softmax(axis = -1): this {
    return this.#softmax(axis, false)
  }
  /** The logarithm of softmax, without its rounding. */
  logSoftmax(axis = -1): this {
    return this.#softmax(axis, true)
  }
  #softmax(axis: number, log: boolean): this {
    const at = this.axisOf('softmax', axis)
    if (at === this.rank - 1) return this.apply('softmax', [this], { log })
    const turned = this.transpose(at, -1)
    return turned.apply('softmax', [turned], { log }).transpose(at, -1)
  }
}
