// Who touched each element of a memory, and when: finds data races and reads of what was never written. Knows nothing of
// values. One clock for all memories of a kernel ticks at every store and barrier; an access is ordered before another if a
// barrier that covers both lies between them.
//
// Kept per element: the last write (lane, time), and the reads since (one lane, several of one subgroup, or several). That is
// enough: an older access is either ordered before the one kept, or was in conflict with it and has been reported.
/* oxlint-disable typescript/no-non-null-assertion -- memory.ts checks the range of every access before it is recorded here */

import type { State } from './state.ts'

/** Time as the shadows see it. Starts are the time of the last event that ordered everything before it. */
export class Clock {
  now = 1
  dispatch = 1
  workgroup = 1
  barrier = 1
  readonly subgroup: Uint32Array

  constructor(subgroups: number) {
    this.subgroup = new Uint32Array(subgroups)
  }

  startDispatch(): void {
    this.dispatch = ++this.now
  }
  startWorkgroup(): void {
    this.workgroup = this.passBarrier()
  }
  passBarrier(): number {
    this.barrier = ++this.now
    this.subgroup.fill(this.now)
    return this.now
  }
  passSubgroupBarrier(group: number): void {
    this.subgroup[group] = ++this.now
  }
}

const MANY = -1
/** Several lanes of subgroup g are kept as FIRST_GROUP - g. */
const FIRST_GROUP = -2

export class Shadow {
  readonly #state: State
  readonly #clock: Clock
  readonly #name: string
  readonly #shared: boolean
  #writeTime = new Uint32Array(0)
  #writeLane = new Int32Array(0)
  #readTime = new Uint32Array(0)
  #readLane = new Int32Array(0)
  /** First read in this dispatch: tells whether an earlier workgroup read the element. */
  #firstRead = new Uint32Array(0)

  constructor(state: State, clock: Clock, name: string, shared: boolean) {
    this.#state = state
    this.#clock = clock
    this.#name = name
    this.#shared = shared
  }

  /** Makes room; what was recorded in earlier dispatches is too old to matter. */
  fit(length: number): void {
    if (length <= this.#writeTime.length) return
    this.#writeTime = new Uint32Array(length)
    this.#writeLane = new Int32Array(length)
    this.#readTime = new Uint32Array(length)
    this.#readLane = new Int32Array(length)
    this.#firstRead = new Uint32Array(length)
  }

  forget(): void {
    for (const times of [this.#writeTime, this.#readTime, this.#firstRead]) times.fill(0)
  }

  /** A read, or an atomic operation, which conflicts with plain writes only. */
  read(index: number, lane: number): void {
    const clock = this.#clock
    const written = this.#writeTime[index]!
    if (written < clock.workgroup) {
      if (this.#shared) {
        this.#state.fault('bad-kernel', `reads ${this.#name}[${index}], which no lane has written`, lane, {
          hint: 'write workgroup memory first, then a barrier',
        })
      }
      if (written >= clock.dispatch) this.#betweenWorkgroups('reads', 'written', index, lane)
    } else if (written >= clock.barrier && this.#unordered(this.#writeLane[index]!, written, lane)) {
      this.#race('reads', 'written', this.#writeLane[index]!, index, lane)
    }
    if (this.#firstRead[index]! < clock.dispatch) this.#firstRead[index] = clock.now
    this.#readLane[index] = this.#readersWith(index, lane)
    this.#readTime[index] = clock.now
  }

  /** A write by the store that last ticked the clock; true if another lane wrote the element in that same store. */
  write(index: number, lane: number): boolean {
    const clock = this.#clock
    const written = this.#writeTime[index]!
    const read = this.#readTime[index]!
    let again = false
    if (written < clock.workgroup && written >= clock.dispatch && !this.#shared) this.#betweenWorkgroups('writes', 'written', index, lane)
    if (written >= clock.barrier && this.#unordered(this.#writeLane[index]!, written, lane)) {
      if (written !== clock.now) this.#race('writes', 'written', this.#writeLane[index]!, index, lane)
      again = true
    }
    const first = this.#firstRead[index]!
    if (!this.#shared && first >= clock.dispatch && first < clock.workgroup) this.#betweenWorkgroups('writes', 'read', index, lane)
    if (read >= clock.barrier && this.#readConflicts(this.#readLane[index]!, read, lane)) {
      this.#race('writes', 'read', this.#readLane[index]!, index, lane)
    }
    this.#writeTime[index] = clock.now
    this.#writeLane[index] = lane
    return again
  }

  raceInStore(index: number, lane: number): never {
    return this.#race('writes', 'written with another value', this.#writeLane[index]!, index, lane)
  }

  #group(lane: number): number {
    return Math.floor(lane / this.#state.subgroup)
  }

  #unordered(other: number, time: number, lane: number): boolean {
    if (other === lane) return false
    const group = this.#group(lane)
    return group !== this.#group(other) || time >= this.#clock.subgroup[group]!
  }

  #readConflicts(reader: number, time: number, lane: number): boolean {
    if (reader >= 0) return this.#unordered(reader, time, lane)
    const group = this.#group(lane)
    return reader !== FIRST_GROUP - group || time >= this.#clock.subgroup[group]!
  }

  #readersWith(index: number, lane: number): number {
    const before = this.#readLane[index]!
    const time = this.#readTime[index]!
    if (time < this.#clock.barrier || before === lane) return lane
    const group = this.#group(lane)
    if (before === MANY || (before >= 0 ? this.#group(before) : FIRST_GROUP - before) !== group) return MANY
    return time < this.#clock.subgroup[group]! ? lane : FIRST_GROUP - group
  }

  #race(does: string, done: string, other: number, index: number, lane: number): never {
    const who = other >= 0 ? `lane ${other}` : 'other lanes'
    return this.#state.fault('bad-kernel', `data race: ${does} ${this.#name}[${index}], ${done} by ${who} since the last barrier`, lane)
  }

  #betweenWorkgroups(does: string, done: string, index: number, lane: number): never {
    return this.#state.fault(
      'bad-kernel',
      `data race: ${does} ${this.#name}[${index}], ${done} by another workgroup of this dispatch`,
      lane,
      { hint: 'workgroups run in any order; use an atomic or another dispatch' },
    )
  }
}
