import { assert, double, integer, property, tuple } from 'fast-check'
import { expect, test } from 'vitest'
import { HALVES } from '../../src/base/half-table.ts'
import { encodeHalf, roundHalf } from '../../src/base/half.ts'

const finite = [...HALVES].filter((value) => Number.isFinite(value)).sort((a, b) => a - b)

/** The nearest of all finite halves, by search; of two as near the one with an even last bit. */
function nearest(x: number): number {
  if (Math.abs(x) >= 65520) return Math.sign(x) * Infinity
  let low = 0
  let high = finite.length - 1
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (finite[middle]! <= x) low = middle
    else high = middle
  }
  const [a, b] = [finite[low]!, finite[high]!]
  if (x - a !== b - x) return x - a < b - x ? a : b
  return encodeHalf(a) % 2 === 0 ? a : b
}

test('every half survives a round trip', () => {
  const bits = Array.from({ length: 65536 }, (_, at) => at).filter((at) => !Number.isNaN(HALVES[at]))
  expect(bits.filter((at) => encodeHalf(HALVES[at]!) !== at)).toEqual([])
  expect(bits.filter((at) => !Object.is(roundHalf(HALVES[at]!), HALVES[at]))).toEqual([])
})

test('known values', () => {
  expect(HALVES[0x3c00]).toBe(1)
  expect(HALVES[0x0001]).toBe(2 ** -24)
  expect(HALVES[0x7bff]).toBe(65504)
  expect(HALVES[0xfc00]).toBe(-Infinity)
  expect([65519.99, 65520, -1e9].map(roundHalf)).toEqual([65504, Infinity, -Infinity])
  expect([1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -11 + 2 ** -40].map(roundHalf)).toEqual([1, 1 + 2 ** -9, 1 + 2 ** -10])
  expect(Object.is(roundHalf(-1e-9), -0)).toBe(true)
  expect(encodeHalf(NaN)).toBe(0x7e00)
})

test('rounds to nearest even, from any double, in one step', () => {
  const agrees = (x: number): boolean => roundHalf(x) === nearest(x)
  const near = tuple(integer({ min: 0, max: finite.length - 2 }), double({ min: -0.5, max: 1.5, noNaN: true }))
  assert(
    property(near, ([at, part]) => agrees(finite[at]! + (finite[at + 1]! - finite[at]!) * part)),
    { numRuns: 3000 },
  )
  assert(property(double({ min: -7e4, max: 7e4, noNaN: true }), agrees), { numRuns: 2000 })
})

test('halfway between any two neighbours goes to the even one', () => {
  const wrong = finite.filter((a, at) => {
    const b = finite[at + 1] ?? a
    return a !== b && roundHalf((a + b) / 2) !== (encodeHalf(a) % 2 === 0 ? a : b)
  })
  expect(wrong).toEqual([])
})
