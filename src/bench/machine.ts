// The machine that a bench ran on, and whether it had the machine for itself.

import { arch, availableParallelism, cpus, platform, totalmem } from 'node:os'
import { setTimeout } from 'node:timers/promises'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryBytes: number
  readonly system: string
  readonly node: string
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${platform()} ${arch()}`,
    node: process.versions.node,
  }
}

/** Looks at a moment in which this process does nothing: the share of all cores that others use. */
export async function lookAround(ms: number): Promise<number> {
  const stop = watchOthers(() => 0)
  await setTimeout(ms)
  return stop()
}

/**
 * Watches what the machine does from now on; the result ends it, with the share of all cores that others used. Steady load slows
 * every sample alike, so their spread does not show it. `ownMs` gives CPU time so far of the processes that belong to the bench.
 */
export function watchOthers(ownMs: () => number): () => number {
  const own = (): number => {
    const { user, system } = process.cpuUsage()
    return ownMs() + (user + system) / 1000
  }
  const begun = { ...cpuTimes(), own: own() }
  return () => {
    const now = cpuTimes()
    const total = now.total - begun.total
    const others = total - (now.idle - begun.idle) - (own() - begun.own)
    return total <= 0 ? 0 : Math.min(1, Math.max(0, others / total))
  }
}

/** Milliseconds of all cores together. */
function cpuTimes(): { idle: number; total: number } {
  const all = cpus().map(({ times }) => times)
  const idle = all.reduce((sum, times) => sum + times.idle, 0)
  return { idle, total: all.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0) }
}
