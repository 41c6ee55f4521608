// Commands that write a model file: the flags they share, and what they show while they write.

import type { Command } from 'commander'
import { Failure } from '../failure.ts'
import { watchInterruption } from '../interruption.ts'
import { showProgress } from './progress.ts'

export interface WriteFlags {
  readonly force?: true
  readonly json?: true
}

export function addWriteOptions(command: Command): Command {
  return command.option('-f, --force', 'replace an existing file').option('--json', 'print the summary as one JSON object')
}

/** What the library is told of whoever waits for a file. */
export interface WriteWatch {
  readonly signal: AbortSignal
  readonly onProgress: (progress: { readonly written: number; readonly total: number }) => void
}

/** Writes a file with a progress bar; Ctrl-C leaves nothing behind. `ms` is how long it took. */
export async function writeWithBar<T>(label: string, write: (watch: WriteWatch) => Promise<T>): Promise<{ result: T; ms: number }> {
  using interruption = watchInterruption()
  using bar = showProgress(label)
  const { signal } = interruption
  const begun = performance.now()
  try {
    const result = await write({ signal, onProgress: ({ written, total }) => bar.update(written, total) })
    return { result, ms: performance.now() - begun }
  } catch (error) {
    if (!signal.aborted) throw error
    throw new Failure('interrupted; nothing was written', 130)
  }
}
