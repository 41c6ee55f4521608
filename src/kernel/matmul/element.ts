// The types of matrices: how their elements lie in memory. Kernels compute with f32.

import type { Width } from '../../base/dtype.ts'
import type { Writable } from '../../ir/author.ts'
import type { Elements, Value } from '../../ir/value.ts'

export const ELEMENT_TYPES = ['f32', 'f16', 'bf16'] as const
export type ElementType = (typeof ELEMENT_TYPES)[number]

/** What a buffer of them holds: bf16 is the upper half of an f32. */
export const ELEMENT_STORAGE = { f32: 'f32', f16: 'f16', bf16: 'u16' } as const satisfies Record<ElementType, string>
export type ElementStorage = (typeof ELEMENT_STORAGE)[ElementType]

/** Stores an f32, or a vector of them, rounded to nearest even. */
export function writeElements(
  type: ElementType,
  y: Writable<ElementStorage>,
  at: Value<'u32'>,
  value: Elements<'f32'>,
  width: 1 | Width,
): void {
  const rounded = type === 'f32' ? value : type === 'f16' ? value.to('f16') : toBf16(value)
  if (width === 1) y.set(at, rounded as Value<'f32' | 'f16' | 'u32'>)
  else y.store(at, rounded as Parameters<typeof y.store>[1])
}

/** A NaN stays one. */
function toBf16(value: Elements<'f32'>): Elements<'u32'> {
  const bits = value.as('u32')
  const upper = bits.shr(16)
  const rounded = bits.add(0x7fff).add(upper.and(1)).shr(16)
  return bits.and(0x7fffffff).gt(0x7f800000).select(upper.or(64), rounded)
}
