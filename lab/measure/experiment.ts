// An experiment: entries, measured on every device asked for and printed as one table each.

import { median } from '../../src/bench/statistics.ts'
import { openDevice, type Library } from './device.ts'
import type { Entry } from './entry.ts'
import { parseOptions } from './options.ts'
import { type Row, type Seen, Sampler } from './sample.ts'
import { giga, printRows } from './table.ts'

/** Bytes that are read as the limit of memory: several times the caches of any processor. */
const ARENA = { quick: 128 * 2 ** 20, usual: 512 * 2 ** 20 } as const

/** What run.js calls. Libraries are made of all entries, whichever are asked for, so that they need not be made again for others. */
export function experiment(entries: readonly Entry[]): (args: readonly string[], library: Library) => Promise<void> {
  return async (args, library) => {
    const { devices, threads, only, quick, rounds, json } = parseOptions(args)
    const chosen = entries.filter(({ kernel, shape, quick: usual }) =>
      only.length > 0 ? only.some((text) => `${kernel} ${shape}`.includes(text)) : usual || !quick,
    )
    const results: unknown[] = []
    for (const name of devices) {
      const device = await openDevice(name, threads, entries, library).catch(
        (error: unknown) => void process.stderr.write(`lab: ${name}: ${String(error)}\n`),
      )
      if (device === undefined) continue
      const sampler = await Sampler.open(device, quick ? ARENA.quick : ARENA.usual)
      const rows: Row[] = []
      for (const entry of chosen) {
        showProgress(`${entry.kernel} ${entry.shape}`)
        const row = await sampler.measure(entry, rounds)
        if (row !== undefined) rows.push(row)
      }
      showProgress('')
      if (json) results.push({ device: name, detail: device.detail, limits: sampler.seen, rows })
      else {
        process.stdout.write(`${name}: ${device.detail}; ${describe(sampler.seen)}\n`)
        printRows(rows)
      }
      await device.close()
    }
    if (json) process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`)
  }
}

/** The limits as they were on the whole, and between which values they varied. */
function describe(seen: readonly Seen[]): string {
  const range = (values: readonly number[]): string =>
    `${giga(median(values))} (${giga(Math.min(...values))} to ${giga(Math.max(...values))})`
  const peaks = (['i8', 'f32'] as const).flatMap((arithmetic) => {
    const values = seen.filter((each) => each.arithmetic === arithmetic).flatMap(({ peak }) => peak ?? [])
    return values.length === 0 ? [] : [`${arithmetic} peak ${range(values)} G ops/s`]
  })
  return [`reads ${range(seen.map(({ read }) => read))} GB/s`, ...peaks].join(', ')
}

function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
