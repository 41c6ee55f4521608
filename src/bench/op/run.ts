// A whole bench of operations on one device: opens Ingot and the peers, and measures line after line. Gives a report; prints nothing.

import type { ContenderInfo } from '../contender.ts'
import { describeMachine, measureOtherLoad, watchOtherLoad } from '../machine.ts'
import type { OpContender } from './contenders.ts'
import { type OpEffort, type OpRunning, measureLine } from './measure.ts'
import type { Limits } from './protocol.ts'
import type { OpContenderReport, OpMeasure, OpReport } from './report.ts'
import { OP_LINES, type OpLine } from './workload.ts'

export interface OpBenchOptions {
  readonly effort: OpEffort
  readonly device?: string
  /** of every contender that can be told */
  readonly threads?: number
  /** others than usual, for tests */
  readonly lines?: readonly OpLine[]
  readonly onProgress?: (what: string, done: number, total: number) => void
  readonly signal?: AbortSignal
}

const OTHER_LOAD_MS = 200 // of watching what else the machine does

export async function runOpBench(contenders: readonly OpContender[], options: OpBenchOptions): Promise<OpReport> {
  const { effort, device, threads, lines = OP_LINES, signal } = options
  const progress = (what: string, done: number, total: number): void => {
    signal?.throwIfAborted()
    options.onProgress?.(what, done, total)
  }
  const loads = [await measureOtherLoad(OTHER_LOAD_MS)]
  const running = contenders.map((contender) => contender.start(signal))
  try {
    const own = threads === undefined ? {} : { threads }
    const infos: ContenderInfo[] = []
    for (const [i, each] of running.entries()) {
      progress(`opening ${each.name}`, i, running.length)
      infos.push((await each.ask('open', i === 0 && device !== undefined ? { device, ...own } : own)).info)
    }
    const measures: OpMeasure[] = []
    const limits: Limits[] = []
    for (const line of lines.filter(({ quick }) => quick || effort.all)) {
      const otherLoad = watchOtherLoad(() => running.reduce((sum, { cpuMs }) => sum + cpuMs, 0))
      const found = await measureOne(running, line, effort, progress)
      loads.push(otherLoad())
      limits.push(...found.limits)
      measures.push(found.measure)
    }
    const reports: OpContenderReport[] = []
    for (const [i, each] of running.entries()) {
      const info = infos[i]
      const { cpuMs, ms } = each.idle
      if (info !== undefined) reports.push({ ...info, idle: { cpuMs, ms }, ran: (await each.ask('ran', {})).detail })
    }
    const busy = Math.max(...loads, await measureOtherLoad(OTHER_LOAD_MS))
    return { kind: 'ops', date: new Date().toISOString(), machine: describeMachine(), busy, contenders: reports, measures, limits }
  } finally {
    await Promise.all(running.map((each) => each.close()))
  }
}

async function measureOne(
  running: readonly OpRunning[],
  line: OpLine,
  effort: OpEffort,
  progress: (what: string, done: number, total: number) => void,
): Promise<{ measure: OpMeasure; limits: readonly Limits[] }> {
  const total = effort.samples * running.length
  let done = 0
  progress(line.name, done, total)
  const tick = (): void => progress(line.name, ++done, total)
  const { contenders, ofReads, ofPeak, limits } = await measureLine(running, line, effort, tick)
  const [ours, ...others] = contenders
  const peers = others.flatMap((samples, i) => {
    const name = running[i + 1]?.name
    return samples === undefined || name === undefined ? [] : [{ name, ...samples }]
  })
  const { name, bytes, operations, count } = line
  const measure = {
    name,
    unit: 'us',
    bytes,
    operations,
    count,
    ours: ours?.us ?? [],
    way: ours?.way ?? '',
    ofReads,
    ofPeak,
    peers,
  } as const
  return { measure, limits }
}
