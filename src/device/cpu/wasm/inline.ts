// Jobs on this very thread. Where there is no shared memory, all of them: work is cut into slices of a few milliseconds, with room for
// other events between them. Elsewhere those that are done before a thread would have begun.

import { IngotError, messageOf } from '../../../base/error.ts'
import { importsFor } from '../../../emit/wasm/math.ts'
import { KIND } from '../encode.ts'
import type { Heap } from '../heap.ts'
import type { Executor, PostedJob } from './executor.ts'
import { TASK, TASK_BYTES } from './layout.ts'

type Run = (args: number, scratch: number, begin: number, end: number) => void

const SLICE = 4 // milliseconds
/** Fields of a task, counted in words. */
const WORD = {
  kind: TASK.kind >> 2,
  next: TASK.next >> 2,
  total: TASK.total >> 2,
  chunk: TASK.chunk >> 2,
  what: TASK.what >> 2,
  where: TASK.where >> 2,
} as const

export class Inline implements Executor {
  readonly #heap: Heap
  readonly #runs: Run[] = []
  #pending = 0
  #last: Promise<void> = Promise.resolve()
  #closed = false
  #sliceStart = 0

  constructor(heap: Heap) {
    this.#heap = heap
  }

  get pending(): number {
    return this.#pending
  }

  run(job: PostedJob): Promise<void> {
    this.#pending++
    const before = this.#last
    const done = (async () => {
      await before
      try {
        await this.#job(job)
      } finally {
        this.#pending--
      }
    })()
    this.#last = done.catch(() => {})
    return done
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#last
  }

  async #job({ tasks, count, scratch }: PostedJob): Promise<void> {
    this.#sliceStart = performance.now()
    for (let index = 0; index < count; index++) await this.#task(tasks + index * TASK_BYTES, scratch)
  }

  /** Does a job without a pause, while nothing is pending. */
  runAtOnce({ tasks, count, scratch }: PostedJob): void {
    const { words, bytes } = this.#heap // nobody makes it larger meanwhile
    const runs = this.#runs
    for (let index = 0; index < count; index++) {
      const at = (tasks + index * TASK_BYTES) >>> 2
      const [kind, total] = [words[at + WORD.kind], (words[at + WORD.total] ?? 0) >>> 0]
      const [what, where] = [(words[at + WORD.what] ?? 0) >>> 0, (words[at + WORD.where] ?? 0) >>> 0]
      if (kind === KIND.copy) bytes.copyWithin(where, what, what + total)
      else if (kind === KIND.fill) bytes.fill(what, where, where + total)
      else {
        const run = runs[what] ?? this.#load(tasks + index * TASK_BYTES)
        try {
          run(where, scratch, 0, total)
        } catch (cause) {
          throw failed(cause)
        }
      }
    }
  }

  /** Whether others can take parts of a job: it is one dispatch, of several chunks. */
  isShareable({ tasks, count }: PostedJob): boolean {
    const { words } = this.#heap
    const at = tasks >>> 2
    return count === 1 && words[at + WORD.kind] === KIND.dispatch && (words[at + WORD.total] ?? 0) > (words[at + WORD.chunk] ?? 0)
  }

  /** Takes chunks of a job that others take chunks of, too, until none are left. `scratch` is this thread's own. */
  runShare({ tasks }: PostedJob, scratch: number): void {
    const { words } = this.#heap
    const at = tasks >>> 2
    const [total, chunk, where] = [words[at + WORD.total] ?? 0, words[at + WORD.chunk] ?? 1, (words[at + WORD.where] ?? 0) >>> 0]
    const run = this.#runs[words[at + WORD.what] ?? 0] ?? this.#load(tasks)
    for (;;) {
      const begin = chunk * Atomics.add(words, at + WORD.next, 1)
      if (begin >= total) return
      try {
        run(where, scratch, begin, Math.min(begin + chunk, total))
      } catch (cause) {
        throw failed(cause)
      }
    }
  }

  async #task(task: number, scratch: number): Promise<void> {
    const { run, total, where } = this.#read(task)
    if (run === undefined) return
    // begins with one workgroup and doubles while a part of the work is much shorter than a slice
    let part = 1
    for (let begin = 0; begin < total;) {
      const end = Math.min(begin + part, total)
      const [from, start] = [begin, performance.now()]
      guarded(() => run(where, scratch, from, end))
      begin = end
      if (performance.now() - start < SLICE / 4) part *= 2
      if (performance.now() - this.#sliceStart > SLICE) await this.#breathe()
    }
  }

  /** What a task runs, on how many workgroups and with the arguments at `where`; one that only moves bytes is done here. */
  #read(task: number): { readonly run?: Run; readonly total: number; readonly where: number } {
    const field = (offset: number): number => (this.#heap.words[(task + offset) >>> 2] ?? 0) >>> 0
    const [total, what, where, kind] = [field(TASK.total), field(TASK.what), field(TASK.where), field(TASK.kind)]
    if (kind === KIND.copy) this.#heap.bytes.copyWithin(where, what, what + total)
    else if (kind === KIND.fill) this.#heap.bytes.fill(what, where, where + total)
    else return { run: this.#runs[what] ?? this.#load(task), total, where }
    return { total, where }
  }

  /** The program of a task that is met for the first time. */
  #load(task: number): Run {
    const field = (offset: number): number => (this.#heap.words[(task + offset) >>> 2] ?? 0) >>> 0
    const module = new WebAssembly.Module(this.#heap.copy(field(TASK.code), field(TASK.codeBytes)))
    const { exports } = new WebAssembly.Instance(module, importsFor(this.#heap.memory))
    const run = exports['run'] as Run // which every module of emitWasm has
    this.#runs[field(TASK.what)] = run
    return run
  }

  async #breathe(): Promise<void> {
    await new Promise<void>((resolve) => {
      setTimeout(resolve, 0)
    })
    if (this.#closed) throw new IngotError('closed', 'the cpu device was closed', { op: 'submit' })
    this.#sliceStart = performance.now()
  }
}

function guarded(run: () => void): void {
  try {
    run()
  } catch (cause) {
    throw failed(cause)
  }
}

function failed(cause: unknown): IngotError {
  return new IngotError('device-failed', `a kernel failed: ${messageOf(cause)}`, {
    op: 'submit',
    cause,
    hint: 'the device is still usable',
  })
}
