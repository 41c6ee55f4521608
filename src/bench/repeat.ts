// A sample that lasts long enough for a clock: commands for a device, repeated and recorded as one submission.

import type { Command, Device } from '../device/device.ts'

export interface Repeated {
  /** Seconds of one run, taken over all of a submission. */
  sample(): Promise<number>
  dispose(): void
}

/** A sample lasts so long at least, so that a clock and a submission do not matter. */
const LEAST_SECONDS = 0.02
const FIRST_REPEATS = 20
const MOST_REPEATS = 2000

/** Records so many runs that a sample of them lasts long enough. One run alone is mostly its submission, so that is guessed twice. */
export async function repeatLongEnough(device: Device, commandsOf: (run: number) => readonly Command[]): Promise<Repeated> {
  const repeat = (repeats: number): Repeated => {
    const recording = device.record(Array.from({ length: repeats }, (_, run) => commandsOf(run)).flat())
    const sample = async (): Promise<number> => {
      const start = performance.now()
      await device.submit(recording)
      return (performance.now() - start) / 1000 / repeats
    }
    return { sample, dispose: () => recording[Symbol.dispose]() }
  }
  let repeats = 1
  for (const most of [FIRST_REPEATS, MOST_REPEATS]) {
    const { sample, dispose } = repeat(repeats)
    const seconds = Math.min(await sample(), await sample())
    dispose()
    repeats = Math.min(most, Math.max(1, Math.ceil(LEAST_SECONDS / seconds)))
  }
  const ready = repeat(repeats)
  await ready.sample()
  return ready
}
