// What is known of a random tensor without computing it: how large its elements are at most, and how far two devices that compute them in
// another order, or with other functions, may be apart. Floats that are multiples of a power of two, few enough of them, are computed
// without any rounding whatever the order: these must be equal to the bit, and comparisons and indices may depend on them.

import type { ElementType } from '../../src/base/element.ts'
import { isFloatType } from '../../src/tensor/promote.ts'

export interface Known {
  readonly type: ElementType
  /** no element is larger */
  readonly most: number
  /** how far an element may be from what exact arithmetic gives; 0: it is the same on every device */
  readonly error: number
  /** every element is a multiple of this; undefined: of nothing in particular */
  readonly grain?: number
}

export interface Computed {
  readonly most: number
  readonly error?: number
  readonly grain?: number | undefined
  /** how many roundings there are on the way */
  readonly operations?: number
  /** one operation that IEEE 754 says the result of, of elements that are the same everywhere */
  readonly isRounded?: boolean
}

/** Bits of a float's fraction, with the one that is not written. */
const BITS: Partial<Record<ElementType, number>> = { f64: 53, f32: 24, f16: 11, bf16: 8 }
/** Values of floats are kept below this, far from infinity. */
const LARGEST: Partial<Record<ElementType, number>> = { f64: 2 ** 20, f32: 2 ** 20, f16: 2 ** 12, bf16: 2 ** 20 }
const RANGES: Partial<Record<ElementType, number>> = { i32: 2 ** 31, u32: 2 ** 32, i8: 128, u8: 255, bool: 1, i64: 2 ** 31 }
/** Relative error of one operation in registers. */
const rounding = (type: ElementType): number => (type === 'f64' ? 2 ** -51 : 2 ** -22)
/** Nothing is learnt from a tensor whose error may be this part of its size. */
const MEANINGLESS = 1 / 16

/** Relative error of a function such as exp or tanh: what GPUs allow themselves. */
export function functionError(type: ElementType): number {
  return type === 'f64' ? 2 ** -44 : 2 ** -16
}

/** What is known of elements computed from others. Undefined: not enough. */
export function known(type: ElementType, { most, error = 0, grain, operations = 1, isRounded = false }: Computed): Known | undefined {
  if (!isFloatType(type)) return { type, most: Math.min(most, RANGES[type] ?? 0), error: 0, grain: 1 } // what does not fit wraps
  if (!(most <= (LARGEST[type] ?? 0))) return undefined
  const bits = BITS[type] ?? 0
  if (error === 0 && grain !== undefined && most / grain <= 2 ** bits) return { type, most, error: 0, grain }
  // A sum or a product of halves is rounded to the nearest half, which every device finds.
  if (error === 0 && isRounded && (type === 'f16' || type === 'bf16')) return { type, most, error: 0 }
  const stored = type === 'f32' || type === 'f64' ? 0 : 2 ** -bits * most + 2 ** -24 // that of halves below the smallest normal one
  const sum = error + operations * rounding(type) * most + stored + Number.MIN_VALUE
  return sum <= MEANINGLESS * most ? { type, most, error: sum } : undefined
}

/** The same elements as another type. */
export function castKnown({ type: from, most, error, grain }: Known, type: ElementType): Known | undefined {
  if (from === type) return { type, most, error, ...(grain !== undefined && { grain }) }
  // What is below 0 becomes large: of integers it wraps.
  const wraps = isUnsigned(type) && !isFloatType(from) && !isUnsigned(from)
  if (!isFloatType(type)) return error === 0 ? known(type, { most: type === 'bool' ? 1 : wraps ? Infinity : most }) : undefined
  return known(type, { most, error, grain, isRounded: true })
}

/** Elements that were only moved, some of them perhaps, and others with them. */
export function movedKnown(...parts: readonly Known[]): Known | undefined {
  const [first] = parts
  if (first === undefined) return undefined
  const grains = parts.flatMap(({ grain }) => grain ?? [])
  return {
    type: first.type,
    most: Math.max(...parts.map(({ most }) => most)),
    error: Math.max(...parts.map(({ error }) => error)),
    ...(grains.length === parts.length && { grain: Math.min(...grains) }),
  }
}

/** Sums of so many products of an element of each. */
export function productKnown(type: ElementType, a: Known, b: Known, count = 1): Known | undefined {
  return known(type, {
    most: count * a.most * b.most,
    error: count * (a.most * b.error + b.most * a.error),
    grain: a.grain !== undefined && b.grain !== undefined ? a.grain * b.grain : undefined,
    operations: count + 1,
    isRounded: count === 1,
  })
}

/** Sums of so many elements. */
export function sumKnown({ type, most, error, grain }: Known, count: number): Known | undefined {
  return known(type, { most: count * most, error: count * error, grain, operations: count })
}

export function isUnsigned(type: ElementType): boolean {
  return type === 'u32' || type === 'u8' || type === 'bool'
}

export function isExact({ error }: Known): boolean {
  return error === 0
}
