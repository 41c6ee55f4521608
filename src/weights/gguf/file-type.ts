// What GGUF files call themselves as a whole: the number under `general.file_type`, by the type that most of their tensors have.

import type { GgmlType } from '../../quant/type.ts'

/** The plain variant of each: `Q4_K_S`, not `Q4_K_M`. */
const FILE_TYPES: Partial<Record<GgmlType, number>> = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q8_0: 7,
  q5_0: 8,
  q5_1: 9,
  q2_k: 10,
  q3_k: 11,
  q4_k: 14,
  q5_k: 16,
  q6_k: 18,
  iq2_xxs: 19,
  iq4_nl: 25,
  iq4_xs: 30,
  bf16: 32,
  mxfp4: 38,
}

/** 1024 is the flag for a type that was guessed. */
export function fileTypeOf(type: GgmlType): number {
  return FILE_TYPES[type] ?? 1024
}

/** The version of the block layouts; all that Ingot writes are of this one. */
export const QUANTIZATION_VERSION = 2
