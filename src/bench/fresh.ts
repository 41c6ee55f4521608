// What only a new process can show: how long loading takes, how much memory a model needs at most, and how long it is from the
// start of a program to its first token.

import { spawn } from 'node:child_process'
import { IngotError } from '../base/error.ts'
import type { Contestant, FirstToken } from './contestant.ts'
import type { Settings } from './side.ts'

export interface Load {
  readonly ms: number
  readonly peakBytes: number
}

/** Loads in a process of its own, reads a prompt, decodes a few tokens. */
export async function loadFresh(
  contestant: Contestant,
  model: { readonly path: string; readonly context: number },
  settings: Settings,
  prompt: readonly number[],
  signal?: AbortSignal,
): Promise<Load> {
  const side = contestant.start(signal)
  try {
    const { ms } = await side.ask('open', { model: model.path, context: model.context, settings })
    await side.ask('prefill', { tokens: prompt })
    await side.ask('decode', { tokens: prompt.slice(0, 1), count: 4 })
    const { bytes } = await side.ask('peak', {})
    return { ms, peakBytes: bytes }
  } finally {
    await side.close()
  }
}

/** Milliseconds from the start of the program until it prints; undefined where the contestant has no such program. */
export async function timeFirstToken(contestant: Contestant, run: FirstToken, signal?: AbortSignal): Promise<number | undefined> {
  const args = contestant.firstToken(run)
  return args === undefined ? undefined : timeOutput(contestant.name, process.execPath, args, signal)
}

export function timeOutput(name: string, command: string, args: readonly string[], signal?: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const begun = performance.now()
    let said = ''
    let ms: number | undefined
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...(signal === undefined ? {} : { signal }) })
    child.stdout.on('data', () => {
      ms ??= performance.now() - begun
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-2000)
    })
    child.once('error', reject)
    // Waits for its end, so that the next program has the machine for itself.
    child.once('close', (code) => {
      if (ms !== undefined && code === 0) resolve(ms)
      else
        reject(new IngotError('device-failed', 'no token came', { op: name, got: said.trim().split('\n').at(-1) || `exit code ${code}` }))
    })
  })
}
