// What a bench of operations found on one device, as data and as a table for people.

import type { ContenderInfo, Idle } from '../contender.ts'
import type { Machine } from '../machine.ts'
import { type ReportedComparison, alignColumns, compareSamples, showSamples, showWarnings } from '../report.ts'
import { median, summarize } from '../statistics.ts'
import type { Limits } from './protocol.ts'
import type { OpSamples } from './measure.ts'

export interface OpContenderReport extends ContenderInfo {
  /** CPU time while it waited */
  readonly idle: Idle
  /** how its work ran, as it says afterwards */
  readonly ran: string
}

export interface OpPeerSamples extends OpSamples {
  readonly name: string
}

export interface OpMeasure {
  readonly name: string
  readonly unit: 'us'
  /** of one run: what it must move and do at least; 0 where that says nothing */
  readonly bytes: number
  readonly operations: number
  /** operations of a run: samples are of one */
  readonly count: number
  /** samples, in the order they were taken */
  readonly ours: readonly number[]
  readonly way: string
  /** shares of what the device reads and computes at most */
  readonly ofReads: number
  readonly ofPeak: number
  /** those that have the operation */
  readonly peers: readonly OpPeerSamples[]
}

/** Histories keep it: whoever renames a field lets history.ts read the old name, too. */
export interface OpReport {
  readonly kind: 'ops'
  readonly date: string
  readonly machine: Machine
  /** the largest share of all cores that other programs used before, after and while samples were taken */
  readonly busy: number
  /** Ingot, then the peers */
  readonly contenders: readonly OpContenderReport[]
  readonly measures: readonly OpMeasure[]
  /** of the device, in the order they were taken */
  readonly limits: readonly Limits[]
}

/** Ingot's speed over a peer's: above 1 is faster. */
export interface OpComparison {
  readonly name: string
  readonly ratio: number
  readonly verdict: ReportedComparison['verdict']
}

export function comparePeers({ unit, ours, peers }: OpMeasure, busy: number): OpComparison[] {
  return peers.map(({ name, us }) => {
    const { ratio, verdict } = compareSamples(unit, ours, us, busy)
    return { name, ratio: 1 / ratio, verdict }
  })
}

/** The comparison with the peer that is fastest at it. */
export function bestPeer(measure: OpMeasure, busy: number): OpComparison | undefined {
  return comparePeers(measure, busy).toSorted((a, b) => a.ratio - b.ratio)[0]
}

/** The report with every median, ratio and verdict besides the samples. */
export function opsToJson(report: OpReport): object {
  const measures = report.measures.map((measure) => {
    const compared = new Map(comparePeers(measure, report.busy).map((each) => [each.name, each]))
    const peers = measure.peers.map((peer) => ({ ...peer, median: summarize(peer.us).median, ...compared.get(peer.name) }))
    return { ...measure, median: summarize(measure.ours).median, peers }
  })
  return { ...report, measures }
}

export function showOpReport(report: OpReport): string {
  const { machine, contenders, limits } = report
  const lines = [
    `${machine.cpu}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`,
    ...contenders.map(({ name, version, device, ran }) => `${name} ${version} on ${device} (${ran})`),
    `the device reads ${range(limits.map(({ read }) => read))} GB/s, and does ${range(limits.map(({ peak }) => peak))} G f32 ops/s`,
    '',
    ...showTable(report),
    '',
    ...showStanding(report),
    ...showWarnings(contenders, report.busy),
  ]
  return `${lines.join('\n')}\n`
}

function showTable({ contenders, measures, busy }: OpReport): string[] {
  const [, ...peers] = contenders
  const head = ['', 'ingot', 'way', 'GB/s', 'of reads', 'G ops/s', 'of peak', ...peers.flatMap(({ name }) => [name, 'ratio'])]
  const rows = measures.map((measure) => {
    const { name, unit, ours, way, bytes, operations, ofReads, ofPeak } = measure
    const seconds = summarize(ours).median * 1e-6
    const compared = new Map(comparePeers(measure, busy).map((each) => [each.name, each]))
    return [
      name,
      showSamples(ours, unit),
      way,
      ...(bytes === 0 ? ['', ''] : [giga(bytes / seconds), percent(ofReads)]),
      ...(operations === 0 ? ['', ''] : [giga(operations / seconds), percent(ofPeak)]),
      ...peers.flatMap((peer) => {
        const samples = measure.peers.find((each) => each.name === peer.name)
        return samples === undefined ? ['-', ''] : [showSamples(samples.us, unit), compared.get(peer.name)?.ratio.toFixed(2) ?? '']
      }),
    ]
  })
  return alignColumns([head, ...rows], [0, 2])
}

/** On how many lines Ingot is ahead of every peer, and where it is behind. */
function showStanding({ contenders, measures, busy }: OpReport): string[] {
  if (contenders.length < 2) return []
  const best = measures.flatMap((measure) => {
    const found = bestPeer(measure, busy)
    return found === undefined ? [] : [{ line: measure.name, ...found }]
  })
  const ahead = best.filter(({ ratio }) => ratio > 1)
  const behind = best.filter(({ ratio }) => ratio <= 1)
  return [
    `ratio: Ingot's speed over the peer's; ahead of all of them on ${ahead.length} of ${best.length} lines`,
    ...behind.map(
      ({ line, name, ratio, verdict }) => `behind ${name}: ${line}, ${ratio.toFixed(2)}${verdict === 'worse' ? '' : ` (${verdict})`}`,
    ),
  ]
}

function range(values: readonly number[]): string {
  return `${giga(median(values))} (${giga(Math.min(...values))} to ${giga(Math.max(...values))})`
}

function giga(value: number): string {
  const scaled = value / 1e9
  return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`
}
