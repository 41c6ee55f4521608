// What only a new process can show: how long loading takes, how much memory a model needs at most, and how long it is from the
// start of a program to its first token.

import { spawn } from 'node:child_process'
import { IngotError } from '../base/error.ts'
import type { BenchedModel, Contender, FirstTokenRun, Settings } from './contender.ts'

export interface LoadSample {
  readonly ms: number
  /** the most memory that the process held, resident */
  readonly peakBytes: number
}

/** Loads in a process of its own, reads a prompt, decodes a few tokens. */
export async function sampleLoad(
  contender: Contender,
  model: BenchedModel,
  settings: Settings,
  prompt: readonly number[],
  signal?: AbortSignal,
): Promise<LoadSample> {
  const running = contender.start(signal)
  try {
    const { ms } = await running.ask('open', { model: model.path, context: model.context, settings })
    await running.ask('prefill', { tokens: prompt })
    await running.ask('decode', { tokens: prompt.slice(0, 1), count: 4 })
    const { bytes } = await running.ask('peak', {})
    return { ms, peakBytes: bytes }
  } finally {
    await running.close()
  }
}

/** Milliseconds from the start of the program until it prints; undefined where the contender has no such program. */
export async function timeFirstToken(contender: Contender, run: FirstTokenRun, signal?: AbortSignal): Promise<number | undefined> {
  const args = contender.firstTokenArgs(run)
  return args === undefined ? undefined : timeOutput(contender.name, process.execPath, args, signal)
}

/** Milliseconds from the start of a command to its first output; rejects where it prints nothing or fails. */
export function timeOutput(name: string, command: string, args: readonly string[], signal?: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const begun = performance.now()
    let stderr = ''
    let ms: number | undefined
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...(signal === undefined ? {} : { signal }) })
    child.stdout.on('data', () => {
      ms ??= performance.now() - begun
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2000)
    })
    child.once('error', reject)
    // Waits for its end, so that the next program has the machine for itself.
    child.once('close', (code) => {
      const lastLine = stderr.trim().split('\n').at(-1)
      if (ms !== undefined && code === 0) resolve(ms)
      else reject(new IngotError('device-failed', 'no token came', { op: name, got: lastLine || `exit code ${code}` }))
    })
  })
}
