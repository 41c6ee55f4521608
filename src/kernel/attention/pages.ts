// Where the positions of sequences lie in a cache. A cache is a pool of pages of some positions each; a table has a row of pages for every
// slot, and each row of a step says which slot its sequence has. So sequences of any length share a pool, and what two have in common is
// there once. Knows nothing of who owns a page.

import { type LaneScope, type Readable, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'

/** positions of a page: as many keys as the largest block that a form of attention walks */
export const PAGE = 64

/** The sizes of a pool and its table. */
export interface Paging {
  /** positions that a sequence may have */
  readonly context: number
  /** rows of the table */
  readonly slots: number
  /** pages of the pool */
  readonly pages: number
}

/** Pages for so many positions: how long a row of the table is. */
export function pagesFor(positions: number): number {
  return Math.ceil(positions / PAGE)
}

/** Parameters of every kernel that reads or writes a cache. `slots` has the slot of each row, `capacity` counts positions of the pool. */
export const PAGING = {
  positions: buffer('u32', 'read'),
  slots: buffer('u32', 'read'),
  table: buffer('u32', 'read'),
  context: uniform('u32'),
  perSlot: uniform('u32'),
  capacity: uniform('u32'),
} as const

/** Their values. */
export function pagingUniforms({ context, pages }: Paging): Record<'context' | 'perSlot' | 'capacity', number> {
  return { context, perSlot: pagesFor(context), capacity: pages * PAGE }
}

/** Their buffers, for rows of so many positions. */
export function pagingBuffers(rows: number, { context, slots }: Paging) {
  const input = { role: 'in', type: 'u32' } as const
  return [
    { ...input, name: 'positions', elements: rows },
    { ...input, name: 'slots', elements: rows },
    { ...input, name: 'table', elements: slots * pagesFor(context) },
  ] as const
}

/** What a kernel sees of the table. */
export interface PageTable {
  readonly table: Readable<'u32', 'uniform'>
  readonly perSlot: Value<'u32', 'uniform'>
}

/** Where a position of a slot lies in the pool. */
export function placeOf<U extends Uniformity>(
  { table, perSlot }: PageTable,
  slot: Value<'u32', U>,
  position: Value<'u32', U>,
): Value<'u32', U> {
  const page = table.at(slot.mul(perSlot).add(position.shr(6))) as Value<'u32', U>
  return page.mul(PAGE).add(position.and(PAGE - 1)) as Value<'u32', U>
}

/** The same in plain numbers. */
export function placeIn(table: ArrayLike<number>, { context }: Pick<Paging, 'context'>, slot: number, position: number): number {
  return (table[slot * pagesFor(context) + Math.floor(position / PAGE)] ?? 0) * PAGE + (position % PAGE)
}

/**
 * Walks the rows from `from` to before `to` by sequences: `body` is written for the slot of each row that is the first of its sequence
 * there. Rows of a sequence follow each other, so that most often there is one.
 */
export function eachSequence<K extends LaneScope, U extends Uniformity>(
  k: K,
  slots: Readable<'u32', 'uniform'>,
  { from, to }: { from: Value<'u32', U>; to: Value<'u32', U> },
  body: (slot: Value<'u32', U>) => void,
): void {
  k.for({ name: 'first', from, to }, (row) => {
    const slot = k.let('slot', slots.at(row) as Value<'u32', U>)
    const before = slots.at(row.max(from.add(1)).sub(1))
    k.when(row.eq(from).or(before.ne(slot)), () => body(slot))
  })
}

/** Random pages, none of them twice, for a table; the first page of the pool stays unused, as it does for those who own pages. */
export function randomTable({ context, slots, pages }: Paging, random: () => number): Uint32Array {
  const free = Array.from({ length: pages - 1 }, (_, i) => i + 1)
  return Uint32Array.from({ length: slots * pagesFor(context) }, () => free.splice(Math.floor(random() * free.length), 1)[0] ?? 0)
}
