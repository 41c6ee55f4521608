// What was found out about a device and what to do about it, as data. Made by those who know; `ingot doctor` shows it, `open` falls
// back by it. Nobody has to read the text to decide.

import { isIngotError, messageOf } from '../../base/error.ts'

/** Why something is not as it could be. */
export interface Reason {
  readonly evidence: string
  /** what to do; empty where nothing has to be done, or nothing can be */
  readonly prescription: string
}

export interface Finding extends Reason {
  /** what was looked at: `self-test`, `threads` */
  readonly probe: string
  /** note: nothing is wrong, but people may want to know */
  readonly status: 'ok' | 'note' | 'warn' | 'fail'
}

export function makeReason(evidence: string, prescription = ''): Reason {
  return { evidence, prescription }
}

/** What an error says, with its hint apart and without its operation: whoever shows it knows what it was doing. */
export function reasonOf(thrown: unknown): Reason {
  return isIngotError(thrown) ? makeReason(thrown.what, thrown.facts.hint) : makeReason(messageOf(thrown))
}

/** In one line. */
export function describeReason({ evidence, prescription }: Reason): string {
  return prescription === '' ? evidence : `${evidence}; ${prescription}`
}

/** A finding that nothing is wrong with. */
export function pass(probe: string, evidence: string): Finding {
  return { probe, status: 'ok', evidence, prescription: '' }
}
