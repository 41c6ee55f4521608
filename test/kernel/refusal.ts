// What a family is asked for and cannot do.

import { expect } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'

/** Runs what must be refused as a bad argument, at once. */
export function expectRefusal(run: () => unknown): void {
  let caught: unknown
  try {
    run()
  } catch (error) {
    caught = error
  }
  expect(isIngotError(caught, 'bad-argument')).toBe(true)
}
