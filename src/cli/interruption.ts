// What can end a command early: Ctrl-C, or a reader of stdout that went away. The first Ctrl-C asks the work to stop; the second
// one ends the process as usual, but for files that are half written.

import { Failure } from './failure.ts'
import { endBy } from './output/partial.ts'
import { isBrokenPipe } from './output/style.ts'

export interface Interruption extends Disposable {
  readonly signal: AbortSignal
  /** Ends the command if it was interrupted: exit code 130 after Ctrl-C; nothing more to say to a closed pipe. */
  check(): void
}

export function watchInterruption(): Interruption {
  const controller = new AbortController()
  let byUser = false
  const onSignal = (signal: NodeJS.Signals): void => {
    if (byUser) return endBy(signal)
    byUser = true
    controller.abort()
  }
  const onError = (error: Error): void => {
    if (isBrokenPipe(error)) controller.abort()
  }
  process.on('SIGINT', onSignal)
  process.stdout.on('error', onError)
  return {
    signal: controller.signal,
    check() {
      if (byUser) throw new Failure('', 130)
    },
    [Symbol.dispose]() {
      process.off('SIGINT', onSignal)
      process.stdout.off('error', onError)
    },
  }
}
