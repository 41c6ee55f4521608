// What a bench found, as data and as a table for people. A difference that the noise could have made is called none.

import { basename } from 'node:path'
import { printableLine } from '../base/printable.ts'
import type { ContenderInfo, Idle, Settings } from './contender.ts'
import type { Machine } from './machine.ts'
import { type Comparison, compare, summarize } from './statistics.ts'

export type Unit = 'tok/s' | 'ms' | 'us' | 'bytes'

export interface Measure {
  readonly name: string
  readonly unit: Unit
  /** samples, in the order they were taken */
  readonly ours: readonly number[]
  readonly peer?: readonly number[]
}

export interface ContenderReport extends ContenderInfo {
  /** the best of those tried, by kind of work */
  readonly settings: { readonly prefill?: Settings; readonly decode?: Settings; readonly parallel?: Settings }
  /** CPU time while it waited */
  readonly idle: Idle
}

/** Histories keep it: whoever renames a field lets history.ts read the old name, too. */
export interface Report {
  readonly date: string
  readonly machine: Machine
  /** the largest share of all cores that other programs used before, after and while samples were taken */
  readonly busy: number
  readonly model: { readonly path: string; readonly name: string; readonly bytes: number; readonly trainedContext: number }
  readonly seed: number
  readonly context: number
  /** Ingot, then the peer if there is one */
  readonly contenders: readonly ContenderReport[]
  readonly measures: readonly Measure[]
  /** of the greedy tokens at the least context: a hash, and how many of the first ones the peer chose too */
  readonly output: { readonly hash: string; readonly agree?: number; readonly of?: number }
  /** names of workloads that do not fit the context */
  readonly leftOut: readonly string[]
}

/** With this share of the machine in use by others, threads that wait for each other wait long, and not all contenders alike. */
const BUSY = 0.1

export interface ReportedComparison extends Omit<Comparison, 'verdict'> {
  readonly verdict: Comparison['verdict'] | 'machine busy'
}

/** More tokens per second are better; less time and memory are. On a busy machine nothing is. */
export function compareSamples(unit: Unit, first: readonly number[], second: readonly number[], busy: number): ReportedComparison {
  const comparison = compare(first, second, unit === 'tok/s' ? 'more' : 'less')
  return busy > BUSY && unit !== 'bytes' ? { ...comparison, verdict: 'machine busy' } : comparison
}

export function compareWithPeer({ unit, ours, peer }: Measure, busy: number): ReportedComparison | undefined {
  return peer === undefined ? undefined : compareSamples(unit, ours, peer, busy)
}

/** The report with every median, ratio and verdict besides the samples. */
export function toJson(report: Report): object {
  const measures = report.measures.map((measure) => {
    const median = { ours: summarize(measure.ours).median, ...(measure.peer === undefined ? {} : { peer: summarize(measure.peer).median }) }
    const found = compareWithPeer(measure, report.busy)
    // JSON has no Infinity: noise that is not known is null.
    return { ...measure, median, ...found, ...(found === undefined || Number.isFinite(found.noise) ? {} : { noise: null }) }
  })
  return { ...report, measures }
}

/** A contender that used this share of a core while it waited disturbed the other one. */
const IDLE_SHARE = 0.05
const LEAST_IDLE_MS = 1000 // of less waiting, a garbage collection would be a large share

export function showReport(report: Report): string {
  const { model, machine, contenders } = report
  const lines = [
    `${basename(model.path)}: ${printableLine(model.name)}, ${showSize(model.bytes)}; ` +
      `random tokens of seed ${report.seed}, context ${report.context}`,
    `${machine.cpu}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`,
    ...contenders.map(showContender),
    '',
    ...showTable(report),
    '',
    ...showNotes(report),
  ]
  return `${lines.join('\n')}\n`
}

function showTable({ contenders, measures, busy }: Report): string[] {
  const hasPeer = contenders.length > 1
  const head = ['', ...contenders.map(({ name }) => name), ...(hasPeer ? ['ratio', ''] : [])]
  const rows = measures.map((measure) => {
    const cells = [measure.name, showSamples(measure.ours, measure.unit)]
    if (!hasPeer) return cells
    const found = compareWithPeer(measure, busy)
    const peer = measure.peer === undefined ? '' : showSamples(measure.peer, measure.unit)
    return [...cells, peer, found?.ratio.toFixed(2) ?? '', wordFor(measure.unit, found)]
  })
  return alignColumns([head, ...rows])
}

/** What to know besides the table: whether the outputs agree, what was not measured, and what to distrust. */
function showNotes({ model, contenders, output, leftOut, busy }: Report): string[] {
  const agreement = output.agree === undefined ? '' : `; the first ${output.agree} of ${output.of} tokens are the same for both`
  const notes = [`output ${output.hash}${agreement}`]
  if (leftOut.length > 0)
    notes.push(`left out, because the context of the model is ${model.trainedContext}: ${leftOut.join(', ')} (--ctx allows more)`)
  return [...notes, ...showWarnings(contenders, busy)]
}

/** What to distrust. */
export function showWarnings(contenders: readonly Pick<ContenderReport, 'name' | 'idle'>[], busy: number): string[] {
  const warnings = []
  for (const { name, idle } of contenders.length > 1 ? contenders : []) {
    if (idle.ms > LEAST_IDLE_MS && idle.cpuMs > IDLE_SHARE * idle.ms)
      warnings.push(`warning: ${name} used ${percent(idle.cpuMs / idle.ms)} of a core while it waited, which slows the other one`)
  }
  if (busy > BUSY)
    warnings.push(`warning: other programs used ${percent(busy)} of the machine, so no difference counts; measure again when it is quiet`)
  return warnings
}

function showContender({ name, version, device, detail, settings: { prefill, decode } }: ContenderReport): string {
  const [first, second] = [showSettings(prefill), showSettings(decode)]
  const how = first === second || second === '' ? first : first === '' ? second : `prefill ${first}; decode ${second}`
  return `${name} ${version} on ${device} (${detail})${how === '' ? '' : `: ${how}`}`
}

function showSettings(settings: Settings = {}): string {
  const { threads, chunk, batch, flash } = settings
  return [
    threads === undefined ? '' : `${threads} thread${threads === 1 ? '' : 's'}`,
    chunk === undefined ? '' : `chunk ${chunk}`,
    batch === undefined ? '' : `batch ${batch}`,
    flash === undefined ? '' : `flash attention ${flash ? 'on' : 'off'}`,
  ]
    .filter((text) => text !== '')
    .join(', ')
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function wordFor(unit: Unit, found: ReportedComparison | undefined): string {
  if (found === undefined) return ''
  if (found.verdict === 'same within noise') return Number.isFinite(found.noise) ? found.verdict : 'too few samples to tell'
  if (found.verdict === 'machine busy') return found.verdict
  const [better, worse] = unit === 'bytes' ? ['smaller', 'larger'] : ['faster', 'slower']
  return found.verdict === 'better' ? better : worse
}

/** `107 tok/s ±2 %` */
export function showSamples(samples: readonly number[], unit: Unit): string {
  const { median, noise } = summarize(samples)
  const spread = Number.isFinite(noise) ? ` ±${percent(noise)}` : ''
  return `${showValue(median, unit)}${spread}`
}

function showValue(value: number, unit: Unit): string {
  if (unit === 'bytes') return showSize(value)
  if (unit === 'us' && value >= 1000) return showValue(value / 1000, 'ms')
  return unit === 'ms' && value >= 10_000
    ? `${(value / 1000).toFixed(1)} s`
    : `${value >= 100 ? Math.round(value) : value.toPrecision(3)} ${unit}`
}

function showSize(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toPrecision(3)} MB`
}

/** Columns as wide as their widest cell; numbers to the right, words to the left: the first column, and what stands at the end. */
export function alignColumns(rows: readonly (readonly string[])[], left: readonly number[] = [0, 4]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const pad = (cell: string, column: number): string => {
    const width = widths[column] ?? 0
    return left.includes(column) ? cell.padEnd(width) : cell.padStart(width)
  }
  return rows.map((row) => row.map(pad).join('  ').trimEnd())
}
