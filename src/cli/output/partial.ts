// Files that are being written, to be removed if the process ends before they are complete: by a signal, by an error that nobody
// caught, by process.exit. While there is one, SIGTERM and SIGHUP are heard here first and then do what they always do. SIGINT asks
// the work to stop (interruption.ts), which removes its own file; only the second one ends the process from there.

import { rmSync } from 'node:fs'

const SIGNALS = ['SIGTERM', 'SIGHUP'] as const
const partials = new Set<string>()

/** Call what it returns when the file is complete, or gone. */
export function guardPartial(path: string): () => void {
  if (partials.size === 0) {
    for (const signal of SIGNALS) process.on(signal, endBy)
    process.on('exit', removePartials)
  }
  partials.add(path)
  return () => {
    if (partials.delete(path) && partials.size === 0) stopListening()
  }
}

/** Removes what is not complete, then lets the signal end the process as it would have. */
export function endBy(signal: NodeJS.Signals): void {
  removePartials()
  stopListening()
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

function removePartials(): void {
  for (const path of partials) {
    try {
      rmSync(path, { force: true })
    } catch {
      // the process ends: nobody could do more about it
    }
  }
  partials.clear()
}

function stopListening(): void {
  for (const signal of SIGNALS) process.off(signal, endBy)
  process.off('exit', removePartials)
}
