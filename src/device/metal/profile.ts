// What each kernel cost: GPU seconds by name, for INGOT_PROFILE=1. Knows names and numbers only.

export interface ProfileRow {
  readonly name: string
  readonly calls: number
  readonly seconds: number
}

export class Profile {
  readonly #rows = new Map<string, { calls: number; seconds: number }>()

  add(name: string, seconds: number): void {
    const row = this.#rows.get(name) ?? { calls: 0, seconds: 0 }
    row.calls++
    row.seconds += seconds
    this.#rows.set(name, row)
  }

  /** Most expensive first. */
  rows(): ProfileRow[] {
    return [...this.#rows].map(([name, row]) => ({ name, ...row })).toSorted((a, b) => b.seconds - a.seconds)
  }
}

/** A table for people. */
export function describeProfile(rows: readonly ProfileRow[]): string {
  const total = rows.reduce((sum, { seconds }) => sum + seconds, 0)
  const width = Math.max(6, ...rows.map(({ name }) => name.length))
  const line = (name: string, ...cells: readonly string[]): string => name.padEnd(width) + cells.map((cell) => cell.padStart(12)).join('')
  return [
    line('kernel', 'calls', 'total ms', 'each us', 'share'),
    ...rows.map(({ name, calls, seconds }) =>
      line(
        name,
        String(calls),
        (seconds * 1e3).toFixed(2),
        ((seconds * 1e6) / calls).toFixed(1),
        `${((100 * seconds) / (total || 1)).toFixed(1)} %`,
      ),
    ),
  ].join('\n')
}
