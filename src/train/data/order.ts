// In which order data is learnt, by seed: which units are kept for validation, and the order of each epoch. The same seed gives the same on
// every machine, and an epoch depends on no other: a run that goes on from a checkpoint needs no more than the number of its epoch.

import { IngotError } from '../../base/error.ts'
import { createRandom } from '../../llm/random.ts'
import type { TokenStore } from './store.ts'

/** Sequences to learn from, and those that only measure. */
export interface Split {
  readonly train: Uint32Array
  readonly validation: Uint32Array
}

/** Tells the random numbers of the split from those of epochs. */
const SPLIT = 2 ** 21 - 1

/** Keeps some units for validation: a share of them below 1, or a count. Sequences of one unit are never parted. */
export function splitData(store: TokenStore, units: number, validation: number, seed: number): Split {
  if (!(validation >= 0) || (validation >= 1 && !Number.isInteger(validation)))
    throw new IngotError('bad-argument', 'no such validation split', {
      op: 'train',
      got: validation,
      wanted: 'a share below 1, or a count of records',
    })
  const count = validation < 1 ? Math.round(units * validation) : validation
  const kept = validation > 0 ? Math.max(1, count) : 0
  if (kept >= units)
    throw new IngotError('bad-argument', 'validation leaves nothing to learn from', {
      op: 'train',
      got: `${kept} of ${units} records`,
      wanted: `at most ${units - 1}`,
    })
  const chosen = new Uint8Array(units)
  const order = shuffled(indices(units), seed, SPLIT)
  for (const unit of order.subarray(0, kept)) chosen[unit] = 1
  const all = indices(store.size)
  return {
    train: all.filter((i) => chosen[store.unitOf(i)] === 0),
    validation: all.filter((i) => chosen[store.unitOf(i)] === 1),
  }
}

/** The items in the order of an epoch, counted from 0. */
export function shuffled(items: Uint32Array, seed: number, epoch: number): Uint32Array {
  const order = items.slice()
  // Seeds have 53 bits; epochs get numbers of their own by mixing, not by adding: seed 1 of epoch 0 is no other seed's epoch 1.
  const random = createRandom((Math.imul(seed >>> 0, 0x9e3779b1) >>> 0) + 2 ** 32 * (epoch % 2 ** 21))
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1))
    const [a, b] = [order[at] ?? 0, order[other] ?? 0]
    order[at] = b
    order[other] = a
  }
  return order
}

function indices(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => i)
}
