// Sequences as rows of a batch. Packed, several stand one after the other in a row as long as the context: positions begin again at 0 with
// each, which is also what keeps attention within it. Padded, each has a row of its own. Rows of one batch have one length, from a short
// list of lengths, since a step of training is planned anew for each.

import type { Device } from '../../device/device.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { type Batch, IGNORED } from '../batch.ts'
import type { TokenStore } from './store.ts'

/** The sequences of a row, by their number in the store. */
export type Row = readonly number[]

export interface RowOptions {
  /** rows of tokens in a row of a batch */
  readonly context: number
  readonly packing: boolean
}

/** Rows with room that the next sequence may go to. */
const OPEN = 16
/** Lengths of padded rows are multiples of the largest power of two below a quarter of them: at most 8 for each doubling. */
const FINEST = 16

/** Puts sequences into rows, in order. Packed: each into the first open row that has room. */
export function makeRows(store: TokenStore, order: Uint32Array, { context, packing }: RowOptions): Row[] {
  if (!packing) return Array.from(order, (at) => [at])
  const rows: number[][] = []
  let open: { row: number[]; room: number }[] = []
  for (const at of order) {
    const needed = store.lengthOf(at) - 1
    let home = open.find(({ room }) => room >= needed)
    if (home === undefined) {
      home = { row: [], room: context }
      rows.push(home.row)
      open.push(home)
    }
    home.row.push(at)
    home.room -= needed
    open = open.filter(({ room }) => room > 0).slice(-OPEN)
  }
  return rows
}

/** Cuts rows into batches of `size`; what is left over at the end is a smaller one. */
export function makeBatches<T>(rows: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size))
}

/** What a batch holds, before it is brought to a device: [rows, length] each. */
export interface BatchValues {
  readonly shape: readonly [rows: number, length: number]
  readonly tokens: Uint32Array
  readonly targets: Int32Array
  readonly positions: Uint32Array
  /** targets that count */
  readonly learnt: number
}

/** How long a row of a batch is whose longest has so many tokens to predict. */
export function rowLength(longest: number, { context, packing }: RowOptions): number {
  return packing ? context : Math.min(context, roundUp(longest))
}

/** The values of rows. What is not filled does not count, and sees only itself. */
export function fillRows(store: TokenStore, rows: readonly Row[], { context, packing }: RowOptions): BatchValues {
  const longest = Math.max(1, ...rows.map((row) => row.reduce((sum, at) => sum + store.lengthOf(at) - 1, 0)))
  const length = rowLength(longest, { context, packing })
  const size = rows.length * length
  const [tokens, targets, positions] = [new Uint32Array(size), new Int32Array(size).fill(IGNORED), new Uint32Array(size)]
  let learnt = 0
  rows.forEach((row, number) => {
    let from = number * length
    for (const at of row) {
      const { ids, spans } = store.sequence(at)
      const count = ids.length - 1
      tokens.set(ids.subarray(0, count), from)
      for (let i = 0; i < count; i++) positions[from + i] = i
      for (let i = 0; i < spans.length; i += 2) {
        const [first = 0, after = 0] = [spans[i], spans[i + 1]]
        targets.set(ids.subarray(first, after), from + first - 1)
        learnt += after - first
      }
      from += count
    }
  })
  return { shape: [rows.length, length], tokens, targets, positions, learnt }
}

/** The same on a device. */
export function bringBatch(device: Device, { shape, tokens, targets, positions }: BatchValues, noise?: Uint32Array): Batch {
  return {
    ...(noise === undefined ? {} : { noise: Tensor.from(noise, { dtype: 'u32', device }) }),
    tokens: Tensor.from(tokens, { shape: [...shape], dtype: 'u32', device }),
    targets: Tensor.from(targets, { shape: [...shape], dtype: 'i32', device }),
    positions: Tensor.from(positions, { shape: [...shape], dtype: 'u32', device }),
  }
}

function roundUp(length: number): number {
  const step = Math.max(FINEST, 2 ** (Math.floor(Math.log2(Math.max(1, length))) - 2))
  return Math.ceil(length / step) * step
}
