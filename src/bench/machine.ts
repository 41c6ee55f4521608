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

/** The share of all cores that other programs use, seen over a moment in which this process does nothing. */
export async function measureOtherLoad(ms: number): Promise<number> {
  const stop = watchOtherLoad(() => 0)
  await setTimeout(ms)
  return stop()
}

/**
 * Watches what the machine does from now on. The function that it returns gives the share of all cores that other programs used
 * since. Steady load slows every sample alike, so their spread does not show it. `ownMs` gives the CPU time so far of the processes
 * that belong to the bench.
 */
export function watchOtherLoad(ownMs: () => number): () => number {
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
