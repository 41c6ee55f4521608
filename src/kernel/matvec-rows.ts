// The frame of the mat-vecs for one vector and one weight format: each subgroup takes a few rows of w, its lanes share them along k and
// add up at the end. The activations that a lane holds serve all its rows. No workgroup memory, no barrier. What a lane does with its
// share of a row is the format's part.

import type { Caps } from '../base/caps.ts'
import { type Readable, type Scope, buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import type { WeightStorage, Weights } from '../quant/format.ts'
import { flatGrid, flatGroup } from './lanes.ts'
import type { LinearParams } from './linear-params.ts'
import type { Work } from './record.ts'

export interface Rows<S extends WeightStorage> {
  readonly x: Readable<'f32x4', 'uniform'>
  readonly w: Weights<S>
  /** length of a row */
  readonly inner: Value<'u32', 'uniform'>
  /** Gives each row, in turn, to `dot`, and adds what it returns to the row's sum. */
  each(dot: (row: Value<'u32'>) => Value<'f32'>): void
}

/** Writes the kernel; `count` rows per subgroup. */
export function matvecRows<S extends WeightStorage>(
  caps: Caps,
  { format, m, k: inner, bias }: LinearParams,
  storage: S,
  count: number,
  write: (k: Scope, rows: Rows<S>) => void,
): Work {
  const groups = Math.max(1, 64 / caps.subgroup)
  const written = kernel(
    `matvec_${format}`,
    {
      params: {
        x: buffer('f32x4', 'read'),
        w: buffer(storage, 'read'),
        ...(bias ? { bias: buffer('f32', 'read') } : {}),
        y: buffer('f32', 'write'),
        m: uniform('u32'),
        k: uniform('u32'),
      },
      workgroup: [groups * caps.subgroup],
      subgroup: caps.subgroup,
    },
    (p, k) => {
      const first = k.let('first', flatGroup(k).mul(groups).add(k.subgroupId).mul(count))
      const sums = Array.from({ length: count }, () => k.var('sum', k.const('f32', 0)))
      write(k, {
        x: p.x,
        w: p.w as unknown as Weights<S>,
        inner: p.k,
        // Rows past the end repeat the last one and are not stored, so that no lane leaves early.
        each: (dot) => sums.forEach((sum, r) => sum.set(sum.get().add(dot(first.add(r).min(p.m.sub(1)))))),
      })
      sums.forEach((sum, r) => {
        const row = first.add(r)
        const total = k.let('total', k.subSum(sum.get()))
        k.when(k.sublane.eq(0).and(row.lt(p.m)), () => p.y.set(row, p.bias === undefined ? total : total.add(p.bias.at(row))))
      })
    },
  )
  return { launches: [{ kernel: written, uniforms: { m, k: inner }, grid: flatGrid(caps, Math.ceil(m / (groups * count))) }] }
}

/** The four bytes of a word under this mask, where they lie, as floats: byte i is too large by 2^(8 i). */
export function maskBytes(k: Scope, word: Value<'u32'>, mask: number): Value<'f32x4'> {
  const masks = [0, 8, 16, 24].map((shift) => k.const('u32', (mask << shift) >>> 0))
  return word
    .splat(4)
    .and(k.let('mask', k.vec(...masks) as Value<'u32x4'>))
    .to('f32')
}

/** Activations for bytes taken by `maskBytes`, whose quants lie `shift` bits up in each: they carry the missing powers of two. */
export function scaleBytes(k: Scope, four: Value<'f32x4'>, shift = 0): Value<'f32x4'> {
  const powers = [0, 8, 16, 24].map((byte) => k.const('f32', 2 ** -(byte + shift)))
  return k.let('ready', four.mul(k.let('powers', k.vec(...powers) as Value<'f32x4'>)))
}
