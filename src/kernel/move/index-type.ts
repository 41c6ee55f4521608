// Indices into an axis, as tensors hold them: of u32, i32 or i64, of which the low word counts. A negative one of the signed types counts
// from the end; whatever is still outside is the nearest that is inside, so that no index reads or writes where it must not. One kernel
// serves all types: how far apart they stand, and which are negative, are numbers that it is given.

import { ELEMENT_BYTES } from '../../base/element.ts'
import { type Readable, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import type { NumberArray } from '../family.ts'

export const INDEX_TYPES = ['u32', 'i32', 'i64'] as const
export type IndexType = (typeof INDEX_TYPES)[number]

/** Parameters of a kernel that reads indices. */
export const indexParams = () => ({
  ids: buffer('u32', 'read'),
  /** words from one index to the next */
  idWords: uniform('u32'),
  /** words above it are negative indices */
  idLargest: uniform('u32'),
})

export function indexUniforms(type: IndexType): { idWords: number; idLargest: number } {
  return { idWords: ELEMENT_BYTES[type] / 4, idLargest: type === 'u32' ? 0xffffffff : 0x7fffffff }
}

interface Indices {
  readonly ids: Readable<'u32', Uniformity>
  readonly idWords: Value<'u32'>
  readonly idLargest: Value<'u32'>
}

/** Index number `at`, which is then below `size`; that is 2^31 at most. */
export function readIndex({ ids, idWords, idLargest }: Indices, at: Value<'u32'>, size: Value<'u32'>): Value<'u32'> {
  const word = ids.at(at.mul(idWords))
  const negative = word.gt(idLargest)
  const counted = negative.select(word.add(size), word) // what wraps past zero has been counted from the end
  return negative.and(counted.gt(idLargest)).select(counted.mul(0), counted.min(size.sub(1)))
}

/** The same in JavaScript. */
export function resolveIndex(type: IndexType, id: number, size: number): number {
  const low = type === 'u32' ? id >>> 0 : id | 0
  return Math.min(Math.max(low < 0 ? low + size : low, 0), size - 1)
}

/** Indices of all kinds, for tests: from either end, and past both. */
export function randomIndices(type: IndexType, count: number, size: number, random: () => number): NumberArray {
  const one = (): number => (type === 'u32' ? Math.floor(random() * (size + 2)) : Math.floor((2 * random() - 1) * (size + 2)))
  return type === 'i64'
    ? Float64Array.from({ length: count }, one)
    : type === 'i32'
      ? Int32Array.from({ length: count }, one)
      : Uint32Array.from({ length: count }, one)
}
