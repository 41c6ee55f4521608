// What a bench found, as data and as a table for people. A difference that the noise could have made is called none.

import { basename } from 'node:path'
import type { Machine } from './machine.ts'
import type { Idle, Settings, SideInfo } from './side.ts'
import { type Comparison, compare, summarize } from './statistics.ts'

export interface Measure {
  readonly name: string
  readonly unit: 'tok/s' | 'ms' | 'bytes'
  /** samples, in the order they were taken */
  readonly ours: readonly number[]
  readonly peer?: readonly number[]
}

export interface SideReport extends SideInfo {
  /** the best of those tried, by kind of work */
  readonly settings: { readonly prefill?: Settings; readonly decode?: Settings }
  /** CPU time while it waited */
  readonly idle: Idle
}

export interface Report {
  readonly date: string
  readonly machine: Machine
  /** the largest share of all cores that other programs used before, after and while samples were taken */
  readonly busy: number
  readonly model: { readonly path: string; readonly name: string; readonly bytes: number; readonly trainedContext: number }
  readonly seed: number
  readonly context: number
  readonly sides: readonly SideReport[]
  readonly measures: readonly Measure[]
  /** of the greedy tokens at the least context: a hash, and how many of the first ones the peer chose too */
  readonly output: { readonly hash: string; readonly agree?: number; readonly of?: number }
  /** workloads that do not fit the context */
  readonly left: readonly string[]
}

/** With this share of the machine in use by others, threads that wait for each other wait long, and not on both sides alike. */
const BUSY = 0.1

export interface Finding extends Omit<Comparison, 'verdict'> {
  readonly verdict: Comparison['verdict'] | 'machine busy'
}

/** More tokens per second are better; less time and memory are. On a busy machine nothing is. */
export function findDifference(unit: Measure['unit'], first: readonly number[], second: readonly number[], busy: number): Finding {
  const found = compare(first, second, unit === 'tok/s' ? 'more' : 'less')
  return busy > BUSY && unit !== 'bytes' ? { ...found, verdict: 'machine busy' } : found
}

export function findAgainstPeer({ unit, ours, peer }: Measure, busy: number): Finding | undefined {
  return peer === undefined ? undefined : findDifference(unit, ours, peer, busy)
}

/** The report with every median, ratio and verdict besides the samples. */
export function toJson(report: Report): object {
  const measures = report.measures.map((measure) => {
    const median = { ours: summarize(measure.ours).median, ...(measure.peer === undefined ? {} : { peer: summarize(measure.peer).median }) }
    const found = findAgainstPeer(measure, report.busy)
    // JSON has no Infinity: noise that is not known is null.
    return { ...measure, median, ...found, ...(found === undefined || Number.isFinite(found.noise) ? {} : { noise: null }) }
  })
  return { ...report, measures }
}

/** A side that used this share of a core while it waited disturbed the other one. */
const RESTLESS = 0.05
const TOO_SHORT = 1000 // milliseconds of waiting, of which a garbage collection would be a large share

export function showReport(report: Report): string {
  const { model, machine, sides, measures, output, left } = report
  const [, peer] = sides
  const head = ['', ...sides.map(({ name }) => name), ...(peer === undefined ? [] : ['ratio', ''])]
  const rows = measures.map((measure) => {
    const cells = [measure.name, showSamples(measure.ours, measure.unit)]
    if (peer === undefined) return cells
    const found = findAgainstPeer(measure, report.busy)
    return [
      ...cells,
      measure.peer === undefined ? '' : showSamples(measure.peer, measure.unit),
      found?.ratio.toFixed(2) ?? '',
      wordFor(measure.unit, found),
    ]
  })
  const lines = [
    `${basename(model.path)}: ${model.name}, ${showSize(model.bytes)}; random tokens of seed ${report.seed}, context ${report.context}`,
    `${machine.cpu}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`,
    ...sides.map(showSide),
    '',
    ...align([head, ...rows]),
    '',
    `output ${output.hash}${output.agree === undefined ? '' : `; the first ${output.agree} of ${output.of} tokens are the same on both sides`}`,
  ]
  if (left.length > 0)
    lines.push(`left out, because the context of the model is ${model.trainedContext}: ${left.join(', ')} (--ctx allows more)`)
  for (const {
    name,
    idle: { cpuMs, ms },
  } of peer === undefined ? [] : sides) {
    if (ms > TOO_SHORT && cpuMs > RESTLESS * ms)
      lines.push(`warning: ${name} used ${percent(cpuMs / ms)} of a core while it waited, which slows the other side`)
  }
  if (report.busy > BUSY)
    lines.push(
      `warning: other programs used ${percent(report.busy)} of the machine, so no difference counts; measure again when it is quiet`,
    )
  return `${lines.join('\n')}\n`
}

function showSide({ name, version, device, detail, settings: { prefill, decode } }: SideReport): string {
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
    .filter((part) => part !== '')
    .join(', ')
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function wordFor(unit: Measure['unit'], found: Finding | undefined): string {
  if (found === undefined) return ''
  if (found.verdict === 'same within noise') return Number.isFinite(found.noise) ? found.verdict : 'too few samples to tell'
  if (found.verdict === 'machine busy') return found.verdict
  const [better, worse] = unit === 'bytes' ? ['smaller', 'larger'] : ['faster', 'slower']
  return found.verdict === 'better' ? better : worse
}

/** `107 tok/s ±2 %` */
export function showSamples(samples: readonly number[], unit: Measure['unit']): string {
  const { median, noise } = summarize(samples)
  const spread = Number.isFinite(noise) ? ` ±${percent(noise)}` : ''
  return `${showValue(median, unit)}${spread}`
}

export function showValue(value: number, unit: Measure['unit']): string {
  if (unit === 'bytes') return showSize(value)
  return unit === 'ms' && value >= 10_000
    ? `${(value / 1000).toFixed(1)} s`
    : `${value >= 100 ? Math.round(value) : value.toPrecision(3)} ${unit}`
}

function showSize(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toPrecision(3)} MB`
}

/** Columns as wide as their widest cell; the first to the left, numbers to the right, words at the end to the left. */
export function align(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const pad = (cell: string, column: number): string => {
    const width = widths[column] ?? 0
    return column === 0 || column === 4 ? cell.padEnd(width) : cell.padStart(width)
  }
  return rows.map((row) => row.map(pad).join('  ').trimEnd())
}
