// Files that are being written, to be removed if the process ends before they are complete: by a signal, by an error that nobody
// caught, by process.exit. While there is one, the signals that end a process are heard here: where nobody else listens, the file is
// removed and the signal does what it always does. A program that listens decides for itself: its work may stop and remove its own
// file, or it calls process.exit, which is heard here, too.

import { rmSync } from 'node:fs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const partials = new Set<string>()

/** Call what it returns when the file is complete, or gone. */
export function guardPartial(path: string): () => void {
  if (partials.size === 0) {
    for (const signal of SIGNALS) process.on(signal, onSignal)
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

function onSignal(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) === 1) endBy(signal)
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
  for (const signal of SIGNALS) process.off(signal, onSignal)
  process.off('exit', removePartials)
}
