// Work so short that handing it to threads would take longer than doing it: that is done on the thread of the caller, at once. It must see
// little memory, and each of its programs must have been seen to end soon, on the threads; what takes long all the same goes there again.
// So do jobs that follow each other without a pause, now and then: timers and events of the program get their turn meanwhile.

import { type CheckedCommand, rangesOf } from '../core/checked-command.ts'
import type { Program } from '../device.ts'

/** Threads take some 50 us to wake and to be waited for; a core moves about this much in a few times that. */
const MOST_BYTES = 1 << 20
/** Milliseconds that are no longer brief, */
const LONG = 1
/** if they are met this often in a row: a thread may lose its core meanwhile. */
const MOST_STRIKES = 3
/** Milliseconds on the threads, waiting for them included, after which a program may be tried here. */
const SOON = 10
/** Milliseconds without a turn for anything else. */
const MOST_BURST = 4

type Commands = readonly CheckedCommand<number>[]

export class BriefWork {
  /** commands that may come again: whether they are brief, as of an epoch */
  readonly #judged = new WeakMap<Commands, { readonly brief: boolean; readonly epoch: number }>()
  /** how often in a row work with a program took long here; programs that are not in it have never been seen */
  readonly #strikes = new Map<Program, number>()
  /** whether the last one took long */
  #isStruck = false
  /** counts what changes a judgement */
  #epoch = 0
  /** when the first job ran since the program had a turn for other things */
  #burst: number | undefined

  /** Whether these commands should be done at once, on this thread. */
  takes(commands: Commands): boolean {
    const known = this.#judged.get(commands)
    const brief = known?.epoch === this.#epoch ? known.brief : this.#judge(commands)
    return brief && !(this.#burst !== undefined && performance.now() - this.#burst > MOST_BURST)
  }

  /** Does the work of commands that it takes. */
  run(commands: Commands, work: () => void): void {
    const begun = performance.now()
    if (this.#burst === undefined) {
      this.#burst = begun
      afterOthers(() => {
        this.#burst = undefined
      })
    }
    work()
    const took = performance.now() - begun
    if (took > LONG) this.#note(commands, (strikes) => (strikes ?? 0) + 1)
    else if (this.#isStruck) this.#note(commands, () => 0)
    this.#isStruck = took > LONG
  }

  /** Commands took so long on the threads. */
  seen(commands: Commands, took: number): void {
    if (took < LONG) this.#note(commands, () => 0)
    else if (took < SOON) this.#note(commands, (strikes) => strikes ?? 0)
  }

  #note(commands: Commands, count: (strikes: number | undefined) => number): void {
    for (const command of commands) {
      if (command.kind !== 'dispatch') continue
      const before = this.#strikes.get(command.program)
      const after = count(before)
      if (after === before) continue
      this.#strikes.set(command.program, after)
      this.#epoch++
    }
  }

  #judge(commands: Commands): boolean {
    const isKnown = (program: Program): boolean => (this.#strikes.get(program) ?? MOST_STRIKES) < MOST_STRIKES
    const brief = seesLittle(commands) && commands.every((command) => command.kind !== 'dispatch' || isKnown(command.program))
    this.#judged.set(commands, { brief, epoch: this.#epoch })
    return brief
  }
}

function seesLittle(commands: Commands): boolean {
  let bytes = 0
  for (const command of commands) {
    for (const range of rangesOf(command)) bytes += range.bytes
    if (bytes > MOST_BYTES) return false
  }
  return true
}

/** Runs a function when other events have had their turn. */
function afterOthers(f: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(f)
  else setTimeout(f, 0)
}
