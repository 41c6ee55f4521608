// Prints tables of text, and what was measured as one of them.

import type { Row } from './sample.ts'

/** A kernel below this share of both limits waits for something else than memory or arithmetic. */
const FAR = 0.5

/** Rows of cells, aligned; the first row is the head, its first cells are text and lie left. */
export function printTable(rows: readonly (readonly string[])[], left = 1): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const align = (cell: string, column: number): string => (column < left ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!))
  for (const row of rows) process.stdout.write(`${row.map(align).join('  ').trimEnd()}\n`)
}

/** Each kernel beside what the machine could do in the same moments, then those that are far from it. */
export function printRows(rows: readonly Row[]): void {
  printTable(
    [
      ['kernel', 'shape', 'time', 'noise', 'GB/s', 'of reads', 'G ops/s', 'of peak', 'kind'],
      ...rows.map(({ kernel, shape, seconds, noise, bytes, operations, ofReads, ofPeak, arithmetic }) => [
        kernel,
        shape,
        duration(seconds),
        percent(noise),
        giga(bytes / seconds),
        percent(ofReads),
        ...(operations === 0 ? ['-', '-', ''] : [giga(operations / seconds), ofPeak === undefined ? '-' : percent(ofPeak), arithmetic]),
      ]),
    ],
    2,
  )
  const far = [...new Set(rows.map(({ kernel }) => kernel))].flatMap((name) => {
    const own = rows.filter(({ kernel }) => kernel === name)
    const below = own.filter(({ ofReads, ofPeak = 0 }) => Math.max(ofReads, ofPeak) < FAR)
    return below.length === 0 ? [] : [`${name} (${below.length === own.length ? 'all' : below.map(({ shape }) => shape).join('; ')})`]
  })
  if (far.length > 0) process.stdout.write(`below ${percent(FAR)} of both limits: ${far.join(', ')}\n`)
}

export function giga(value: number): string {
  const scaled = value / 1e9
  return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)}%`
}

function duration(seconds: number): string {
  const micro = seconds * 1e6
  return micro < 1000 ? `${micro.toFixed(micro < 100 ? 1 : 0)} us` : `${(micro / 1000).toFixed(2)} ms`
}
