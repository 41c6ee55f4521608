// What becomes of writes to stdout and stderr that fail. A reader that went away (`| head -1`) is no failure. A full disk is: the
// command stops, one line says why, and the exit code is 1. Nothing can be said where stderr itself fails, so that is ignored. Listens
// for as long as the process lives: a write may fail after the command is done.

import { isBrokenPipe } from './style.ts'

let failure: Error | undefined
let watching = false

/** From now on failing writes are no exceptions. */
export function watchStdio(): void {
  if (watching) return
  watching = true
  process.stdout.on('error', (error) => {
    if (!isBrokenPipe(error)) failure ??= error
  })
  process.stderr.on('error', () => {})
}

/** Waits until stdout has taken all that was written; gives what went wrong since the last time, if something did. */
export async function settleStdout(): Promise<Error | undefined> {
  const pending = process.stdout.writableLength > 0
  const error = pending ? await new Promise<Error | null | undefined>((resolve) => process.stdout.write('', resolve)) : undefined
  // The event that tells why may come after the callback that only says that nothing can be written any more.
  await new Promise((resolve) => setImmediate(resolve))
  const found = failure ?? (error == null || isBrokenPipe(error) ? undefined : error)
  failure = undefined
  return found
}
