// Random numbers: the generator against published answers, and what kernels make of it.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RandomKind, random } from '../../src/kernel/random/random.ts'
import { threefry } from '../../src/kernel/random/threefry.ts'
import { ALL_CAPS, runCase } from './interpret-case.ts'
import { testRandom } from './random-case.ts'

const FORMS = [ALL_CAPS['subgroups of 32']!, ALL_CAPS['vectors of 4']!, ALL_CAPS['vectors of 16']!]
const kinds: readonly RandomKind[] = ['bits', 'uniform', 'normal']
const word = fc.integer({ min: 0, max: 2 ** 32 - 1 })

// The known answers of Random123, the authors' library: `threefry2x32 20` in its file tests/kat_vectors. Counter, key, result.
it.each([
  [
    [0, 0],
    [0, 0],
    [0x6b200159, 0x99ba4efe],
  ],
  [
    [0xffffffff, 0xffffffff],
    [0xffffffff, 0xffffffff],
    [0x1cb996fc, 0xbb002be7],
  ],
  [
    [0x243f6a88, 0x85a308d3],
    [0x13198a2e, 0x03707344],
    [0xc4923a9c, 0x483df7a0],
  ],
] as const)('Threefry-2x32-20 of %j', (counter, key, wanted) => {
  expect(threefry(key, counter)).toEqual(wanted)
})

describe.each(FORMS.map((caps) => [caps.lanes > 1 ? 'lanes' : `vectors of ${caps.width}`, caps] as const))('%s', (_name, caps) => {
  const numbers = (kind: RandomKind, count: number, key: readonly [number, number]): number[] =>
    Array.from(runCase(random, { kind, count, key }, caps).got['y']!)

  it('give the published answer too', () => {
    const bits = numbers('bits', 17, [0, 0])
    expect([bits[0], bits[16]]).toEqual([0x6b200159, 0x99ba4efe]) // both words of the first counter
  })

  it('normal numbers are right to the last bits', () => {
    const params = { kind: 'normal', count: 4000, key: [3, 4] } as const
    const { got, wanted } = runCase(random, params, caps)
    const exact = wanted['y']!
    // in units of the last place of what is wanted, or of 0.001 for smaller ones
    const off = Array.from(got['y']!, (y, i) => Math.abs(y - exact[i]!) / (2 ** -23 * Math.max(1e-3, Math.abs(exact[i]!))))
    expect(Math.max(...off)).toBeLessThan(4)
  })

  it('look random', () => {
    const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
    const [uniform, normal] = [numbers('uniform', 8000, [5, 6]), numbers('normal', 8000, [5, 6])]
    expect(Math.min(...uniform)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...uniform)).toBeLessThan(1)
    // four deviations of what is expected
    expect(Math.abs(mean(uniform) - 0.5)).toBeLessThan(4 * Math.sqrt(1 / 12 / 8000))
    expect(Math.abs(mean(uniform.map((x) => x * x)) - 1 / 3)).toBeLessThan(4 * Math.sqrt(4 / 45 / 8000))
    expect(Math.abs(mean(normal))).toBeLessThan(4 * Math.sqrt(1 / 8000))
    expect(Math.abs(mean(normal.map((x) => x * x)) - 1)).toBeLessThan(4 * Math.sqrt(2 / 8000))
    expect(Math.abs(mean(normal.map((x, i) => x * normal[(i + 16) % 8000]!)))).toBeLessThan(4 * Math.sqrt(1 / 8000)) // pairs
    expect(normal.filter((x) => Math.abs(x) > 2).length / 8000).toBeCloseTo(0.0455, 2)
  })
})

it('the first numbers do not depend on how many there are', () => {
  for (const kind of kinds) {
    const [few, many] = [10, 100].map((count) => random.define({}, { kind, count, key: [7, 8] })['y']!)
    expect(Array.from(many!.subarray(0, 10))).toEqual(Array.from(few!))
  }
})

it('a key in memory is the same key', () => {
  for (const caps of FORMS) {
    const given = { seed: Uint32Array.of(7, 0xfffffff8) }
    const [inMemory, told] = [
      runCase(random, { kind: 'bits', count: 50 }, caps, { given }).got['y'],
      runCase(random, { kind: 'bits', count: 50, key: [7, 0xfffffff8] }, caps).got['y'],
    ]
    expect(inMemory).toEqual(told)
  }
})

const params = fc.record({ kind: fc.constantFrom(...kinds), count: fc.integer({ min: 1, max: 300 }) })
testRandom(
  'any key and count',
  random,
  fc.tuple(params, word, word).map(([each, a, b]) => ({ ...each, key: [a, b] as const })),
  80,
)
