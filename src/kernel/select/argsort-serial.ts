// Sorting rows on CPUs, a workgroup for each: short rows by insertion, others by radix, a byte of the keys at a time from the lowest on.
// Each pass keeps the order of equal bytes, so the whole is stable. Keys and indices go to and fro between two places.

import type { Caps } from '../../base/caps.ts'
import { type LaneScope, type Shared, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, isCpu } from '../family.ts'
import { template } from '../template.ts'
import { type ArgsortParams, type SortType, flipOf, keyBytes, keyWord, sortKey } from './sort-key.ts'

/** Rows up to this length are sorted by insertion. */
const SHORT = 64
/** Elements of short rows that a workgroup has, at least. */
const CHUNK = 1024
/** Values of a byte. */
const RADIX = 256

type U32 = Value<'u32'>
interface SortTraits {
  readonly type: SortType
}

const sizes = { cols: uniform('u32'), flip: uniform('u32') } as const

const insertion = template<SortTraits>({ family: 'argsort', form: 'insertion' }, ({ type }, kernel) => {
  const params = { x: buffer(keyWord(type), 'read'), y: buffer('u32', 'write'), ...sizes, rows: uniform('u32'), rowsEach: uniform('u32') }
  return kernel('argsort', { params }, (p, k) => {
    const [keys, ids] = [k.shared('keys', 'u32', SHORT), k.shared('ids', 'u32', SHORT)]
    const first = k.let('first', k.workgroupId.x.mul(p.rowsEach))
    k.for({ name: 'row', from: first, to: first.add(p.rowsEach).min(p.rows) }, (row) => {
      const start = k.let('start', row.mul(p.cols))
      k.for({ name: 'c', to: p.cols }, (c) => {
        const key = k.let('key', sortKey(type, p.x.at(start.add(c)), p.flip))
        const place = k.var('place', c)
        k.loop(() => {
          k.breakIf(place.get().eq(0))
          const before = k.let('before', place.get().sub(1))
          const other = keys.at(before)
          k.breakIf(other.le(key))
          keys.set(place.get(), other)
          ids.set(place.get(), ids.at(before))
          place.set(before)
        })
        keys.set(place.get(), key)
        ids.set(place.get(), c)
      })
      k.for({ name: 'c', to: p.cols }, (c) => p.y.set(start.add(c), ids.at(c)))
    })
  })
})

export const argsortInsertion: Form<ArgsortParams> = {
  name: 'insertion',
  fits: (caps, { cols }) => isCpu(caps) && cols <= SHORT,
  work: (_caps: Caps, { type, rows, cols, descending }) => {
    const rowsEach = Math.max(1, Math.floor(CHUNK / cols))
    const uniforms = { rows, cols, rowsEach, flip: flipOf(type, descending) }
    return { launches: [{ kernel: insertion({ type }), uniforms, grid: [Math.ceil(rows / rowsEach), 1, 1] }] }
  },
  kernels: () => [insertion({ type: 'f32' })],
}

const radix = template<SortTraits>({ family: 'argsort', form: 'radix' }, ({ type }, kernel) => {
  const passes = keyBytes(type)
  const scratch = buffer('u32', 'readwrite')
  const params = {
    x: buffer(keyWord(type), 'read'),
    y: buffer('u32', 'readwrite'),
    ...(passes > 1 ? { keys: scratch, keysNext: scratch, idsNext: scratch } : {}),
    ...sizes,
  }
  return kernel('argsort', { params }, (p, k) => {
    const starts = k.shared('starts', 'u32', passes * RADIX) // of each byte's values: first how many there are, then where the next goes
    const row = k.let('row', k.workgroupId.x.mul(p.cols))
    const keyAt = (c: U32): U32 => k.let('key', sortKey(type, p.x.at(row.add(c)), p.flip))
    const slotOf = (pass: number, key: U32): U32 =>
      k.let(
        'slot',
        key
          .shr(8 * pass)
          .and(RADIX - 1)
          .add(pass * RADIX),
      )
    k.for({ name: 'i', to: passes * RADIX }, (i) => starts.set(i, 0))
    k.for({ name: 'c', to: p.cols }, (c) => {
      const key = keyAt(c)
      p.keys?.set(row.add(c), key)
      for (let pass = 0; pass < passes; pass++) increase(starts, slotOf(pass, key))
    })
    for (let pass = 0; pass < passes; pass++) sumUp(k, starts, pass * RADIX)
    for (let pass = 0; pass < passes; pass++) {
      // The last pass ends in y, so every second before it does.
      const toResult = (passes - pass) % 2 === 1
      const [keys, keysNext] = pass % 2 === 0 ? [p.keys, p.keysNext] : [p.keysNext, p.keys]
      const [ids, idsNext] = toResult ? [p.idsNext, p.y] : [p.y, p.idsNext]
      k.for({ name: 'c', to: p.cols }, (c) => {
        const at = k.let('at', row.add(c))
        const key = keys?.at(at) ?? keyAt(c)
        const to = k.let('to', row.add(increase(starts, slotOf(pass, key))))
        if (pass < passes - 1) keysNext?.set(to, key)
        idsNext?.set(to, pass === 0 ? c : (ids?.at(at) ?? c))
      })
    }
  })
})

/** Adds one; gives what was there. */
function increase(counts: Shared<'u32'>, at: U32): U32 {
  const before = counts.at(at)
  counts.set(at, before.add(1))
  return before
}

/** Counts of values become where each value starts. */
function sumUp(k: LaneScope, counts: Shared<'u32'>, from: number): void {
  const sum = k.var('sum', k.const('u32', 0))
  k.for({ name: 'i', from, to: from + RADIX }, (i) => {
    const count = counts.at(i)
    counts.set(i, sum.get())
    sum.set(sum.get().add(count))
  })
}

export const argsortRadix: Form<ArgsortParams> = {
  name: 'radix',
  fits: isCpu,
  work: (_caps: Caps, { type, rows, cols, descending }) => {
    const bytes = 4 * rows * cols
    return {
      launches: [{ kernel: radix({ type }), uniforms: { cols, flip: flipOf(type, descending) }, grid: [rows, 1, 1] }],
      ...(keyBytes(type) > 1 && { scratch: { keys: bytes, keysNext: bytes, idsNext: bytes } }),
    }
  },
  kernels: () => [radix({ type: 'f32' })],
}
