// How the lanes of a subgroup multiply rows of a format with one vector: the fast way of decoding on GPUs, for formats that have one.
// The frame (kernel/linear/matvec-dot.ts) gives a subgroup its rows and adds up; what a lane does with its share of a row is here and
// in the formats' own files. Quants are masked where they lie, as bytes of words; activations carry the missing powers of two.

import type { Readable, Scope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import type { WeightStorage, Weights } from '../weight-storage.ts'

export interface SubgroupDot<S extends WeightStorage = WeightStorage> {
  /** rows that a subgroup takes: the activations that a lane holds serve all of them */
  readonly rows: number
  /** lanes that share a block: the smallest subgroup that can do it */
  readonly sharing: number
  write(k: Scope, subgroup: number, rows: DotRows<S>): void
}

export interface DotRows<S extends WeightStorage> {
  readonly x: Readable<'f32x4', 'uniform'>
  readonly w: Weights<S>
  /** length of a row */
  readonly inner: Value<'u32', 'uniform'>
  /** Gives each row, in turn, to `dot`, and adds what it returns to the row's sum. */
  each(dot: (row: Value<'u32'>) => Value<'f32'>): void
}

/** The four bytes of a word under this mask, where they lie, as floats: byte i is too large by 2^(8 i). */
export function maskBytes(k: Scope, word: Value<'u32'>, mask: number): Value<'f32x4'> {
  const [a, b, c, d] = [k.const('u32', mask), k.const('u32', mask << 8), k.const('u32', mask << 16), k.const('u32', (mask << 24) >>> 0)]
  return word
    .splat(4)
    .and(k.let('mask', k.vec(a, b, c, d)))
    .to('f32')
}

/** Activations for bytes taken by `maskBytes`, whose quants lie `shift` bits up in each: they carry the missing powers of two. */
export function scaleBytes(k: Scope, four: Value<'f32x4'>, shift = 0): Value<'f32x4'> {
  const power = (byte: number): Value<'f32'> => k.const('f32', 2 ** -(byte + shift))
  return k.let('ready', four.mul(k.let('powers', k.vec(power(0), power(8), power(16), power(24)))))
}
