// Medians, noise, and when a difference counts.

import { array, assert, double, property } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compare, median, quantile, summarize } from '../../src/bench/statistics.ts'

const samples = array(double({ min: 1, max: 1000, noNaN: true }), { minLength: 3, maxLength: 15 })

test('the median is the middle, and between two middles their mean', () => {
  expect([median([3, 1, 2]), median([4, 1, 3, 2]), median([7])]).toEqual([2, 2.5, 7])
  expect(median([])).toBeNaN()
  expect(quantile([0, 10], 0.25)).toBe(2.5)
})

test('the median does not depend on the order, and lies among the samples', () => {
  assert(
    property(samples, (values) => {
      const middle = median(values)
      expect(median(values.toReversed())).toBe(middle)
      expect(middle).toBeGreaterThanOrEqual(Math.min(...values))
      expect(middle).toBeLessThanOrEqual(Math.max(...values))
    }),
  )
})

test('one wild sample is not noise; a wide spread is', () => {
  expect(summarize([100, 100, 100, 100, 9000])).toEqual({ median: 100, noise: 0 })
  expect(summarize([50, 75, 100, 125, 150]).noise).toBeCloseTo(0.37, 2)
  expect(summarize([1, 2]).noise).toBe(Infinity)
})

describe('a difference', () => {
  test('counts when it is larger than the noise, in the direction that is better', () => {
    const [fast, slow] = [
      [129, 130, 131],
      [99, 100, 101],
    ]
    expect(compare(fast, slow, 'more')).toMatchObject({ ratio: 1.3, verdict: 'better' })
    expect(compare(slow, fast, 'more').verdict).toBe('worse')
    expect(compare(fast, slow, 'less').verdict).toBe('worse')
    expect(compare(slow, fast, 'less').verdict).toBe('better')
  })

  test('does not count below the noise', () => {
    expect(compare([80, 110, 140], [70, 100, 130], 'more').verdict).toBe('same within noise')
    expect(compare([101, 101, 101], [100, 100, 100], 'more').verdict).toBe('same within noise')
  })

  test('does not count with too few samples, however large', () => {
    expect(compare([1000, 1000], [1, 1], 'more').verdict).toBe('same within noise')
  })

  test('is the same seen from the other side', () => {
    assert(
      property(samples, samples, (a, b) => {
        const mirrored = { better: 'worse', worse: 'better', 'same within noise': 'same within noise' } as const
        expect(compare(b, a, 'more').verdict).toBe(mirrored[compare(a, b, 'more').verdict])
      }),
    )
  })

  test('from itself is none', () => {
    assert(
      property(samples, (values) => {
        expect(compare(values, values, 'more').verdict).toBe('same within noise')
      }),
    )
  })
})
