// Times one operation for all contenders: finds the fastest way of each, then takes samples in turns, A, B, A, B, with the limits of the
// machine between them.

import { IngotError } from '../../base/error.ts'
import type { RunningContender } from '../contender.ts'
import { median } from '../statistics.ts'
import { COMPILED, type Limits, type OpProtocol } from './protocol.ts'
import type { OpLine } from './workload.ts'

export type OpRunning = RunningContender<OpProtocol>

export interface OpEffort {
  /** of each operation and contender */
  readonly samples: number
  /** a sample takes at least this long; short work is repeated within it */
  readonly sampleMs: number
  /** each way is run for this long before anything is measured, or WARM_RUNS times: engines compile what runs often */
  readonly warmMs: number
  /** no more samples of an operation after this long, once there are 3 */
  readonly lineMs: number
  /** all operations, or those of --quick */
  readonly all: boolean
}

export const FULL_OPS: OpEffort = { samples: 9, sampleMs: 40, warmMs: 500, lineMs: 30_000, all: true }
export const QUICK_OPS: OpEffort = { samples: 3, sampleMs: 10, warmMs: 50, lineMs: 5000, all: false }
const LEAST_SAMPLES = 3 // where time runs out

/** What a contender did with an operation. */
export interface OpSamples {
  /** the fastest of those it has */
  readonly way: string
  /** microseconds of one operation, in the order they were taken */
  readonly us: readonly number[]
}

export interface MeasuredLine {
  /** in the order of the contenders; undefined: it has no such operation */
  readonly contenders: readonly (OpSamples | undefined)[]
  /** shares of the limits that Ingot reached: medians of every sample's against the limits around it */
  readonly ofReads: number
  readonly ofPeak: number
  readonly limits: readonly Limits[]
}

export async function measureLine(
  [ingot, ...peers]: readonly OpRunning[],
  line: OpLine,
  effort: OpEffort,
  tick: () => void = () => {},
): Promise<MeasuredLine> {
  if (ingot === undefined) throw new TypeError('nobody to measure')
  const begun = performance.now()
  const entrants: Entrant[] = []
  const expected = await ingot.ask('prepare', { work: line.work })
  entrants.push({ running: ingot, pace: await findPace(ingot, line, expected.ways, effort), us: [] })
  for (const peer of peers) {
    const { ways, values } = await peer.ask('prepare', { work: line.work })
    if (ways.length > 0) checkValues(peer.name, line.name, expected.values, values)
    entrants.push({ running: peer, pace: await findPace(peer, line, ways, effort), us: [] })
  }
  const limits = [await ingot.ask('limits', {})]
  for (let round = 0; round < effort.samples; round++) {
    for (const { running, pace, us } of entrants) {
      if (pace !== undefined) us.push(await sampleOf(running, line, pace.way, pace.repeats))
      tick()
    }
    limits.push(await ingot.ask('limits', {}))
    if (round + 1 >= LEAST_SAMPLES && performance.now() - begun > effort.lineMs) break
  }
  const ours = entrants[0]?.us ?? []
  const share = (amount: number, limit: keyof Limits): number =>
    median(ours.map((us, i) => amount / (us * 1e-6) / (((limits[i]?.[limit] ?? NaN) + (limits[i + 1]?.[limit] ?? NaN)) / 2)))
  return {
    contenders: entrants.map(({ pace, us }) => pace && { way: pace.way, us }),
    ofReads: share(line.bytes, 'read'),
    ofPeak: share(line.operations, 'peak'),
    limits,
  }
}

interface Pace {
  readonly way: string
  readonly repeats: number
}
interface Entrant {
  readonly running: OpRunning
  readonly pace: Pace | undefined
  readonly us: number[]
}

/** Microseconds of one operation. */
async function sampleOf(running: OpRunning, { count }: OpLine, way: string, repeats: number): Promise<number> {
  const { ms } = await running.ask('sample', { way, repeats })
  return (ms * 1000) / repeats / count
}

const WARM_RUNS = 5000
const GROWTH = 8 // of repeats, while it is not known how long they take
const PROBES = 3

/** The fastest way, and how often to run it for a sample. */
async function findPace(running: OpRunning, line: OpLine, ways: readonly string[], effort: OpEffort): Promise<Pace | undefined> {
  let best: (Pace & { readonly us: number }) | undefined
  for (const way of allowedWays(line, ways)) {
    const us = await warmUp(running, line, way, effort)
    const repeats = Math.max(1, Math.ceil((effort.sampleMs * 1000) / (us * line.count)))
    if (best === undefined || us < best.us) best = { way, repeats, us }
  }
  return best && { way: best.way, repeats: best.repeats }
}

/** Runs it until it is as fast as it gets; gives the microseconds of an operation then, the least of a few samples. */
async function warmUp(running: OpRunning, line: OpLine, way: string, { sampleMs, warmMs }: OpEffort): Promise<number> {
  let [repeats, runs, total] = [1, 0, 0]
  const last: number[] = []
  while (last.length < PROBES || (total < warmMs && runs < WARM_RUNS)) {
    const us = await sampleOf(running, line, way, repeats)
    const ms = (us * line.count * repeats) / 1000
    runs += repeats
    total += ms
    if (ms >= sampleMs / 2) last.push(us)
    else repeats = Math.min(GROWTH * repeats, Math.ceil((repeats * sampleMs) / ms))
  }
  return Math.min(...last.slice(-PROBES))
}

/** Work that is to be eager excludes plans. For what is to be planned, a contender without plans takes what it has. */
function allowedWays({ way }: OpLine, ways: readonly string[]): readonly string[] {
  if (way === undefined) return ways
  const planned = ways.filter((name) => name.startsWith(COMPILED))
  if (way === 'compiled') return planned.length > 0 ? planned : ways
  return ways.filter((name) => !planned.includes(name))
}

/** Results of f32 arithmetic in another order differ by this, as a share of the largest. */
const TOLERANCE = 1e-3

/** Who computes something else is not faster at it. */
function checkValues(name: string, line: string, expected: readonly number[], values: readonly number[]): void {
  const largest = Math.max(...expected.map(Math.abs), Number.MIN_VALUE)
  const differs = expected.findIndex((value, i) => !(Math.abs(value - (values[i] ?? NaN)) <= TOLERANCE * largest))
  if (differs >= 0 || expected.length !== values.length)
    throw new IngotError('wrong-result', `${line} is something else for ${name}`, { op: 'bench --ops', got: values, wanted: expected })
}
