// What a training run tells while it goes on, and what it gives in the end.

import { IngotError } from '../base/error.ts'
import type { DataSummary } from './data/dataset.ts'
import type { Origin } from './data/store.ts'
import type { StepMemory } from './memory.ts'
import type { ResolvedSettings } from './options.ts'

/** The data was read. */
export interface DataEvent extends DataSummary {
  readonly kind: 'data'
}
/** Everything is loaded; the first update comes next. */
export interface StartEvent {
  readonly kind: 'start'
  /** all that decides the numbers, defaults included */
  readonly settings: ResolvedSettings
  /** updates of the whole run, and those that a checkpoint has already */
  readonly steps: number
  readonly done: number
  readonly epochs: number
  /** sequences that are learnt and measured */
  readonly sequences: { readonly train: number; readonly validation: number }
  /** numbers that learn */
  readonly parameters: number
  readonly device: string
  /** bytes on the device so far */
  readonly memory: number
  /** what the largest update will need */
  readonly expected: StepMemory
}
/** An update was made. */
export interface StepEvent {
  readonly kind: 'step'
  /** counted from 1 */
  readonly step: number
  readonly steps: number
  /** epochs done, as a fraction */
  readonly epoch: number
  /** before the update: the mean over the tokens that were predicted, in nats */
  readonly loss: number
  /** the moving mean of losses */
  readonly smooth: number
  readonly rate: number
  /** of all gradients together, before they were clipped */
  readonly norm: number
  /** tokens of this update, without padding */
  readonly tokens: number
  readonly tokensPerSecond: number
  readonly ms: number
  /** bytes on the device */
  readonly memory: number
}
/** The records that are kept for it were measured. */
export interface ValidationEvent {
  readonly kind: 'validation'
  readonly step: number
  readonly loss: number
  /** no measurement before was better */
  readonly isBest: boolean
}
/** The run can go on from here. */
export interface CheckpointEvent {
  readonly kind: 'checkpoint'
  readonly step: number
  readonly path: string
}
/** The run is over, and its result is written. */
export interface EndEvent extends FinetuneResult {
  readonly kind: 'end'
}

/** What a run tells: `kind` says which. */
export type TrainEvent = DataEvent | StartEvent | StepEvent | ValidationEvent | CheckpointEvent | EndEvent

/** A run that is over. */
export interface FinetuneResult {
  /** `stopped`: by `stop`, or by leaving the loop; then nothing is written but the checkpoint */
  readonly reason: 'finished' | 'early-stop' | 'stopped'
  /** updates that were made, those of the checkpoint included */
  readonly steps: number
  /** the moving mean of losses at the end; NaN where there was no update */
  readonly loss: number
  /** the last measurement, and the best */
  readonly validation?: { readonly last: number; readonly best: number }
  /** tokens learnt from, with repetitions */
  readonly tokens: number
  readonly ms: number
  /** where the result is */
  readonly out?: string
  /** where a checkpoint is */
  readonly checkpoint?: string
}

/** What a run will take, as measured by its first update. */
export interface Estimate {
  readonly data: DataSummary
  readonly settings: ResolvedSettings
  readonly steps: number
  readonly epochs: number
  readonly sequences: { readonly train: number; readonly validation: number }
  /** learnt from in all, with repetitions */
  readonly tokens: number
  /** numbers that learn */
  readonly parameters: number
  readonly device: string
  /** bytes on the device during the largest update: the total of `expected` */
  readonly memory: number
  readonly expected: StepMemory
  readonly msPerStep: number
  readonly ms: number
}

/** The loss, or the length of the gradients, is no number any more: what was learnt since the last checkpoint is lost. */
export class LossError extends IngotError {
  /** the update, counted from 1 */
  readonly step: number
  /** where its data came from */
  readonly origins: readonly Origin[]
  /** the last good one, if there is one */
  readonly checkpoint: string | undefined

  constructor(what: string, value: number, step: number, origins: readonly Origin[], checkpoint: string | undefined) {
    const from = checkpoint === undefined ? 'there is no checkpoint to go on from' : `the last good checkpoint is ${checkpoint}`
    super('wrong-result', `${what} is no number in step ${step}`, {
      op: 'finetune',
      got: `${value} from ${describeOrigins(origins)}`,
      hint: `${from}; try a lower rate or clipNorm`,
    })
    this.step = step
    this.origins = origins
    this.checkpoint = checkpoint
  }
}

const MOST_NAMED = 8

/** `data.jsonl lines 3, 7 and 12; other.jsonl line 1` */
function describeOrigins(origins: readonly Origin[]): string {
  const files = new Map<string, Set<number>>()
  for (const { file, line } of origins) files.set(file, (files.get(file) ?? new Set()).add(line))
  return [...files]
    .map(([file, lines]) => {
      const shown = [...lines].toSorted((a, b) => a - b).slice(0, MOST_NAMED)
      const more = lines.size > shown.length ? ` and ${lines.size - shown.length} more` : ''
      return `${file} line${lines.size === 1 ? '' : 's'} ${shown.join(', ')}${more}`
    })
    .join('; ')
}
