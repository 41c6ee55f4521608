// Rows of floats in memory, whatever they are stored as: registers hold f32.

import type { Width } from '../../base/dtype.ts'
import { type ElementType, type NumberArray, roundElements } from '../../base/element.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type ElementSource, type ElementTarget, readOne, readVector, writeOne, writeVector } from '../element.ts'

/** Those that are computed in f32. */
export type FloatType = Extract<ElementType, 'f32' | 'f16' | 'bf16'>

export interface FloatSource {
  one(at: Value<'u32'>): Value<'f32'>
  vector(at: Value<'u32'>, width: Width): VectorOf<'f32'>
}

export function floatSource(k: LaneScope, type: FloatType, memory: ElementSource): FloatSource {
  return {
    one: (at) => readOne(type, memory, at) as Value<'f32'>,
    vector: (at, width) => readVector(k, type, memory, at, width) as VectorOf<'f32'>,
  }
}

export interface FloatTarget {
  set(at: Value<'u32'>, value: Value<'f32'>): void
  store(at: Value<'u32'>, values: VectorOf<'f32'>, width: Width): void
}

export function floatTarget(type: FloatType, memory: ElementTarget): FloatTarget {
  return {
    set: (at, value) => writeOne(type, memory, at, value),
    store: (at, values, width) => writeVector(type, memory, at, values, width),
  }
}

/** How far results may be off, squared: halves have eleven bits, bf16 eight, f32 what the arithmetic allows, and integers are exact. */
export function toleranceOf(type: ElementType, f32: number): number {
  switch (type) {
    case 'f32':
      return f32
    case 'f16':
      return 2 ** -22
    case 'bf16':
      return 2 ** -16
    case 'f64':
      return 1e-25
    default:
      return 0
  }
}

/** What a definition gives: numbers as memory of that type holds them, but for halves, which differ from them by what they may. */
export function definedAs(type: ElementType, values: ArrayLike<number>): NumberArray {
  return type === 'f16' || type === 'bf16' ? Float32Array.from(values) : roundElements(type, values)
}
