// Products whose sums go on along a rank, of random sizes and in formats of every kind, on every kind of hardware.

import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { tileColumns } from '../../src/kernel/linear/activations.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { packedLinear } from '../../src/kernel/linear/packed-linear.ts'
import { linearTransposed } from '../../src/kernel/linear/transposed.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const caps = fc.constantFrom(...Object.values(ALL_CAPS))
const side = fc.integer({ min: 1, max: 40 })
const rank = fc.integer({ min: 1, max: 80 })
const runs = { numRuns: 25 }

it('linear layers', () => {
  const sizes = fc.record({ format: fc.constantFrom('f32', 'f16'), m: side, k: side, n: side, bias: fc.boolean(), rank })
  const blocks = fc.record({
    format: fc.constantFrom('q8_0', 'q4_0'),
    m: side,
    k: fc.constantFrom(32, 96),
    n: side,
    bias: fc.boolean(),
    rank,
  })
  // the last bits of sums that nearly cancel out are not what this is about
  const near = { ...linear, allowed: (...some: Parameters<typeof linear.allowed>) => 10 * linear.allowed(...some) }
  fc.assert(
    fc.property(fc.oneof(sizes, blocks), caps, (params, form) => {
      expect(failuresOf(near, params, form)).toEqual([])
    }),
    runs,
  )
})

it('what comes back through them', () => {
  const sizes = fc.record({ format: fc.constant('f32'), m: side, k: side, n: side, rank })
  const blocks = fc.record({ format: fc.constant('q8_0'), m: side, k: fc.constantFrom(32, 96), n: side, rank })
  const near = {
    ...linearTransposed,
    allowed: (...some: Parameters<typeof linearTransposed.allowed>) => 10 * linearTransposed.allowed(...some),
  }
  fc.assert(
    fc.property(fc.oneof(sizes, blocks), caps, (params, form) => {
      expect(failuresOf(near, params, form)).toEqual([])
    }),
    runs,
  )
})

it('packed ones', () => {
  const cpus = fc.constantFrom(...Object.values(ALL_CAPS).filter(({ lanes }) => lanes === 1))
  const added = fc.constantFrom('nothing', 'bias', 'residual')
  const format = fc.constantFrom('q8_0', 'q4_k')
  const sizes = fc.record({ format, m: side, n: fc.integer({ min: 1, max: 6 }), added, rank: fc.integer({ min: 1, max: 20 }) })
  fc.assert(
    fc.property(sizes, cpus, (params, form) => {
      expect(failuresOf(packedLinear, { ...params, k: 256, columns: tileColumns(form, params.n) }, form)).toEqual([])
    }),
    runs,
  )
})
