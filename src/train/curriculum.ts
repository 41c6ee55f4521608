// What each update of a run learns from: epochs of rows in the order of the seed, cut into updates. Everything follows from the settings
// and the number of the update, so that a run can go on anywhere.

import type { Dataset } from './data/dataset.ts'
import { type Split, shuffled, splitData } from './data/order.ts'
import { type BatchValues, type Row, type RowOptions, fillRows, makeBatches, makeRows, rowLength } from './data/rows.ts'
import type { Origin } from './data/store.ts'
import type { ResolvedSettings } from './options.ts'

/** One update: batches whose gradients are averaged. */
export interface Lesson {
  readonly batches: readonly BatchValues[]
  /** tokens that are computed, without padding */
  readonly tokens: number
  readonly learnt: number
  /** the epoch, counted from 0, and how many updates it has had with this one */
  readonly epoch: number
  readonly isLastOfEpoch: boolean
  /** where its sequences come from */
  origins(): Origin[]
}

interface Epoch {
  readonly epoch: number
  /** rows of each */
  readonly updates: readonly (readonly Row[])[]
}

export class Curriculum {
  readonly #data: Dataset
  readonly #settings: ResolvedSettings
  readonly #split: Split
  /** updates before each epoch that is known */
  readonly #begins: number[] = [0]
  #current: Epoch | undefined

  constructor(data: Dataset, settings: ResolvedSettings) {
    this.#data = data
    this.#settings = settings
    this.#split = splitData(data.store, data.units, settings.validation, settings.seed)
  }

  /** updates of the run */
  get total(): number {
    const { steps, epochs } = this.#settings
    return steps ?? this.#beginOf(epochs ?? 1)
  }
  /** epochs of the run, where it ends within one as a fraction */
  get epochs(): number {
    const { steps, epochs } = this.#settings
    return epochs ?? (steps ?? 0) / this.#beginOf(1)
  }
  get hasValidation(): boolean {
    return this.#split.validation.length > 0
  }
  /** sequences learnt and measured */
  get sizes(): { readonly train: number; readonly validation: number } {
    return { train: this.#split.train.length, validation: this.#split.validation.length }
  }

  /** What update `step`, counted from 0, learns from. */
  lesson(step: number): Lesson {
    let epoch = 0
    while (this.#beginOf(epoch + 1) <= step) epoch++
    const { updates } = this.#epoch(epoch)
    const at = step - this.#beginOf(epoch)
    const rows = updates[at] ?? []
    const { store } = this.#data
    const sequences = rows.flat()
    return {
      batches: this.#fill(rows),
      tokens: sequences.reduce((sum, each) => sum + store.lengthOf(each) - 1, 0),
      learnt: sequences.reduce((sum, each) => sum + learntOf(store.sequence(each).spans), 0),
      epoch,
      isLastOfEpoch: at + 1 === updates.length,
      origins: () => sequences.map((each) => store.originOf(each)),
    }
  }

  /** The shapes of batches [rows, length] that an update has at most. */
  largest(): (readonly [rows: number, length: number])[] {
    const { batch, accumulate } = this.#settings
    const { store, kind } = this.#data
    const rows = this.#rows(this.#split.train).length
    const longest = this.#split.train.reduce((most, at) => Math.max(most, store.lengthOf(at) - 1), 1)
    const count = Math.min(accumulate, Math.ceil(rows / batch))
    const shape = [Math.min(batch, rows) * (kind === 'pairs' ? 2 : 1), rowLength(longest, this.#layout)] as const
    return Array.from({ length: count }, () => shape)
  }

  /** What is measured: always the same batches. */
  validation(): BatchValues[] {
    return makeBatches(this.#rows(this.#split.validation), this.#settings.batch).flatMap((rows) => this.#fill(rows))
  }

  #fill(rows: readonly Row[]): BatchValues[] {
    const { store, kind } = this.#data
    return makeBatches(rows, this.#settings.batch).map((batch) =>
      fillRows(store, kind === 'pairs' ? batch.flatMap((pair) => pair.map((at) => [at])) : batch, this.#layout),
    )
  }

  get #layout(): RowOptions {
    const { context, packing } = this.#settings
    return { context, packing: packing && this.#data.kind === 'sequences' }
  }

  /** Rows of sequences; of pairs, each is both answers. */
  #rows(order: Uint32Array): Row[] {
    const { context, packing } = this.#settings
    if (this.#data.kind === 'pairs') return Array.from(order.filter((at) => at % 2 === 0), (at) => [at, at + 1]) // prettier-ignore
    return makeRows(this.#data.store, order, { context, packing })
  }

  #epoch(epoch: number): Epoch {
    if (this.#current?.epoch === epoch) return this.#current
    const { seed, batch, accumulate } = this.#settings
    const updates = makeBatches(this.#rows(shuffled(this.#split.train, seed, epoch)), batch * accumulate)
    this.#current = { epoch, updates }
    return this.#current
  }

  #beginOf(epoch: number): number {
    for (let next = this.#begins.length; next <= epoch; next++)
      this.#begins.push((this.#begins[next - 1] ?? 0) + this.#epoch(next - 1).updates.length)
    return this.#begins[epoch] ?? 0
  }
}

function learntOf(spans: Uint32Array): number {
  let learnt = 0
  for (let i = 0; i < spans.length; i += 2) learnt += (spans[i + 1] ?? 0) - (spans[i] ?? 0)
  return learnt
}
