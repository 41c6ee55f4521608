// Refuses a path that a command must not write to, before any work: what is there already, unless told so; what it reads from, always.

import { realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Failure } from './failure.ts'

export async function checkOutput(
  path: string,
  { force = false, inputs = [] }: { force?: boolean; inputs?: readonly string[] },
): Promise<void> {
  const folder = await stat(dirname(path)).catch(() => undefined)
  if (folder === undefined || !folder.isDirectory()) throw new Failure(`no such folder: ${dirname(path)}`)
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) return
  const same = await Promise.all(inputs.map(async (input) => (await realpath(input)) === (await realpath(path))))
  if (same.includes(true)) throw new Failure(`${path} is the file to read: give another name`)
  if (!found.isFile()) throw new Failure(`not a file: ${path}`)
  if (!force) throw new Failure(`${path} exists: give --force to replace it`)
}
