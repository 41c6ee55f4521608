// The tensor types of ggml as data: id in files, elements per block, bytes per block. Everything that needs the size of
// a quantised row asks here. Does not know how a block is decoded (that is one file per format beside this one), and
// imports nothing of the kernel language, so that file readers stay light.

import { IngotError } from '../base/error.ts'

export interface GgmlTypeFacts {
  /** the number that stands for the type in a GGUF file */
  readonly id: number
  /** elements per block; a row holds whole blocks */
  readonly block: number
  /** bytes per block */
  readonly bytes: number
}

/** Ids 4, 5, 31-33 and 36-38 belonged to types that were removed from the format. */
export const GGML_TYPES = {
  f32: { id: 0, block: 1, bytes: 4 },
  f16: { id: 1, block: 1, bytes: 2 },
  q4_0: { id: 2, block: 32, bytes: 18 },
  q4_1: { id: 3, block: 32, bytes: 20 },
  q5_0: { id: 6, block: 32, bytes: 22 },
  q5_1: { id: 7, block: 32, bytes: 24 },
  q8_0: { id: 8, block: 32, bytes: 34 },
  q8_1: { id: 9, block: 32, bytes: 36 },
  q2_k: { id: 10, block: 256, bytes: 84 },
  q3_k: { id: 11, block: 256, bytes: 110 },
  q4_k: { id: 12, block: 256, bytes: 144 },
  q5_k: { id: 13, block: 256, bytes: 176 },
  q6_k: { id: 14, block: 256, bytes: 210 },
  q8_k: { id: 15, block: 256, bytes: 292 },
  iq2_xxs: { id: 16, block: 256, bytes: 66 },
  iq2_xs: { id: 17, block: 256, bytes: 74 },
  iq3_xxs: { id: 18, block: 256, bytes: 98 },
  iq1_s: { id: 19, block: 256, bytes: 50 },
  iq4_nl: { id: 20, block: 32, bytes: 18 },
  iq3_s: { id: 21, block: 256, bytes: 110 },
  iq2_s: { id: 22, block: 256, bytes: 82 },
  iq4_xs: { id: 23, block: 256, bytes: 136 },
  i8: { id: 24, block: 1, bytes: 1 },
  i16: { id: 25, block: 1, bytes: 2 },
  i32: { id: 26, block: 1, bytes: 4 },
  i64: { id: 27, block: 1, bytes: 8 },
  f64: { id: 28, block: 1, bytes: 8 },
  iq1_m: { id: 29, block: 256, bytes: 56 },
  bf16: { id: 30, block: 1, bytes: 2 },
  tq1_0: { id: 34, block: 256, bytes: 54 },
  tq2_0: { id: 35, block: 256, bytes: 66 },
  mxfp4: { id: 39, block: 32, bytes: 17 },
  nvfp4: { id: 40, block: 64, bytes: 36 },
  q1_0: { id: 41, block: 128, bytes: 18 },
  q2_0: { id: 42, block: 64, bytes: 18 },
} as const satisfies Record<string, GgmlTypeFacts>

/** The name of a tensor type, in lower case: `q4_k`. */
export type GgmlType = keyof typeof GGML_TYPES

export const GGML_TYPE_NAMES = Object.keys(GGML_TYPES) as readonly GgmlType[]

const NAME_BY_ID: ReadonlyMap<number, GgmlType> = new Map(GGML_TYPE_NAMES.map((name) => [GGML_TYPES[name].id, name]))

/** The type with this id, or undefined when the format has none. */
export function ggmlTypeById(id: number): GgmlType | undefined {
  return NAME_BY_ID.get(id)
}

/** True for a name of the table; narrows text from a command line or a config. */
export function isGgmlType(name: string): name is GgmlType {
  return Object.hasOwn(GGML_TYPES, name)
}

/** The product of the dimensions; refuses empty, fractional and overflowing ones. */
export function tensorElements(dims: readonly number[]): number {
  let elements = 1
  if (dims.length === 0) throw bad('a tensor needs at least one dimension', dims, 'positive whole numbers')
  for (const dim of dims) {
    if (!Number.isSafeInteger(dim) || dim <= 0) throw bad('bad dimension', dims, 'positive whole numbers')
    elements *= dim
    if (!Number.isSafeInteger(elements)) throw bad('the dimensions overflow', dims, 'fewer than 2^53 elements')
  }
  return elements
}

/** Bytes of a tensor of `dims` (dims[0] is the contiguous one, and holds whole blocks). */
export function tensorBytes(type: GgmlType, dims: readonly number[]): number {
  const { block, bytes } = GGML_TYPES[type]
  const elements = tensorElements(dims)
  if ((dims[0] ?? 0) % block !== 0) {
    throw bad(`a row of ${type} must hold whole blocks`, dims, `dims[0] a multiple of ${block}`)
  }
  const total = (elements / block) * bytes
  if (!Number.isSafeInteger(total)) throw bad(`the bytes of this ${type} tensor overflow`, dims, 'fewer than 2^53 bytes')
  return total
}

function bad(what: string, got: readonly number[], wanted: string): IngotError {
  return new IngotError('bad-argument', what, { op: 'tensorBytes', got, wanted })
}
