// What a weight format is to a kernel: which elements its bytes are read as, and how 32 consecutive weights are decoded.
// One file per format implements it; quant/index.ts lists them. The decoding is written in the kernel language, so a format
// works in every kernel on every device from the day it has a file.

import type { Width } from '../base/dtype.ts'
import type { LaneScope } from '../ir/author.ts'
import type { Value, VectorOf } from '../ir/value.ts'
import type { SubgroupDot } from './dot/dot.ts'
import type { Packed } from './packed/packed.ts'
import type { GgmlType } from './type.ts'
import type { WeightStorage, Weights } from './weight-storage.ts'

export type { WeightStorage, Weights }

/** Weights are decoded in runs of this many; every block is a multiple of it or one element. */
export const CHUNK = 32

export interface Format<S extends WeightStorage = WeightStorage> {
  readonly name: GgmlType
  readonly storage: S
  /**
   * The 32 weights from 32 * chunk on, counted over the whole tensor, as eight vectors of four. Bit for bit what ggml's
   * dequantisation gives: the order of multiplications is part of the format.
   */
  decode(k: LaneScope, w: Weights<S>, chunk: Value<'u32'>): Value<'f32x4'>[]
  /** For formats of one weight per element: weights from `index` on, whatever that is. */
  readonly element?: {
    vector(w: Weights<S>, index: Value<'u32'>, width: Width, hint?: { ahead: number }): VectorOf<'f32'>
    four(w: Weights<S>, index: Value<'u32'>): Value<'f32x4'>
    one(w: Weights<S>, index: Value<'u32'>): Value<'f32'>
  }
  /** How the lanes of a subgroup share its rows, if there is a faster way than decoding. */
  readonly dot?: SubgroupDot<S>
  /** The layout for int8 arithmetic, if the format has one. */
  readonly packed?: Packed
  /** The bytes of these values, whose count is a multiple of the block. Absent: Ingot reads this format but does not write it. */
  encode?(values: Float32Array): Uint8Array
}
