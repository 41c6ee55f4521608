// F32, F16 and BF16: one weight per element. BF16 is the upper half of an f32.

import { encodeHalf } from '../ir/interpret/half.ts'
import type { Value } from '../ir/value.ts'
import type { Format, WeightStorage, Weights } from './format.ts'

/** A format of single elements; runs of 32 are eight vectors of four. */
function elementFormat<S extends WeightStorage>(
  name: Format['name'],
  storage: S,
  four: (w: Weights<S>, index: Value<'u32'>) => Value<'f32x4'>,
  one: (w: Weights<S>, index: Value<'u32'>) => Value<'f32'>,
  encode: (values: Float32Array) => ArrayBufferView<ArrayBuffer>,
): Format<S> {
  return {
    name,
    storage,
    element: { four, one },
    encode: (values) => {
      const { buffer, byteOffset, byteLength } = encode(values)
      return new Uint8Array(buffer, byteOffset, byteLength)
    },
    decode: (_k, w, chunk) => Array.from({ length: 8 }, (_, i) => four(w, chunk.mul(32).add(4 * i))),
  }
}

export const f32 = elementFormat(
  'f32',
  'f32',
  (w, i) => w.load(i, 4),
  (w, i) => w.at(i),
  (values) => Float32Array.from(values),
)
export const f16 = elementFormat(
  'f16',
  'f16',
  (w, i) => w.load(i, 4).to('f32'),
  (w, i) => w.at(i).to('f32'),
  encodeF16,
)
export const bf16 = elementFormat(
  'bf16',
  'u16',
  (w, i) => w.load(i, 4).shl(16).as('f32'),
  (w, i) => w.at(i).shl(16).as('f32'),
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
