// Work so short that handing it to threads would take longer than doing it: that is done on the thread of the caller, at once. Which work
// that is, is found by measuring: what the threads have ended soon is tried here a few times, and stays where it was faster. Jobs that
// follow each other without a pause go to the threads now and then: timers and events of the program get their turn meanwhile.

import type { CheckedCommand } from '../core/checked-command.ts'
import { type Program, rangesOf } from '../device.ts'

/** What sees more memory is never brief. */
const MOST_BYTES = 1 << 24
/** What sees no more, and is not cut into parts, is brief unless it is seen not to be. */
const FEW_BYTES = 1 << 20
/** Milliseconds on the threads, waiting for them included, up to which work is tried here, */
const SOON = 2
/** and up to which it may stay: others wait meanwhile. */
const LONG = 1
/** How often it is tried: at first a kernel is compiled for this thread, and any time may be the one in which the thread loses its core. */
const TRIES = 4
/** What takes so many milliseconds here may be worth waking others. */
const WORTH_HELP = 0.05
/** Milliseconds without a turn for anything else. */
const MOST_BURST = 8

type Commands = readonly CheckedCommand<number>[]

/** What a kind of work takes in milliseconds, most of the time; Infinity: not known. */
interface Times {
  threads: number
  here: number
  /** here, while threads that woke up in time took parts of it */
  helped: number
  /** how often it was done on the threads, here, and here with help */
  runs: number
  tries: number
  helps: number
}

const UNKNOWN: Readonly<Times> = { threads: Infinity, here: Infinity, helped: Infinity, runs: 0, tries: 0, helps: 0 }

/**
 * What is to be expected after another time was seen. Until there are a few, the shortest: any may be the one in which code is compiled.
 * Then a mean of the latest: how soon threads wake up varies, and neither a lucky time stands for all that come nor a thread that lost its
 * core in the middle of its part for nothing.
 */
function expected(before: number, seen: number, count: number): number {
  if (count < TRIES || before === Infinity) return Math.min(before, seen)
  return before + (Math.min(seen, MOST_TIMES * before) - before) / LATEST
}
/** How many times a mean is of. */
const LATEST = 8
/** What took longer than this many times the mean says more of other programs than of the work. */
const MOST_TIMES = 4
/** What is left of other expectations after a time was seen: what was slow once is tried again at last, for about 2 % of the time. */
const FADE = 1 - 1 / 512

export class BriefWork {
  /** of commands that may come again */
  readonly #byCommands = new WeakMap<Commands, Times>()
  /** by the first program, then by how many commands there are and how much memory they see, roughly */
  readonly #byProgram = new WeakMap<Program, Map<number, Times>>()
  /** of the commands that were asked about last */
  #last: { readonly commands: Commands; readonly times: Times } | undefined
  /** when the first job ran since the program had a turn for other things */
  #burst: number | undefined

  /** Whether these commands should be done at once, on this thread. */
  takes(commands: Commands): boolean {
    const { threads, here, helped, tries } = this.#timesOf(commands)
    const best = Math.min(here, helped)
    if (threads > SOON || (tries >= TRIES && (best > LONG || best > threads))) return false
    return this.#burst === undefined || performance.now() - this.#burst <= MOST_BURST
  }

  /** Does the work of commands that it takes, `helped` by others where that is faster. */
  run(commands: Commands, work: (helped: boolean) => void): void {
    const begun = performance.now()
    if (this.#burst === undefined) {
      this.#burst = begun
      afterOthers(() => {
        this.#burst = undefined
      })
    }
    const times = this.#timesOf(commands)
    const mayHelp = times.tries >= TRIES && times.here >= WORTH_HELP
    const isHelped = mayHelp && (times.helps < TRIES || times.helped < times.here)
    work(isHelped)
    const took = performance.now() - begun
    if (isHelped) {
      times.helped = expected(times.helped, took, times.helps++)
      times.here *= FADE
    } else {
      times.here = expected(times.here, took, times.tries++)
      times.helped *= FADE
    }
  }

  /** Commands took so many milliseconds on the threads. */
  seen(commands: Commands, took: number): void {
    const times = this.#timesOf(commands)
    times.threads = expected(times.threads, took, times.runs++)
    if (times.tries < TRIES) return
    times.here *= FADE
    times.helped *= FADE
  }

  #timesOf(commands: Commands): Times {
    if (this.#last?.commands === commands) return this.#last.times
    const known = this.#byCommands.get(commands)
    const times = known ?? this.#timesLike(commands)
    if (known === undefined) this.#byCommands.set(commands, times)
    this.#last = { commands, times }
    return times
  }

  #timesLike(commands: Commands): Times {
    const bytes = bytesOf(commands)
    const program = commands.find((command) => command.kind === 'dispatch')?.program
    // Moving bytes alone, or seeing much of them, is not worth a try.
    if (program === undefined) return { ...UNKNOWN, threads: bytes > MOST_BYTES ? Infinity : 0, here: 0, tries: TRIES }
    if (bytes > MOST_BYTES) return { ...UNKNOWN, tries: TRIES }
    const sizes = this.#byProgram.get(program) ?? new Map<number, Times>()
    this.#byProgram.set(program, sizes)
    const size = 64 * commands.length + Math.round(2 * Math.log2(bytes + 1)) // at most 2 * 24 for the memory
    // What has nothing for a second thread to do is tried at once.
    const isAlone = bytes <= FEW_BYTES && commands.every(isWhole)
    const times = sizes.get(size) ?? { ...UNKNOWN, ...(isAlone && { threads: SOON }) }
    sizes.set(size, times)
    return times
  }
}

/** Whether a command is not cut into parts. */
function isWhole(command: CheckedCommand<number>): boolean {
  return command.kind !== 'dispatch' || command.grid.every((count) => count <= 1)
}

/** Of all ranges that commands see; more than `MOST_BYTES` need not be told apart. */
function bytesOf(commands: Commands): number {
  let bytes = 0
  for (const command of commands) {
    for (const range of rangesOf(command)) bytes += range.bytes
    if (bytes > MOST_BYTES) break
  }
  return bytes
}

/** Runs a function when other events have had their turn. */
function afterOthers(f: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(f)
  else setTimeout(f, 0)
}
