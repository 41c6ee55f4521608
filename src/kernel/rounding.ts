// How far a result may be off because its elements are rounded.

import type { ElementType } from '../base/element.ts'

/** As a normalised mean square error, for sums of a few elements; integers are exact. */
const ERRORS: Readonly<Record<ElementType, number>> = {
  f32: 1e-13,
  f16: 1e-6,
  bf16: 1e-5,
  f64: 1e-26,
  i32: 0,
  u32: 0,
  i8: 0,
  u8: 0,
  bool: 0,
  i64: 0,
}

export function roundingError(type: ElementType): number {
  return ERRORS[type]
}

/** True for floats. */
export function isRounded(type: ElementType): boolean {
  return ERRORS[type] > 0
}
