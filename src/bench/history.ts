// Reports kept in a file of JSON lines, and what changed between the last two of a model, or of the operations, on a machine. Keeps
// Ingot's own numbers; the peers' are in the same record, for the ratio at the time.

import { appendFile, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { IngotError } from '../base/error.ts'
import { type OpMeasure, type OpReport, bestPeer } from './op/report.ts'
import { type Measure, type Report, alignColumns, compareSamples, compareWithPeer, showSamples } from './report.ts'

interface Label {
  readonly title?: string
  readonly comment?: string
}
export type HistoryEntry = (Report | OpReport) & Label

/** Fields by the names that they were first saved under. */
interface OldNames {
  readonly sides?: Report['contenders']
  readonly left?: Report['leftOut']
}

export async function saveReport(path: string, report: Report | OpReport, label: Label): Promise<void> {
  // A path of this machine is nobody else's business: the name of the file is enough to tell models apart.
  const shared = 'model' in report ? { ...report, model: { ...report.model, path: basename(report.model.path) } } : report
  const entry: HistoryEntry = { ...label, ...shared }
  await appendFile(path, `${JSON.stringify(entry)}\n`)
}

export async function readEntries(path: string): Promise<HistoryEntry[]> {
  const lines = (await readFile(path, 'utf8')).split('\n')
  return lines.flatMap((line, i) => (line.trim() === '' ? [] : [parseEntry(line, `${path}:${i + 1}`)]))
}

function parseEntry(line: string, where: string): HistoryEntry {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch (cause) {
    throw new IngotError('bad-file', 'not a line of JSON', { op: 'bench', got: where, cause })
  }
  const { sides, left = [], ...entry } = (parsed ?? {}) as Partial<Report> & Partial<Pick<OpReport, 'kind'>> & OldNames
  const { contenders = sides, leftOut = left, measures, model, machine, kind } = entry
  // The fields that tell a saved bench from other JSON are there; saveReport wrote the rest.
  if (kind === 'ops' && Array.isArray(measures) && Array.isArray(contenders) && machine !== undefined) return parsed as HistoryEntry
  if (!Array.isArray(measures) || !Array.isArray(contenders) || model === undefined || machine === undefined)
    throw new IngotError('bad-file', 'not a saved bench', { op: 'bench', got: where })
  return { ...entry, contenders, leftOut } as HistoryEntry
}

/** Before and after, for everything that was measured at least once. */
export function showHistory(entries: readonly HistoryEntry[]): string {
  const groups = new Map<string, HistoryEntry[]>()
  for (const entry of entries) groups.set(keyOf(entry), [...(groups.get(keyOf(entry)) ?? []), entry])
  return [...groups.values()].map(showGroup).join('\n')
}

/** Only what ran the same work on the same kind of machine and device can be compared; operations, also as the same kind of code. */
function keyOf(entry: HistoryEntry): string {
  const { machine, contenders } = entry
  const subject = 'model' in entry ? [entry.model.path, entry.model.bytes] : [entry.kind, contenders[0]?.detail]
  return JSON.stringify([...subject, machine.cpu, machine.cores, contenders[0]?.device])
}

function showGroup(group: readonly HistoryEntry[]): string {
  const after = group.at(-1)
  if (after === undefined) return ''
  const before = group.at(-2)
  const { device = 'unknown', detail = '' } = after.contenders[0] ?? {}
  const subject = 'model' in after ? `${after.model.path} on ${device}` : `operations on ${device} (${detail})`
  const rows = after.measures.map((measure) => rowOf(measure, after, before))
  const lines = [
    `${subject}: ${group.length} bench${group.length === 1 ? '' : 'es'}; ${after.machine.cpu}`,
    ...(before === undefined ? [] : [`before: ${labelOf(before)}`]),
    `after: ${labelOf(after)}`,
    '',
    ...alignColumns([['', 'before', 'after', 'change', ''], ...rows]),
  ]
  return `${lines.join('\n')}\n`
}

function rowOf(measure: Measure | OpMeasure, after: HistoryEntry, before: HistoryEntry | undefined): string[] {
  const old = before?.measures.find(({ name }) => name === measure.name)
  const cells = [measure.name, old === undefined ? '' : showSamples(old.ours, measure.unit), showSamples(measure.ours, measure.unit)]
  const againstPeer = showPeer(measure, after.busy)
  if (before === undefined || old === undefined) return [...cells, '', againstPeer]
  const { ratio, verdict } = compareSamples(measure.unit, measure.ours, old.ours, Math.max(before.busy, after.busy))
  return [...cells, ratio.toFixed(2), [verdict, againstPeer].filter((text) => text !== '').join('; ')]
}

/** How Ingot stood to the peer, or to the best of several. */
function showPeer(measure: Measure | OpMeasure, busy: number): string {
  if ('peers' in measure) {
    const best = bestPeer(measure, busy)
    return best === undefined ? '' : `${best.ratio.toFixed(2)} of the speed of ${best.name}`
  }
  const peer = compareWithPeer(measure, busy)
  return peer === undefined ? '' : `${peer.ratio.toFixed(2)} of the peer's`
}

function labelOf({ date, title, comment }: HistoryEntry): string {
  return [date.slice(0, 16).replace('T', ' '), title, comment].filter((text) => text !== undefined).join(', ')
}
