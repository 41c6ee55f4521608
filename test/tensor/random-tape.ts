// Choices of a random graph: numbers from a list, which fast-check makes and shrinks, each taken for one of as many as there are.

import type { ElementType } from '../../src/base/element.ts'
import { isFloatType } from '../../src/tensor/promote.ts'
import type { Tensor } from '../../src/tensor/tensor.ts'
import type { Known } from './random-known.ts'

export interface Value extends Known {
  readonly tensor: Tensor
}

/** Elements of a tensor at most: the interpreter computes them all. */
export const MOST_ELEMENTS = 1500
export const MOST_AXES = 5

export class Tape {
  readonly #numbers: readonly number[]
  readonly #values: readonly Value[]
  readonly #types: readonly ElementType[]
  #at = 0

  constructor(numbers: readonly number[], values: readonly Value[], types: readonly ElementType[]) {
    this.#numbers = numbers
    this.#values = values
    this.#types = types
  }

  /** A whole number from 0 to below `count`. */
  below(count: number): number {
    return (this.#numbers[this.#at++] ?? 0) % Math.max(1, count)
  }
  between(low: number, high: number): number {
    return low + this.below(high - low + 1)
  }
  flag(): boolean {
    return this.below(2) === 1
  }
  of<T>(list: readonly T[]): T {
    const chosen = list[this.below(list.length)]
    if (chosen === undefined) throw new Error('nothing to choose from')
    return chosen
  }
  /** One of the values so far, the later the likelier. */
  value(fits: (value: Value) => boolean = () => true): Value | undefined {
    const all = this.#values.filter(fits)
    return all.length === 0 ? undefined : this.of(all.slice(-this.of([1, 1, 3, all.length])))
  }
  float(fits: (value: Value) => boolean = () => true): Value | undefined {
    return this.value((value) => isFloatType(value.type) && fits(value))
  }
  integer(fits: (value: Value) => boolean = () => true): Value | undefined {
    return this.value((value) => !isFloatType(value.type) && value.type !== 'bool' && value.type !== 'i64' && fits(value))
  }
  axis({ tensor: { rank } }: Value): number {
    const axis = this.below(rank)
    return this.flag() ? axis : axis - rank
  }
  /** Some of the axes, at least one where there are any. */
  axes({ tensor: { rank } }: Value): number[] {
    const chosen = Array.from({ length: rank }, (_, axis) => axis).filter(() => this.flag())
    return chosen.length === 0 && rank > 0 ? [this.below(rank)] : chosen
  }
  type(): ElementType {
    return this.of(this.#types)
  }
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1)
}

/** The elements of a tensor in another shape, repeated or cut off where there are too few or too many. */
export function fit(x: Tensor, shape: readonly number[]): Tensor {
  const size = sizeOf(shape)
  const flat = x.reshape(x.size)
  const enough = x.size < size ? flat.tile(Math.ceil(size / x.size)) : flat
  return enough.slice([0, size]).reshape(...shape)
}

/** A shape that broadcasts to this one. */
export function narrower(tape: Tape, shape: readonly number[]): number[] {
  const sizes = shape.map((size) => (tape.below(3) === 0 ? 1 : size))
  return tape.flag() ? sizes : sizes.slice(tape.below(sizes.length + 1))
}
