// The rule for near ties, on logits made by hand.

import { describe, expect, test } from 'vitest'
import { agreement, describeDisagreement } from './agreement.ts'

const PART = 0.95
const NMSE = 5e-3

/** Rows of 100 logits: one token leads by `margin`, the rest lie at 0, the next at 1. */
function rows(margins: readonly number[], change: (logits: Float32Array) => void = () => {}): Float32Array {
  const all = new Float32Array(margins.length * 100)
  margins.forEach((margin, row) => {
    all[row * 100 + 7] = 1 + margin
    all[row * 100 + 8] = 1
  })
  change(all)
  return all
}

/** The second token gets ahead of the first by a little. */
const swap = (row: number) => (logits: Float32Array) => {
  const first = row * 100 + 7
  logits[first + 1] = (logits[first] ?? 0) + 0.01
}

/** All logits are off by as much, one up and the next down. */
const off = (error: number) => (logits: Float32Array) => {
  logits.forEach((value, i) => {
    logits[i] = value + (i % 2 === 0 ? error : -error)
  })
}

describe('positions', () => {
  test('with clear margins count, and agree where both name the same token', () => {
    const want = rows(Array<number>(20).fill(3))
    expect(agreement(want, want, 20, NMSE)).toEqual({ counted: 20, same: 20, clear: 20 })
  })

  test('that are near ties count neither for nor against', () => {
    const margins = [0.02, ...Array<number>(19).fill(3)]
    const turned = (logits: Float32Array): void => {
      off(0.01)(logits)
      swap(0)(logits)
    }
    const found = agreement(rows(margins, turned), rows(margins), 20, NMSE)
    expect(found).toEqual({ counted: 19, same: 19, clear: 19 })
    expect(describeDisagreement(found, PART)).toBeUndefined()
  })

  test('count from four times the error of all logits on, not from three', () => {
    const error = 0.01
    const margins = [3 * error, 5 * error]
    expect(agreement(rows(margins, off(error)), rows(margins), 2, NMSE).counted).toBe(1)
  })

  test('with clear margins that name other tokens are faults: one of twenty may, two may not', () => {
    const margins = Array<number>(20).fill(1)
    const one = agreement(rows(margins, swap(3)), rows(margins), 20, NMSE)
    expect(one).toMatchObject({ counted: 20, same: 19 })
    expect(describeDisagreement(one, PART)).toBeUndefined()
    const both = (logits: Float32Array): void => [3, 4].forEach((row) => swap(row)(logits))
    expect(describeDisagreement(agreement(rows(margins, both), rows(margins), 20, NMSE), PART)).toContain('18 of 20')
  })
})

test('logits so far off that nothing counts do not pass where the witness is sure', () => {
  const want = rows(Array<number>(20).fill(3))
  const noise = want.map((value, i) => value + ((i * 7919) % 100) / 10 - 5)
  const found = agreement(noise, want, 20, NMSE)
  expect(found).toMatchObject({ counted: 0, clear: 20 })
  expect(describeDisagreement(found, PART)).toContain('too far off')
})

test('a witness that is sure of nothing asks for nothing', () => {
  const want = rows(Array<number>(20).fill(0))
  expect(describeDisagreement(agreement(rows(Array<number>(20).fill(0), swap(1)), want, 20, NMSE), PART)).toBeUndefined()
})

test('what is no number agrees with nothing', () => {
  const want = rows(Array<number>(20).fill(3))
  expect(
    describeDisagreement(
      agreement(
        want.map(() => NaN),
        want,
        20,
        NMSE,
      ),
      PART,
    ),
  ).toContain('too far off')
})
