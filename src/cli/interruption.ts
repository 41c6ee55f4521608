// What can end a command early: Ctrl-C, or a stdout that takes no more, since its reader went away or the disk is full. The first Ctrl-C
// asks the work to stop; the second one ends the process as usual, but for files that are half written.

import { Failure } from './failure.ts'
import { endBy } from './output/partial.ts'

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
  const onError = (): void => controller.abort() // what it was is said at the end (output/stdio.ts)
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
