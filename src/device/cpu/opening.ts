// Blanks of a job: places in it that name memory which it is told before it runs. Until then a number stands there that is no address.

import type { BoundRange } from '../core/checked-command.ts'
import { IngotError } from '../../base/error.ts'

/** Higher than any address, and far enough apart for any buffer. */
const FIRST = 2 ** 50
const STEP = 2 ** 40
const MOST = 4096

/** An address in a job that depends on what fills a blank. */
export interface Opening {
  /** where it stands in the heap */
  readonly at: number
  readonly blank: number
  /** bytes behind the start of what fills it */
  readonly offset: number
}

/** What stands for the memory of a blank. */
export function placeOfBlank(blank: number): number {
  if (blank >= MOST) throw new IngotError('too-large', 'too many blanks', { op: 'record', got: blank, wanted: `below ${MOST}` })
  return FIRST + blank * STEP
}

/** Whether a place or an address stands for a blank, or lies behind its start. */
export function isBlank(place: number): boolean {
  return place >= FIRST
}

/** What an address at a place of the heap has to become, if it stands for a blank. */
export function openingAt(at: number, address: number): Opening[] {
  return isBlank(address) ? [{ at, blank: Math.floor((address - FIRST) / STEP), offset: (address - FIRST) % STEP }] : []
}

/** What fills the blank of an opening. */
export function fillingOf({ blank }: Opening, filled: readonly BoundRange<number>[]): BoundRange<number> {
  const range = filled[blank]
  if (range === undefined) throw new IngotError('bad-argument', 'nothing fills a blank', { op: 'submit', got: blank })
  return range
}
