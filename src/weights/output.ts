// The one rule for every file that is written: an existing file is refused unless it may be replaced, a file that is read from is refused
// always. A new file is written aside and appears under its name when it is complete; what is no regular file (a pipe, /dev/stdout,
// /dev/null) is written to as it is. Nothing is made before the first byte, and nothing is left where the work fails or is ended by a
// signal (partial.ts). Needs Node: whoever also runs in browsers imports it when it writes. Knows nothing of what is written.

import { link, lstat, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { IngotError, messageOf } from '../base/error.ts'
import { guardPartial } from './partial.ts'
import type { ByteSink } from './sink.ts'

export interface OutputOptions {
  /** an existing file may be replaced */
  readonly force?: boolean
  /** files that are read from */
  readonly inputs?: readonly string[]
  /** what to say instead of `force: true replaces it` */
  readonly hint?: string
  /** the function that writes, for messages */
  readonly op?: string
}

/** A place that may be written to, as it was found before the work. */
export interface Output {
  readonly path: string
  readonly kind: 'file' | 'stream'
  readonly options: OutputOptions
}

type Handle = Awaited<ReturnType<typeof open>>

/** Names of what the process has open: they stand for a stream, even where that is a file. */
const OPEN_STREAMS = /^\/(dev\/(stdin|stdout|stderr|fd\/\d+)|proc\/self\/fd\/\d+)$/
/** One write() takes at most 2^31 - 1 bytes. */
const MOST_BYTES = 1 << 30

/** Refuses what must not be written to, before any work: `bad-argument`. */
export async function checkOutput(path: string, options: OutputOptions = {}): Promise<Output> {
  if (OPEN_STREAMS.test(path)) return { path, kind: 'stream', options }
  const folder = await stat(dirname(path)).catch(() => undefined)
  if (folder === undefined || !folder.isDirectory()) throw refusal(`no such folder: ${dirname(path)}`, options)
  const existing = await stat(path).catch(() => undefined)
  if (existing === undefined) {
    // A link to nothing is there all the same.
    if ((await lstat(path).catch(() => undefined)) !== undefined && options.force !== true) throw existsError(path, options)
    return { path, kind: 'file', options }
  }
  if (existing.isDirectory()) throw refusal(`not a file: ${path}`, options)
  if (!existing.isFile()) return { path, kind: 'stream', options }
  const own = await realpath(path)
  const same = await Promise.all((options.inputs ?? []).map(async (input) => (await realpath(input).catch(() => input)) === own))
  if (same.includes(true)) throw refusal(`${path} is the file to read`, options, 'write to another one')
  if (options.force !== true) throw existsError(path, options)
  return { path: own, kind: 'file', options } // what a link names is replaced, not the link
}

/** Where the bytes go. */
export function openOutput(output: Output): ByteSink {
  return output.kind === 'stream' ? throughSink(output) : asideSink(output)
}

function throughSink({ path }: Output): ByteSink {
  let file: Handle | undefined
  return {
    write: (bytes) =>
      failing(path, async () => {
        file ??= await open(path, 'w')
        await writeAll(file, bytes)
      }),
    finish: () => failing(path, async () => file?.close()),
    abort: async () => file?.close(),
  }
}

function asideSink({ path, options }: Output): ByteSink {
  const temporary = `${path}.${globalThis.crypto.randomUUID().slice(0, 8)}.part`
  let file: Handle | undefined
  let release = (): void => {}
  const begin = async (): Promise<Handle> => {
    release = guardPartial(temporary)
    file = await open(temporary, 'wx')
    return file
  }
  return {
    write: (bytes) => failing(path, async () => writeAll(file ?? (await begin()), bytes)),
    finish: () =>
      failing(path, async () => {
        const whole = file ?? (await begin())
        await whole.sync()
        await whole.close()
        await publish(temporary, path, options)
        release()
      }),
    abort: async () => {
      await file?.close().catch(() => {})
      await rm(temporary, { force: true })
      release()
    },
  }
}

/** Gives the file its name; one that has come there meanwhile is not replaced unasked. */
async function publish(temporary: string, path: string, options: OutputOptions): Promise<void> {
  if (options.force === true) return rename(temporary, path)
  try {
    await link(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw existsError(path, options)
    return rename(temporary, path) // a file system without links
  }
  return rm(temporary)
}

async function writeAll(file: Handle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += (await file.write(bytes, done, Math.min(bytes.length - done, MOST_BYTES))).bytesWritten
  }
}

/** What the system says becomes an error with the path in it. */
async function failing(path: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (cause) {
    if (cause instanceof IngotError) throw cause
    throw new IngotError('bad-file', `cannot write ${path}: ${messageOf(cause)}`, { op: 'write', cause })
  }
}

function existsError(path: string, options: OutputOptions): IngotError {
  return refusal(`${path} exists`, options, options.hint ?? 'force: true replaces it')
}

function refusal(what: string, { op }: OutputOptions, hint?: string): IngotError {
  return new IngotError('bad-argument', what, { ...(op === undefined ? {} : { op }), ...(hint === undefined ? {} : { hint }) })
}
