// What the memory of a step is made of, in words: said before a run begins, and where it does not fit.

import { IngotError, isIngotError } from '../base/error.ts'
import type { ResolvedSettings } from './options.ts'

/** What a step needs, in bytes. */
export interface StepMemory {
  /** of the model, as loaded */
  readonly weights: number
  /** what learns, where it is not part of that */
  readonly parameters: number
  /** what the optimiser remembers */
  readonly state: number
  /** batches, and everything that is computed on the way */
  readonly step: number
  /** all of them */
  readonly total: number
  /** whether layers are computed again */
  readonly recompute: boolean
  /** what everything together may take; undefined: nobody knows */
  readonly limit?: number
  /** what everything would take if layers were kept; only where that is why they are computed again */
  readonly kept?: number
}

/** `986.1 MB expected at most (weights 620.0 MB, ...); layers are computed again: ...` */
export function describeMemory(memory: StepMemory, show: (bytes: number) => string = megabytes): string {
  const { total, limit, kept, recompute } = memory
  const why =
    kept === undefined || limit === undefined
      ? ''
      : `, since with all of them kept it would be ${show(kept)}, and ${show(limit)} is what it may take`
  const more = limit !== undefined && total > limit ? `; that is more than the ${show(limit)} that it may take` : ''
  return `${show(total)} expected at most (${partsOf(memory, show)})${recompute ? `; layers are computed again${why}` : ''}${more}`
}

function partsOf({ weights, parameters, state, step }: StepMemory, show: (bytes: number) => string): string {
  return `weights ${show(weights)}, what learns ${show(parameters)}, optimiser ${show(state)}, step ${show(step)}`
}

/** Refuses a step that needs more than there is, before anything is computed: systems kill programs that take more than that. */
export function checkFits(memory: StepMemory, most: number, settings: ResolvedSettings): void {
  if (memory.total <= most) return
  throw new IngotError('out-of-memory', 'an update will not fit the memory', {
    op: 'finetune',
    got: neededOf(memory),
    wanted: `at most ${megabytes(most)}`,
    hint: hintFor(memory, settings),
  })
}

/** What was thrown because there was no memory, with how much was needed and what would need less; anything else as it is. */
export async function withMemory(error: unknown, settings: ResolvedSettings, needed: () => Promise<StepMemory>): Promise<unknown> {
  if (!isIngotError(error, 'out-of-memory') && !isIngotError(error, 'too-large')) return error
  const memory = await needed()
  return new IngotError('out-of-memory', `an update does not fit the memory: ${error.what}`, {
    op: 'finetune',
    got: neededOf(memory),
    hint: hintFor(memory, settings),
    cause: error,
  })
}

function neededOf(memory: StepMemory): string {
  return `${megabytes(memory.total)} needed (${partsOf(memory, megabytes)})`
}

function hintFor({ recompute }: StepMemory, { batch, accumulate, context, lora, optimizer }: ResolvedSettings): string {
  const hints = [
    ...(batch > 1 ? [`batch ${Math.floor(batch / 2)} with accumulate ${accumulate * 2}`] : []),
    `a context below ${context}`,
    ...(recompute ? [] : ['recompute']),
    ...(lora === null ? ['lora in place of all weights'] : [`a rank below ${lora.rank}`, 'fewer targets']),
    ...(optimizer === 'adamw' ? ['optimizer lion or sgd'] : []),
  ]
  return `less is needed with ${hints.join(', ')}`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
