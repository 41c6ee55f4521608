// F32, F16 and BF16: one weight per element. BF16 is the upper half of an f32.

import { encodeElements } from '../base/element.ts'
import type { Format, WeightStorage } from './format.ts'

type Elements<S extends WeightStorage> = NonNullable<Format<S>['element']>

/** A format of single elements; runs of 32 are eight vectors of four. */
function elementFormat<S extends WeightStorage>(name: 'f32' | 'f16' | 'bf16', storage: S, element: Elements<S>): Format<S> {
  return {
    name,
    storage,
    element,
    encode: (values) => encodeElements(name, values),
    decode: (_k, w, chunk) => Array.from({ length: 8 }, (_, i) => element.four(w, chunk.mul(32).add(4 * i))),
  }
}

export const f32 = elementFormat('f32', 'f32', {
  vector: (w, i, width, hint) => w.load(i, width, hint),
  four: (w, i) => w.load(i, 4),
  one: (w, i) => w.at(i),
})
export const f16 = elementFormat('f16', 'f16', {
  vector: (w, i, width, hint) => w.load(i, width, hint).to('f32'),
  four: (w, i) => w.load(i, 4).to('f32'),
  one: (w, i) => w.at(i).to('f32'),
})
export const bf16 = elementFormat('bf16', 'u16', {
  vector: (w, i, width, hint) => w.load(i, width, hint).shl(16).as('f32'),
  four: (w, i) => w.load(i, 4).shl(16).as('f32'),
  one: (w, i) => w.at(i).shl(16).as('f32'),
})
