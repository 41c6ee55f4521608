// Worker threads over one shared memory. The main thread posts jobs into a ring in that memory and never blocks: it hears of finished
// jobs through Atomics.waitAsync, or by a message where the engine lacks it. Threads go from job to job without the main thread.
// A trap fails its job only. A thread that dies fails what is pending, and all threads are started anew.

import { IngotError } from '../../../base/error.ts'
import { isNode } from '../../core/platform.ts'
import type { Heap } from '../heap.ts'
import type { Executor, PostedJob } from './executor.ts'
import { CONTROL, JOB, OWN, RING, TASK, TASK_BYTES, slotOf } from './layout.ts'
import { buildRunner } from './runner.ts'
import { type Thread, startThread } from './thread.ts'

interface Pending extends PostedJob {
  resolve(): void
  reject(error: IngotError): void
}

type WaitAsync = (words: Int32Array, index: number, value: number) => { async: boolean; value: Promise<string> | string }
/** Not in every engine, nor in the types of ES2023. */
const waitAsync = (Atomics as { readonly waitAsync?: WaitAsync }).waitAsync
/** Threads that die this often without finishing a job will not do better. */
const MOST_DEATHS = 3
const KEEP_ALIVE = 2 ** 30 // milliseconds
/** Jobs in the ring: the other half is for those of the main thread's own that some thread has not gone past. */
const MOST_POSTED = RING.slots / 2
/** Milliseconds after which a thread that is at work on a part is taken for dead. */
const PATIENCE = 5000

const lost = (): IngotError =>
  new IngotError('device-lost', 'the worker threads of the cpu device do not stay alive', { op: 'submit', hint: 'open a new one' })

export class Pool implements Executor {
  readonly #heap: Heap
  readonly #count: number
  /** the control block and the ring: they lie below what ever moves */
  readonly #words: Int32Array
  readonly #runner: Promise<WebAssembly.Module>
  #threads: Promise<Thread[]>
  /** posted jobs first, then those for which the ring has no place yet */
  readonly #jobs: Pending[] = []
  #posted = 0
  #done = 0
  /** jobs of the main thread's own */
  #own = 0
  #watching = false
  #deaths = 0
  #epoch = 0
  #closed = false
  /** a promise that waits would let Node end the process; a timer that never fires keeps it while there is work */
  readonly #alive: NodeJS.Timeout | undefined
  #held = false

  constructor(heap: Heap, threads: number) {
    this.#heap = heap
    this.#count = threads
    this.#words = new Int32Array(heap.memory.buffer)
    this.#runner = WebAssembly.compile(buildRunner())
    const timer = isNode() ? setInterval(() => {}, KEEP_ALIVE) : undefined
    timer?.unref()
    this.#alive = timer
    this.#reset()
    this.#threads = this.#start()
  }

  get pending(): number {
    return this.#jobs.length
  }

  run(job: PostedJob): Promise<void> {
    if (this.#deaths >= MOST_DEATHS) return Promise.reject(lost())
    return new Promise((resolve, reject) => {
      this.#jobs.push({ ...job, resolve, reject })
      this.#post()
    })
  }

  /**
   * Has `share` do a job of one task on this thread, while threads that wake up in time take parts of it, too. Returns when all of it is
   * done; false if there should be no help now, and nothing has happened.
   */
  help(job: PostedJob, share: () => void): boolean {
    if (this.#jobs.length > 0 || this.#deaths > 0) return false
    const words = this.#words
    const behind = this.#own * this.#count - Atomics.load(words, CONTROL.passed >> 2)
    if (behind >= MOST_POSTED) {
      Atomics.notify(words, CONTROL.posted >> 2) // those that sleep have to catch up
      return false
    }
    const slot = slotOf(this.#posted)
    this.#write(job, slot, OWN.open)
    this.#own++
    this.#done = ++this.#posted // nobody waits for it
    Atomics.store(words, CONTROL.posted >> 2, this.#posted)
    Atomics.notify(words, CONTROL.posted >> 2, this.#count - 1) // this thread has a core, too
    try {
      share()
    } finally {
      Atomics.store(words, (slot + JOB.own) >> 2, OWN.closed)
      this.#waitForHelp(slot)
    }
    if (Atomics.load(words, (slot + JOB.failed) >> 2) !== 0) throw this.#failure(slot)
    return true
  }

  /** Those who took a part end soon: there is nothing to do but to look. */
  #waitForHelp(slot: number): void {
    const begun = performance.now()
    while (Atomics.load(this.#words, (slot + JOB.active) >> 2) > 0)
      if (performance.now() - begun > PATIENCE)
        throw new IngotError('device-failed', 'a worker thread does not come back', { op: 'submit', hint: 'open a new device' })
  }

  async close(): Promise<void> {
    this.#closed = true
    const threads = await this.#threads
    await Promise.all(threads.map((thread) => thread.stop()))
    clearInterval(this.#alive)
    this.#failPending(() => new IngotError('closed', 'the cpu device was closed', { op: 'submit' }))
  }

  #post(): void {
    const waiting = this.#jobs.slice(this.#posted - this.#done, MOST_POSTED)
    if (waiting.length === 0) return
    for (const job of waiting) {
      this.#write(job, slotOf(this.#posted), 0)
      Atomics.store(this.#words, CONTROL.posted >> 2, ++this.#posted)
    }
    Atomics.notify(this.#words, CONTROL.posted >> 2)
    this.#holdProcess(true)
    void this.#watch()
  }

  #write(job: PostedJob, slot: number, own: number): void {
    const { words } = this.#heap
    for (let index = 0; index < job.count; index++) words[(job.tasks + index * TASK_BYTES + TASK.next) >>> 2] = 0
    words[(slot + JOB.tasks) >> 2] = job.tasks
    words[(slot + JOB.count) >> 2] = job.count
    words[(slot + JOB.scratch) >> 2] = job.scratch
    words[(slot + JOB.scratchStride) >> 2] = job.scratchStride
    words[(slot + JOB.failed) >> 2] = 0
    words[(slot + JOB.active) >> 2] = 0
    words[(slot + JOB.own) >> 2] = own
  }

  /** Waits while jobs are posted. Without waitAsync, messages call #settle. */
  async #watch(): Promise<void> {
    if (this.#watching || waitAsync === undefined) return
    this.#watching = true
    while (this.#jobs.length > 0 && !this.#closed) {
      const done = Atomics.load(this.#words, CONTROL.done >> 2) // may be behind: nobody waits for jobs of this thread's own
      const { value } = done > this.#done ? { value: '' } : waitAsync(this.#words, CONTROL.done >> 2, done)
      if (typeof value !== 'string') await value
      this.#settle()
    }
    this.#watching = false
  }

  /** Resolves or rejects what finished. */
  #settle(): void {
    const done = Atomics.load(this.#words, CONTROL.done >> 2)
    while (this.#done < done) {
      const slot = slotOf(this.#done++)
      const job = this.#jobs.shift()
      this.#deaths = 0
      if (Atomics.load(this.#words, (slot + JOB.failed) >> 2) === 0) job?.resolve()
      else job?.reject(this.#failure(slot))
    }
    this.#post()
    if (this.#jobs.length === 0) this.#holdProcess(false)
  }

  #failure(slot: number): IngotError {
    const text = new TextDecoder().decode(this.#heap.copy(slot + JOB.text, this.#words[(slot + JOB.textBytes) >> 2] ?? 0))
    return new IngotError('device-failed', `a kernel failed: ${text}`, { op: 'submit', hint: 'the device is still usable' })
  }

  #holdProcess(busy: boolean): void {
    if (busy === this.#held) return
    this.#held = busy
    if (busy) this.#alive?.ref()
    else this.#alive?.unref()
  }

  #reset(): void {
    this.#posted = this.#done = this.#own = 0
    for (const at of Object.values(CONTROL)) Atomics.store(this.#words, at >> 2, 0)
    Atomics.store(this.#words, CONTROL.notify >> 2, waitAsync === undefined ? 1 : 0)
  }

  async #start(): Promise<Thread[]> {
    const epoch = this.#epoch
    const runner = await this.#runner
    const { memory } = this.#heap
    const died = (reason: string): void => {
      if (epoch === this.#epoch) this.#restart(reason)
    }
    try {
      return await Promise.all(
        Array.from({ length: this.#count }, (_, thread) =>
          startThread({ runner, memory, thread, threads: this.#count }, { finished: () => this.#settle(), died }),
        ),
      )
    } catch {
      this.#deaths = MOST_DEATHS
      this.#failPending(lost)
      return []
    }
  }

  #restart(reason: string): void {
    if (this.#closed) return
    this.#epoch++
    this.#deaths++
    const old = this.#threads
    this.#threads = (async () => {
      await Promise.all((await old).map((thread) => thread.stop()))
      this.#reset()
      // wakes a watch of the old jobs
      Atomics.notify(this.#words, CONTROL.done >> 2)
      this.#failPending(
        () => new IngotError('device-failed', `a worker thread died: ${reason}`, { op: 'submit', hint: 'the device is still usable' }),
      )
      return this.#start()
    })()
  }

  #failPending(error: () => IngotError): void {
    for (const job of this.#jobs.splice(0)) job.reject(error())
    this.#holdProcess(false)
  }
}
