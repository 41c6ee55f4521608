// The rows of a step for several sequences: parts of prompts first, then the last tokens of those that go on one by one. Steps come in few
// shapes, so that their plans are made once: counts are rounded up, and rows of nobody fill them up.

import type { SamplerNeeds } from '../sample.ts'
import { choosesOnDevice, outputFor, ruleOf } from './choice.ts'
import type { Job } from './request.ts'
import type { Row, Step, StepShape } from './runner.ts'

/** What a step computes of a job. */
export interface Share {
  readonly job: Job
  /** of its `todo`, the first ones */
  readonly count: number
  /** which of the step's choices is its; undefined: there is more of the prompt to come */
  choice: number | undefined
}

export interface Composition {
  readonly step: Step
  readonly shares: readonly Share[]
}

/** A row of nobody: written where nobody looks. */
const FILLER: Row = { token: 0, position: 0, slot: 0 }

/** What the jobs do next, at most `chunk` rows of prompts among it: the first ones first. All jobs have one model. */
export function compose(jobs: readonly Job[], chunk: number): Composition {
  const singles = jobs.filter(({ todo }) => todo.length === 1).map((job): Share => ({ job, count: 1, choice: undefined }))
  let room = chunk
  const prompts = jobs.flatMap((job): Share[] => {
    const count = job.todo.length > 1 ? Math.min(job.todo.length, room) : 0
    room -= count
    return count > 0 ? [{ job, count, choice: undefined }] : []
  })
  // A sequence alone has steps of its own lengths: nobody else waits for its plans.
  const isAlone = singles.length + prompts.length === 1
  const parts = isAlone ? prompts.flatMap(rowsOf) : fill(prompts.flatMap(rowsOf), roundRows)
  const ones = isAlone ? singles.flatMap(rowsOf) : fill(singles.flatMap(rowsOf), roundSingles)
  const chosen = choices({ prompts, singles, before: parts.length, ones: ones.length, isAlone })
  const shares = [...prompts, ...singles]
  const needs = shares.flatMap(({ job, choice }) => (choice === undefined ? [] : [job.request.needs]))
  const apart = parts.length + ones.length === 1 ? 1 : ones.length
  return {
    step: { rows: [...parts, ...ones], apart, chosen, output: chosen.length === 0 ? { kind: 'none' } : outputFor(needs) },
    shares,
  }
}

/** The shape of a step that reads so many tokens of a prompt (0: of none, 1: its only one) while others go on, all with the same needs. */
export function sharedShape(count: number, beside: number, needs: SamplerNeeds): StepShape {
  const singles = roundSingles(beside + (count === 1 ? 1 : 0))
  const prompts = count > 1 ? roundRows(count) : 0
  const chosen = prompts > 0 ? roundSingles(singles + 1) : singles
  return { rows: prompts + singles, apart: singles, chosen, output: outputFor([needs]) }
}

/** Whether steps of these jobs can go on by themselves: each has one token to compute, and the device chooses the next. */
export function flows(jobs: readonly Job[]): boolean {
  return jobs.every(({ todo, request }) => todo.length === 1 && choosesOnDevice(request.needs))
}

interface Parts {
  readonly prompts: readonly Share[]
  readonly singles: readonly Share[]
  /** rows before the singles, and those of the singles, fillers included */
  readonly before: number
  readonly ones: number
  readonly isAlone: boolean
}

/** The rows of which something is chosen; tells each share which is its own. */
function choices({ prompts, singles, before, ones, isAlone }: Parts): Step['chosen'] {
  const chosen: { row: number; rule: ReturnType<typeof ruleOf> }[] = []
  const choose = (share: Share, row: number): void => {
    share.choice = chosen.length
    chosen.push({ row, rule: ruleOf(share.job.request.needs) })
  }
  singles.forEach((share, i) => choose(share, before + i))
  const filler = { row: before, rule: undefined }
  while (singles.length > 0 && chosen.length < ones) chosen.push(filler)
  let row = 0
  for (const share of prompts) {
    row += share.count
    if (share.count === share.job.todo.length) choose(share, row - 1)
  }
  if (!isAlone && before > 0) while (chosen.length > 0 && chosen.length < roundSingles(chosen.length)) chosen.push({ ...filler, row: 0 })
  return chosen
}

function rowsOf({ job, count }: Share): Row[] {
  const { sequence, slot, todo } = job
  return todo.slice(0, count).map((token, i) => ({ token, position: sequence.length + i, slot }))
}

function fill(rows: Row[], round: (count: number) => number): Row[] {
  const wanted = round(rows.length)
  return [...rows, ...Array.from({ length: wanted - rows.length }, () => FILLER)]
}

/** Rows of prompts: sixteen, or a multiple of 32. */
function roundRows(count: number): number {
  return count === 0 ? 0 : count <= 16 ? 16 : 32 * Math.ceil(count / 32)
}

/** Rows of sequences that go on one by one: a power of two. */
function roundSingles(count: number): number {
  return count === 0 ? 0 : 2 ** Math.ceil(Math.log2(count))
}
