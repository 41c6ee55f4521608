// F32, F16 and BF16: one weight per element. BF16 is the upper half of an f32.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { encodeHalf } from '../base/half.ts'
import type { Format, WeightStorage } from './format.ts'

type Elements<S extends WeightStorage> = NonNullable<Format<S>['element']>

/** A format of single elements; runs of 32 are eight vectors of four. */
function elementFormat<S extends WeightStorage>(
  name: Format['name'],
  storage: S,
  element: Elements<S>,
  encode: (values: Float32Array) => ArrayBufferView<ArrayBuffer>,
): Format<S> {
  return {
    name,
    storage,
    element,
    encode: (values) => {
      const { buffer, byteOffset, byteLength } = encode(values)
      return new Uint8Array(buffer, byteOffset, byteLength)
    },
    decode: (_k, w, chunk) => Array.from({ length: 8 }, (_, i) => element.four(w, chunk.mul(32).add(4 * i))),
  }
}

export const f32 = elementFormat(
  'f32',
  'f32',
  { vector: (w, i, width, hint) => w.load(i, width, hint), four: (w, i) => w.load(i, 4), one: (w, i) => w.at(i) },
  (values) => Float32Array.from(values),
)
export const f16 = elementFormat(
  'f16',
  'f16',
  {
    vector: (w, i, width, hint) => w.load(i, width, hint).to('f32'),
    four: (w, i) => w.load(i, 4).to('f32'),
    one: (w, i) => w.at(i).to('f32'),
  },
  encodeF16,
)
export const bf16 = elementFormat(
  'bf16',
  'u16',
  {
    vector: (w, i, width, hint) => w.load(i, width, hint).shl(16).as('f32'),
    four: (w, i) => w.load(i, 4).shl(16).as('f32'),
    one: (w, i) => w.at(i).shl(16).as('f32'),
  },
  encodeBf16,
)

function encodeF16(values: Float32Array): Uint16Array<ArrayBuffer> {
  const out = new Uint16Array(values.length)
  for (let i = 0; i < values.length; i++) out[i] = encodeHalf(values[i]!)
  return out
}

/** Rounds to nearest even; a NaN stays one. */
function encodeBf16(values: Float32Array): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const out = new Uint16Array(values.length)
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!
    out[i] = (word & 0x7fffffff) > 0x7f800000 ? (word >>> 16) | 64 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
  }
  return out
}
