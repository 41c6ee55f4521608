// Learning rates over updates, computed in doubles on the host: a step of training takes its rate as data, so that nothing is planned
// anew when it changes.

import { IngotError } from '../base/error.ts'

/** How a rate rises at the start: updates before `warmup` have (t + warmupOffset) / warmup of it. */
export interface Warmup {
  /** updates (default 0: none) */
  readonly warmup?: number
  /** 0: the first update has a rate of 0, as in Hugging Face's; 1: it has 1 / warmup of the full one (default) */
  readonly warmupOffset?: 0 | 1
}

/** How the rate depends on the update, counted from 0. */
export type Schedule =
  | (Warmup & { readonly kind: 'constant' })
  /** falls to `floor` at update `total`, and stays there: in a line, or along half a cosine */
  | (Warmup & { readonly kind: 'linear' | 'cosine'; readonly total: number; readonly floor?: number })
  /** times `gamma` after every `size` updates */
  | (Warmup & { readonly kind: 'step'; readonly size: number; readonly gamma: number })

/** The rate of update `t`, counted from 0, where `rate` is the highest. */
export function rateAt(schedule: Schedule, rate: number, t: number): number {
  const { warmup = 0, warmupOffset = 1 } = schedule
  if (!Number.isInteger(t) || t < 0) throw bad('no such update', t, 'a whole number from 0 on')
  if (t < warmup) return (rate * (t + warmupOffset)) / warmup
  if (schedule.kind === 'constant') return rate
  if (schedule.kind === 'step') {
    if (!(schedule.size >= 1)) throw bad('steps have no size', schedule.size, '1 or more updates')
    return rate * schedule.gamma ** Math.floor(t / schedule.size)
  }
  const { kind, total, floor = 0 } = schedule
  if (!(total > warmup)) throw bad('the schedule ends before its warm-up', total, `more than ${warmup} updates`)
  const done = Math.min(1, (t - warmup) / (total - warmup))
  const left = kind === 'linear' ? 1 - done : (1 + Math.cos(Math.PI * done)) / 2
  return floor + (rate - floor) * left
}

function bad(what: string, got: number, wanted: string): IngotError {
  return new IngotError('bad-argument', what, { op: 'rateAt', got, wanted })
}
