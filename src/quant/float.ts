// F32, F16 and BF16: one weight per element. BF16 is the upper half of an f32.

import type { Value } from '../ir/value.ts'
import type { Format, WeightStorage, Weights } from './format.ts'

/** A format of single elements; runs of 32 are eight vectors of four. */
function elementFormat<S extends WeightStorage>(
  name: Format['name'], storage: S, four: (w: Weights<S>, index: Value<'u32'>) => Value<'f32x4'>, one: (w: Weights<S>, index: Value<'u32'>) => Value<'f32'>,
): Format<S> {
  return {
    name,
    storage,
    element: { four, one },
    decode: (_k, w, chunk) => Array.from({ length: 8 }, (_, i) => four(w, chunk.mul(32).add(4 * i))),
  }
}

export const f32 = elementFormat('f32', 'f32', (w, i) => w.load(i, 4), (w, i) => w.at(i))
export const f16 = elementFormat('f16', 'f16', (w, i) => w.load(i, 4).to('f32'), (w, i) => w.at(i).to('f32'))
export const bf16 = elementFormat('bf16', 'u16', (w, i) => w.load(i, 4).shl(16).as('f32'), (w, i) => w.at(i).shl(16).as('f32'))
