// Files that commands write: the rule of weights/output.ts in the words of the command line. Stdout is written as the process has it, so
// that a reader that went away is no failure.

import { open as openHandle } from 'node:fs/promises'
import { IngotError, messageOf } from '../../base/error.ts'
import { type Output, type OutputOptions, checkOutput as check, openOutput as open } from '../../weights/output.ts'
import { type ByteSink, withSink } from '../../weights/sink.ts'
import { writeOut } from './style.ts'

/** Refuses what must not be written to, before any work. */
export function checkOutput(path: string, options: OutputOptions = {}): Promise<Output> {
  return check(path, { hint: '--force replaces it', ...options })
}

/** Where the bytes go. */
export function openOutput(output: Output): ByteSink {
  return output.path === '/dev/stdout' ? { write: (bytes) => writeOut(process.stdout, bytes) } : open(output)
}

/** Writes a text that is there already. */
export async function writeOutput(output: Output, text: string): Promise<void> {
  await withSink(openOutput(output), (write) => write(new TextEncoder().encode(text)))
}

/** A text that grows while the work goes on, so that others can follow it; `append`: after what is there. */
export interface Log {
  write(line: string): Promise<void>
  close(): Promise<void>
}

export async function openLog(output: Output, { append }: { readonly append: boolean }): Promise<Log> {
  const file = await openHandle(output.path, append ? 'a' : 'w').catch((cause: unknown) => {
    throw new IngotError('bad-file', `cannot write ${output.path}: ${messageOf(cause)}`, { op: 'write', cause })
  })
  return { write: (line) => file.appendFile(`${line}\n`), close: () => file.close() }
}
