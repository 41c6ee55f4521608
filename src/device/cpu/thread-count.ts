// How many threads to start when nobody says: one per physical core, as far as that can be guessed.

import { isNode } from '../core/platform.ts'

/** More than these share memory bandwidth that fewer already use up. */
const MOST_THREADS = 16
/** From this many logical cores on, an x64 machine is taken to run two of them on each physical one. */
const SURELY_DOUBLE = 8

export async function countThreads(): Promise<number> {
  if (!isNode()) return clamp(navigator.hardwareConcurrency ?? 1)
  const { availableParallelism } = await import('node:os')
  const logical = availableParallelism()
  return clamp(process.arch === 'x64' && logical >= SURELY_DOUBLE ? logical / 2 : logical)
}

function clamp(count: number): number {
  return Math.max(1, Math.min(MOST_THREADS, Math.floor(count)))
}
