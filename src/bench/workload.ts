// What is measured: sizes of prompts, depths of contexts, how often. Every contender gets the same random token ids.

import { createRandom } from '../llm/random.ts'

export type Workload =
  | { readonly kind: 'prefill'; readonly tokens: number }
  | { readonly kind: 'decode'; readonly context: number; readonly count: number }
  /** so many sequences that begin at the same time, each with its own prompt of `tokens`, until all have `count` more */
  | { readonly kind: 'parallel'; readonly sequences: number; readonly tokens: number; readonly count: number }

export interface Effort {
  /** prompt lengths to prefill, in tokens */
  readonly prefill: readonly number[]
  /** context lengths to decode at, in tokens */
  readonly contexts: readonly number[]
  /** how many sequences at once; each with a prompt of 128 tokens and 64 more */
  readonly parallel: readonly number[]
  /** tokens of one decode sample */
  readonly count: number
  /** samples of each workload and contender; at least 3, or nothing can be called a difference */
  readonly samples: number
  /** a sample takes at least this long; short work is repeated within it */
  readonly sampleMs: number
  /** no more samples of a workload after this long, once there are 3 */
  readonly workloadMs: number
  /** new processes that load the model */
  readonly loads: number
  /** starts of the command, to its first token */
  readonly starts: number
  /** find the best settings first */
  readonly tune: boolean
}

export const FULL: Effort = {
  prefill: [16, 128, 512],
  contexts: [0, 512, 1500],
  parallel: [],
  count: 48,
  samples: 7,
  sampleMs: 100,
  workloadMs: 90_000,
  loads: 3,
  starts: 7,
  tune: true,
}

export const QUICK: Effort = {
  prefill: [16, 128],
  contexts: [0],
  parallel: [],
  count: 8,
  samples: 3,
  sampleMs: 0,
  workloadMs: 10_000,
  loads: 1,
  starts: 0,
  tune: false,
}

/** The same for sequences that are computed together, and nothing else. */
export function parallelEffort(effort: Effort, sequences: readonly number[]): Effort {
  return { ...effort, prefill: [], contexts: [], parallel: sequences, loads: 0, starts: 0, tune: false }
}

/** Prompt, and tokens after it, of each sequence. */
const PARALLEL = { tokens: 128, count: 64 } as const

/** The workloads that fit a context of `limit` tokens, and those that do not. */
export function selectWorkloads({ prefill, contexts, parallel, count }: Effort, limit: number): { fits: Workload[]; misses: Workload[] } {
  const all: Workload[] = [
    ...prefill.map((tokens): Workload => ({ kind: 'prefill', tokens })),
    ...contexts.map((context): Workload => ({ kind: 'decode', context, count })),
    ...parallel.map((sequences): Workload => ({ kind: 'parallel', sequences, ...PARALLEL })),
  ]
  const fits = all.filter((work) => positionsOf(work) <= limit)
  return { fits, misses: all.filter((work) => !fits.includes(work)) }
}

/** Positions of the cache that a sequence of a workload needs, with one to spare for the token it ends with. */
export function positionsOf(work: Workload): number {
  return 1 + (work.kind === 'prefill' ? work.tokens : promptLength(work) + work.count)
}

/** A context of 0 still begins with a token: nothing comes after nothing. */
function promptLength(work: Exclude<Workload, { kind: 'prefill' }>): number {
  return work.kind === 'parallel' ? work.tokens : Math.max(1, work.context)
}

export function nameOf(work: Workload): string {
  if (work.kind === 'parallel') return `${work.sequences} at once`
  return work.kind === 'prefill' ? `prefill ${work.tokens}` : `decode at ${work.context}`
}

/** The ids that a workload feeds: the first of one endless random text; those of several sequences one after the other. */
export function promptFor(work: Workload, vocabulary: number, seed: number): number[] {
  const each = work.kind === 'prefill' ? work.tokens : promptLength(work)
  return randomTokens(work.kind === 'parallel' ? work.sequences * each : each, vocabulary, seed)
}

export function randomTokens(count: number, vocabulary: number, seed: number): number[] {
  const random = createRandom(seed)
  return Array.from({ length: count }, () => Math.floor(random() * vocabulary))
}
