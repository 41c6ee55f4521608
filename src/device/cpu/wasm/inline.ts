// Jobs on this very thread, where there is no shared memory. Work is cut into slices of a few milliseconds, with room for
// other events between them.

import { IngotError, messageOf } from '../../../base/error.ts'
import { importsFor } from '../../../emit/wasm/math.ts'
import { KIND } from '../encode.ts'
import type { Heap } from '../heap.ts'
import type { Executor, PostedJob } from './executor.ts'
import { TASK, TASK_BYTES } from './layout.ts'

type Run = (args: number, scratch: number, begin: number, end: number) => void

const SLICE = 4 // milliseconds

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

  async #task(task: number, scratch: number): Promise<void> {
    const field = (offset: number): number => (this.#heap.words[(task + offset) >>> 2] ?? 0) >>> 0
    const [total, what, where] = [field(TASK.total), field(TASK.what), field(TASK.where)]
    const kind = field(TASK.kind)
    if (kind === KIND.copy) return void this.#heap.bytes.copyWithin(where, what, what + total)
    if (kind === KIND.fill) return void this.#heap.bytes.fill(what, where, where + total)
    const run = (this.#runs[what] ??= this.#instantiate(field(TASK.code), field(TASK.codeBytes)))
    // begins with one workgroup and doubles while a part of the work is much shorter than a slice
    let part = 1
    for (let begin = 0; begin < total;) {
      const end = Math.min(begin + part, total)
      const start = performance.now()
      try {
        run(where, scratch, begin, end)
      } catch (cause) {
        throw new IngotError('device-failed', `a kernel failed: ${messageOf(cause)}`, {
          op: 'submit',
          cause,
          hint: 'the device is still usable',
        })
      }
      begin = end
      if (performance.now() - start < SLICE / 4) part *= 2
      if (performance.now() - this.#sliceStart > SLICE) await this.#breathe()
    }
  }

  #instantiate(at: number, bytes: number): Run {
    const module = new WebAssembly.Module(this.#heap.copy(at, bytes))
    const { exports } = new WebAssembly.Instance(module, importsFor(this.#heap.memory))
    return exports['run'] as Run // which every module of emitWasm has
  }

  async #breathe(): Promise<void> {
    await new Promise<void>((resolve) => {
      setTimeout(resolve, 0)
    })
    if (this.#closed) throw new IngotError('closed', 'the cpu device was closed', { op: 'submit' })
    this.#sliceStart = performance.now()
  }
}
