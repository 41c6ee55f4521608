// What can end a command early: Ctrl-C, or a stdout that takes no more, since its reader went away or the disk is full. The first Ctrl-C
// asks the work to stop; the second one ends the process as usual, but for files that are half written.

import { endBy } from '../weights/partial.ts'
import { Failure } from './failure.ts'

export interface Interruption extends Disposable {
  readonly signal: AbortSignal
  /** Ends the command if it was interrupted: exit code 130 after Ctrl-C; nothing more to say to a closed pipe. */
  check(): void
}

/**
 * Runs work during which nobody can hear a signal, since it does not give the event loop a turn: a template, the tokens of a long text.
 * Meanwhile Ctrl-C ends the process by itself, also where it is a key of ours.
 */
export function endedByCtrlC<T>(work: () => T): T {
  const listeners = process.listeners('SIGINT')
  const { stdin } = process
  const raw = stdin.isTTY && stdin.isRaw
  process.removeAllListeners('SIGINT')
  if (raw) stdin.setRawMode(false)
  try {
    return work()
  } finally {
    if (raw) stdin.setRawMode(true)
    for (const listener of listeners) process.on('SIGINT', listener)
  }
}

/**
 * Runs work that may be interrupted, and ends the command if it was. What work throws because it was asked to stop is no failure, so
 * that its result is undefined where the pipe was closed.
 */
export async function interruptible<T>(work: (interruption: Interruption) => Promise<T>): Promise<T | undefined> {
  using interruption = watchInterruption()
  let result: T | undefined
  try {
    result = await work(interruption)
  } catch (error) {
    if (!interruption.signal.aborted) throw error
  }
  interruption.check()
  return result
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
