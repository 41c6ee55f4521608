// Families with parameters at random: on every kind of hardware, interpreted with all checks, against their meaning.

import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Family } from '../../src/kernel/family.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const caps = fc.constantFrom(...Object.values(ALL_CAPS))

/** A test of its own. */
export function testRandom<P extends object>(name: string, family: Family<P>, params: fc.Arbitrary<P>, numRuns: number): void {
  it(name, () => {
    fc.assert(
      fc.property(params, caps, fc.integer({ min: 1 }), (each, form, seed) => {
        expect(failuresOf(family, each, form, { seed })).toEqual([])
      }),
      { numRuns },
    )
  })
}
