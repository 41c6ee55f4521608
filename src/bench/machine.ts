// The machine that a bench ran on, and whether it had the machine for itself.

import { arch, availableParallelism, cpus, platform, totalmem } from 'node:os'
import { setTimeout } from 'node:timers/promises'

export interface Machine { readonly cpu: string; readonly cores: number; readonly memoryBytes: number; readonly system: string; readonly node: string }

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown', cores: availableParallelism(), memoryBytes: totalmem(),
    system: `${platform()} ${arch()}`, node: process.versions.node,
  }
}

/** The share of all cores that was in use for a moment, in which this process does nothing. */
export async function measureBusy(ms: number): Promise<number> {
  const before = cpuTimes()
  await setTimeout(ms)
  const after = cpuTimes()
  const total = after.total - before.total
  return total <= 0 ? 0 : 1 - (after.idle - before.idle) / total
}

function cpuTimes(): { idle: number; total: number } {
  const all = cpus().map(({ times }) => times)
  const idle = all.reduce((sum, times) => sum + times.idle, 0)
  return { idle, total: all.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0) }
}
