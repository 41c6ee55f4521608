// The command line for tests: in this process with its output caught, or as a process of its own; and a tiny model as a file.

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, vi } from 'vitest'
import { main } from '../../src/cli/main.ts'
import { tinyBytes } from '../llm/tiny-model.ts'

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  readonly bytes: Buffer
}

/** Runs the command line here. One at a time: it catches what the whole process writes. */
export async function ingot(...args: string[]): Promise<Outcome> {
  const [out, err]: [Buffer[], Buffer[]] = [[], []]
  const into =
    (parts: Buffer[]) =>
    (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      parts.push(Buffer.from(chunk as string))
      const done = rest.find((each) => typeof each === 'function') as ((error?: Error) => void) | undefined
      if (done !== undefined) queueMicrotask(done)
      return true
    }
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(into(out)),
    vi.spyOn(process.stderr, 'write').mockImplementation(into(err)),
  ]
  try {
    const code = await main(args)
    return { code, bytes: Buffer.concat(out), stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The launcher. */
export const BIN = join(ROOT, 'bin', 'ingot.js')

/** Why there is no process to run, if so: `npm test` builds it. */
export const notBuilt: string | undefined = existsSync(join(ROOT, 'dist', 'bundle', 'main.js')) ? undefined : 'dist/ is not built'

/** The real thing, as a shell runs it. */
export function spawnIngot(...args: string[]): ChildProcessByStdio<Writable, Readable, Readable> {
  return spawn(process.execPath, [BIN, ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
}

/** Waits for a process, with what it wrote. */
export async function finish(child: ReturnType<typeof spawnIngot>): Promise<{ code: number | null; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (part: Buffer) => {
    stdout += part.toString()
  })
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString()
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', (ended) => resolve(ended)))
  return { code, stdout, stderr }
}

/** A folder with `tiny.gguf` in it, for the tests of one file. */
export function useTinyFile(): { readonly folder: string; readonly model: string } {
  const place = { folder: '', model: '' }
  beforeAll(async () => {
    place.folder = await mkdtemp(join(tmpdir(), 'ingot-cli-'))
    place.model = join(place.folder, 'tiny.gguf')
    await writeFile(place.model, await tinyBytes())
  })
  afterAll(() => rm(place.folder, { recursive: true, force: true }))
  return place
}
