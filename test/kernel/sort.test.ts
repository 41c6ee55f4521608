// Sorting rows of random lengths, types and values, against Array.sort.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ElementType, roundElements } from '../../src/base/element.ts'
import { isIngotError } from '../../src/base/error.ts'
import { type ArgsortParams, type SortType, argsort } from '../../src/kernel/select/argsort.ts'
import { ALL_CAPS, runCase } from './interpret-case.ts'
import { testRandom } from './random-case.ts'

const types: readonly SortType[] = ['f32', 'f16', 'bf16', 'i32', 'u32', 'i8', 'u8']
const GPU = ALL_CAPS['subgroups of 32']!
const CPU = ALL_CAPS['vectors of 8']!

/** What Array.sort, which is stable, makes of numbers that can be compared; the others come after. */
function sorted(values: readonly number[], descending: boolean): number[] {
  const all = values.map((value, index) => ({ value, index }))
  const numbers = all.filter(({ value }) => !Number.isNaN(value))
  const rest = all.filter(({ value }) => Number.isNaN(value))
  numbers.sort((a, b) => (a.value === b.value ? 0 : a.value < b.value !== descending ? -1 : 1))
  return [...numbers, ...rest].map(({ index }) => index)
}

function orderOf(type: SortType, values: ArrayLike<number>, descending: boolean, caps = CPU): number[] {
  const params: ArgsortParams = { type, rows: 1, cols: values.length, descending }
  return Array.from(runCase(argsort, params, caps, { given: { x: Float64Array.from(values) } }).got['y']!)
}

describe('random rows', () => {
  const params = fc.record({
    type: fc.constantFrom(...types),
    rows: fc.integer({ min: 1, max: 4 }),
    cols: fc.oneof(fc.integer({ min: 1, max: 120 }), fc.integer({ min: 1, max: 1200 })),
    descending: fc.boolean(),
  })
  testRandom('are sorted', argsort, params, 60)

  it('are sorted like an array', () => {
    const value = fc.oneof(fc.float(), fc.integer({ min: -3, max: 3 }), fc.constantFrom(0, -0, Infinity, -Infinity, NaN, 1e-45, -1e-45))
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 300 }),
        fc.constantFrom(...types),
        fc.boolean(),
        fc.constantFrom(GPU, CPU),
        (values, type, descending, caps) => {
          const held = Array.from(roundElements(type satisfies ElementType, values))
          expect(orderOf(type, held, descending, caps)).toEqual(sorted(held, descending))
        },
      ),
      { numRuns: 80 },
    )
  })
})

it.each([
  ['lanes', GPU],
  ['vectors', CPU],
] as const)('every float of 16 bits is in its place: %s', (_name, caps) => {
  // all bit patterns of some exponents, infinities and NaN
  const words = Array.from({ length: 1500 }, (_, i) => (i * 2654435761) >>> 16)
  for (const type of ['f16', 'bf16'] as const) {
    const values = Array.from(roundElements(type, decode(type, words)))
    for (const descending of [false, true]) expect(orderOf(type, values, descending, caps)).toEqual(sorted(values, descending))
  }
})

function decode(type: 'f16' | 'bf16', words: readonly number[]): number[] {
  if (type === 'bf16') return Array.from(new Float32Array(Uint32Array.from(words, (word) => (word << 16) >>> 0).buffer))
  return words.map((word) => {
    const [exponent, mantissa] = [(word >> 10) & 31, word & 1023]
    const size =
      exponent === 31 ? (mantissa === 0 ? Infinity : NaN) : exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25)
    return word & 0x8000 ? -size : size
  })
}

it('rows without elements are refused', () => {
  let caught: unknown
  try {
    argsort.work(CPU, { type: 'f32', rows: 3, cols: 0, descending: false })
  } catch (error) {
    caught = error
  }
  expect(isIngotError(caught, 'bad-argument')).toBe(true)
})
