// Writing weights: what all encoders share. Plain TypeScript over typed arrays; works block by block without allocating. Does not
// know any format.

import { IngotError } from '../../base/error.ts'
import { encodeHalf } from '../../base/half.ts'
import { GGML_TYPES, type GgmlType } from '../type.ts'

/** Encodes the block of values from `from` on to `out` from `at` on. */
export type BlockEncoder = (values: Float32Array, from: number, out: Uint8Array, at: number) => void

/** Encodes whole blocks, one after the other. */
export function encodeBlocks(type: GgmlType, values: Float32Array, each: BlockEncoder): Uint8Array {
  const { block, bytes } = GGML_TYPES[type]
  if (values.length % block !== 0) {
    throw new IngotError('bad-argument', `${type} is written in whole blocks`, {
      op: 'encode',
      got: `${values.length} values`,
      wanted: `a multiple of ${block}`,
    })
  }
  const blocks = values.length / block
  const out = new Uint8Array(blocks * bytes)
  for (let i = 0; i < blocks; i++) each(values, i * block, out, i * bytes)
  return out
}

/** Writes a number as a half, rounded to nearest even. */
export function putHalf(out: Uint8Array, at: number, value: number): void {
  const bits = encodeHalf(value)
  out[at] = bits
  out[at + 1] = bits >> 8
}

/** The nearest whole number within limits. */
export function clampRound(value: number, least: number, most: number): number {
  const whole = Math.floor(value + 0.5)
  return whole > most ? most : whole > least ? whole : least // NaN gives the least
}
