// The types of elements that safetensors files have, and which of them tensors can hold.

import { type ElementType, isElementType } from '../../base/element.ts'

/** Bytes of one element. In rising alignment: files have their tensors in falling order of this table. */
export const SAFE_BYTES = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  F64: 8,
  I64: 8,
  U64: 8,
} as const satisfies Record<string, number>

export type SafeDtype = keyof typeof SAFE_BYTES
export const SAFE_DTYPES = Object.keys(SAFE_BYTES) as readonly SafeDtype[]

export function isSafeDtype(name: string): name is SafeDtype {
  return Object.hasOwn(SAFE_BYTES, name)
}

/** The type of a file that holds elements of this one. */
export function safeDtypeOf(type: ElementType): SafeDtype {
  return type.toUpperCase() as Uppercase<ElementType>
}

/** The type of tensors that holds elements of this one, if there is one. */
export function elementTypeOf(dtype: SafeDtype): ElementType | undefined {
  const name = dtype.toLowerCase()
  return isElementType(name) ? name : undefined
}

/** Elements of a shape; Infinity where no number counts them, even if a later size is 0. */
export function countElements(shape: readonly number[]): number {
  let count = 1
  for (const size of shape) {
    count *= size
    if (count > Number.MAX_SAFE_INTEGER) return Infinity
  }
  return count
}
