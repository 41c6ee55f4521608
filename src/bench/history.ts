// Benches kept in a file of JSON lines, and what changed between the last two of a model on a machine. Keeps Ingot's own numbers;
// the peer's are in the same record, for the ratio at the time.

import { appendFile, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { IngotError } from '../base/error.ts'
import { type Measure, type Report, align, findAgainstPeer, findDifference, showSamples } from './report.ts'

export interface HistoryEntry extends Report {
  readonly title?: string
  readonly comment?: string
}

export async function saveReport(
  path: string,
  report: Report,
  label: { readonly title?: string; readonly comment?: string },
): Promise<void> {
  // A path of this machine is nobody else's business: the name of the file is enough to tell models apart.
  const entry: HistoryEntry = { ...label, ...report, model: { ...report.model, path: basename(report.model.path) } }
  await appendFile(path, `${JSON.stringify(entry)}\n`)
}

export async function readEntries(path: string): Promise<HistoryEntry[]> {
  const lines = (await readFile(path, 'utf8')).split('\n')
  return lines.flatMap((line, i) => (line.trim() === '' ? [] : [parseEntry(line, `${path}:${i + 1}`)]))
}

function parseEntry(line: string, where: string): HistoryEntry {
  let found: unknown
  try {
    found = JSON.parse(line)
  } catch (cause) {
    throw new IngotError('bad-file', 'not a line of JSON', { op: 'bench', got: where, cause })
  }
  const entry = found as Partial<HistoryEntry> | null
  if (
    typeof entry !== 'object' ||
    !Array.isArray(entry?.measures) ||
    !Array.isArray(entry.sides) ||
    entry.model === undefined ||
    entry.machine === undefined
  ) {
    throw new IngotError('bad-file', 'not a saved bench', { op: 'bench', got: where })
  }
  return entry as HistoryEntry
}

/** Before and after, for every model that was measured at least once. */
export function showHistory(entries: readonly HistoryEntry[]): string {
  const groups = new Map<string, HistoryEntry[]>()
  for (const entry of entries) groups.set(keyOf(entry), [...(groups.get(keyOf(entry)) ?? []), entry])
  return [...groups.values()].map(showGroup).join('\n')
}

/** Only what ran the same model on the same kind of machine and device can be compared. */
function keyOf({ model, machine, sides }: HistoryEntry): string {
  return JSON.stringify([model.path, model.bytes, machine.cpu, machine.cores, sides[0]?.device])
}

function showGroup(group: readonly HistoryEntry[]): string {
  const after = group.at(-1)
  if (after === undefined) return ''
  const before = group.at(-2)
  const lines = [
    `${after.model.path} on ${after.sides[0]?.device ?? 'unknown'}: ${group.length} bench${group.length === 1 ? '' : 'es'}; ${after.machine.cpu}`,
    ...(before === undefined ? [] : [`before: ${labelOf(before)}`]),
    `after: ${labelOf(after)}`,
    '',
    ...align([['', 'before', 'after', 'change', ''], ...after.measures.map((measure) => rowOf(measure, after, before))]),
  ]
  return `${lines.join('\n')}\n`
}

function rowOf(measure: Measure, after: HistoryEntry, before: HistoryEntry | undefined): string[] {
  const old = before?.measures.find(({ name }) => name === measure.name)
  const cells = [measure.name, old === undefined ? '' : showSamples(old.ours, measure.unit), showSamples(measure.ours, measure.unit)]
  const peer = findAgainstPeer(measure, after.busy)
  const against = peer === undefined ? '' : `${peer.ratio.toFixed(2)} of the peer's`
  if (before === undefined || old === undefined) return [...cells, '', against]
  const { ratio, verdict } = findDifference(measure.unit, measure.ours, old.ours, Math.max(before.busy, after.busy))
  return [...cells, ratio.toFixed(2), [verdict, against].filter((part) => part !== '').join('; ')]
}

function labelOf({ date, title, comment }: HistoryEntry): string {
  return [date.slice(0, 16).replace('T', ' '), title, comment].filter((part) => part !== undefined).join(', ')
}
