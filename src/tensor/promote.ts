// Types that meet: what two tensors of different types are computed in, as users of NumPy and PyTorch expect it.

import type { ElementType } from '../base/element.ts'
import { registerOf } from '../kernel/element.ts'

/** From narrow to wide; a type gives way to those after it. */
const ORDER: readonly ElementType[] = ['bool', 'u8', 'i8', 'u32', 'i32', 'i64', 'f16', 'bf16', 'f32', 'f64']
const rank = (type: ElementType): number => ORDER.indexOf(type)

export function isFloatType(type: ElementType): boolean {
  return type === 'f16' || type === 'bf16' || type === 'f32' || type === 'f64'
}

/** The type that holds what both hold, as far as one does. */
export function promote(a: ElementType, b: ElementType): ElementType {
  if (a === b) return a
  if ((a === 'f16' && b === 'bf16') || (a === 'bf16' && b === 'f16')) return 'f32'
  if ((a === 'u8' && b === 'i8') || (a === 'i8' && b === 'u8')) return 'i32'
  return rank(a) > rank(b) ? a : b
}

/** The type for a tensor and a plain number: the tensor's, unless the number is no whole one. */
export function promoteNumber(type: ElementType, value: number): ElementType {
  if (isFloatType(type)) return type
  if (!Number.isInteger(value)) return 'f32'
  const isUnsigned = registerOf(type) === 'u32' || type === 'bool'
  return type === 'bool' || (isUnsigned && value < 0) ? 'i32' : type
}
