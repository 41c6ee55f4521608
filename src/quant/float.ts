// F32, F16 and BF16: one weight per element. BF16 is the upper half of an f32.

import type { Format } from './format.ts'

const vectors = Array.from({ length: 8 }, (_, i) => 4 * i)

export const f32: Format<'f32'> = {
  name: 'f32',
  storage: 'f32',
  decode: (_k, w, chunk) => vectors.map((i) => w.load(chunk.mul(32).add(i), 4)),
}

export const f16: Format<'f16'> = {
  name: 'f16',
  storage: 'f16',
  decode: (_k, w, chunk) => vectors.map((i) => w.load(chunk.mul(32).add(i), 4).to('f32')),
}

export const bf16: Format<'u16'> = {
  name: 'bf16',
  storage: 'u16',
  decode: (_k, w, chunk) => vectors.map((i) => w.load(chunk.mul(32).add(i), 4).shl(16).as('f32')),
}
