// What is the cpu device's own, over a runtime (runtime.ts), whichever it is.
//
// Everything that touches buffers is a job, and jobs run in the order of the calls: also writes and reads that come while work
// is under way. So memory of a freed buffer may be given out again at once; only what goes back to the heap waits.

import type { Caps } from '../../base/caps.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { takeOnlyRead } from '../core/backed-device.ts'
import type { Backend, Compilation, ReadPieces } from '../core/backend.ts'
import { type BoundRange, type CheckedCommand, fillCommands } from '../core/checked-command.ts'
import { Lifecycle } from '../core/lifecycle.ts'
import type { ByteRange, Program } from '../device.ts'
import { BriefWork } from './brief.ts'
import { placeOfBlank } from './opening.ts'
import type { Job, Runtime } from './runtime.ts'

/** What a recording keeps: jobs that are not running, of which there are as many as ever ran at once. */
interface RecordedJobs<J> {
  readonly idle: J[]
  disposed: boolean
}

export class CpuBackend<J extends Job, P extends Program> implements Backend<number, P, RecordedJobs<J>> {
  readonly lifecycle = new Lifecycle('cpu')
  readonly caps: Caps
  readonly runtime: Runtime<J, P>
  readonly #brief = new BriefWork()

  constructor(runtime: Runtime<J, P>) {
    this.runtime = runtime
    this.caps = runtime.caps
  }

  get detail(): string {
    return this.runtime.detail
  }

  create(bytes: number): number {
    return this.runtime.alloc(bytes, 'alloc')
  }

  /** Gives memory back once no job that was posted can touch it. */
  destroy(at: number): void {
    if (this.runtime.pending === 0) this.runtime.free(at)
    else
      void this.lifecycle.settled().finally(() => {
        if (!this.lifecycle.closed) this.runtime.free(at)
      })
  }

  async load(range: ByteRange, readPieces: ReadPieces): Promise<number> {
    const mapped = await this.runtime.map(range)
    if (mapped !== undefined) return mapped
    const at = this.runtime.alloc(range.bytes, 'load')
    try {
      await readPieces((offset, piece) => this.runtime.write(at + offset, piece))
      return at
    } catch (error) {
      this.runtime.free(at) // no job has seen it
      throw error
    }
  }

  write(to: BoundRange<number>, bytes: Uint8Array): void {
    if (this.runtime.pending === 0) return this.runtime.write(to.buffer.memory + to.offset, bytes)
    // While work is under way, the bytes wait in memory of their own for their turn.
    const staged = this.runtime.alloc(bytes.length, 'write')
    this.runtime.write(staged, bytes)
    const from = { buffer: { ...to.buffer, memory: staged }, offset: 0, bytes: bytes.length, written: false }
    void Promise.resolve(this.#runOnce([{ kind: 'copy', from, to, bytes: from.bytes }]))
      .catch(() => {}) // a device that is lost says so when work is submitted or read
      .finally(() => {
        if (!this.lifecycle.closed) this.runtime.free(staged)
      })
  }

  async read(from: BoundRange<number>): Promise<Uint8Array> {
    if (this.runtime.pending > 0) return takeOnlyRead(await this.#runOnce([{ kind: 'read', from, bytes: from.bytes }]))
    return this.runtime.read(from.buffer.memory + from.offset, from.bytes)
  }

  compile(kernel: Kernel, key: string): Compilation<P> {
    const compile = async (): Promise<P> => {
      const program = await this.runtime.compile(kernel, key)
      this.lifecycle.assertUsable('compile')
      return program
    }
    return { program: compile(), fresh: true }
  }

  blank(number: number): number {
    return placeOfBlank(number)
  }

  prepare(commands: readonly CheckedCommand<number, P>[]): RecordedJobs<J> {
    return { idle: [this.runtime.encode(commands)], disposed: false }
  }

  dispose(recorded: RecordedJobs<J>): void {
    recorded.disposed = true
    for (const job of recorded.idle.splice(0)) this.#release(job)
  }

  run(
    commands: readonly CheckedCommand<number, P>[],
    recorded: RecordedJobs<J> | undefined,
    filled: readonly BoundRange<number>[],
  ): Uint8Array[] | Promise<Uint8Array[]> {
    if (recorded === undefined) return this.#runOnce(commands)
    const job = recorded.idle.pop() ?? this.runtime.encode(commands)
    return this.#finally(
      () => (this.runtime.fill(job, filled) ? this.#runJob(job, commands) : this.#runOnce(fillCommands(commands, filled))),
      () => {
        if (recorded.disposed) this.#release(job)
        else recorded.idle.push(job)
      },
    )
  }

  sync(): Promise<void> {
    return this.lifecycle.settled()
  }

  release(): Promise<void> {
    return this.runtime.close()
  }

  #runOnce(commands: readonly CheckedCommand<number, P>[]): Uint8Array[] | Promise<Uint8Array[]> {
    const job = this.runtime.encode(commands)
    return this.#finally(
      () => this.#runJob(job, commands),
      () => this.#release(job),
    )
  }

  /** Work, and what is to be done after it: at once, if it is done then. */
  #finally(work: () => Uint8Array[] | Promise<Uint8Array[]>, after: () => void): Uint8Array[] | Promise<Uint8Array[]> {
    let got: Uint8Array[] | Promise<Uint8Array[]>
    try {
      got = work()
    } catch (error) {
      after()
      throw error
    }
    if (!Array.isArray(got)) return got.finally(after)
    after()
    return got
  }

  #runJob(job: J, commands: readonly CheckedCommand<number, P>[]): Uint8Array[] | Promise<Uint8Array[]> {
    return this.#runHere(job, commands) ?? this.#run(job, commands)
  }

  /** What brief work gives, done at once; undefined for all other. */
  #runHere(job: J, commands: readonly CheckedCommand<number, P>[]): Uint8Array[] | undefined {
    if (this.runtime.pending > 0 || !this.#brief.takes(commands)) return undefined
    let done = false
    this.#brief.run(commands, (helped) => {
      done = this.runtime.runHere(job, helped)
    })
    return done ? this.#results(job) : undefined
  }

  async #run(job: J, commands: readonly CheckedCommand<number, P>[]): Promise<Uint8Array[]> {
    const begun = performance.now()
    await this.lifecycle.track(this.runtime.run(job))
    this.#brief.seen(commands, performance.now() - begun)
    return this.#results(job)
  }

  #results({ reads }: J): Uint8Array[] {
    const results: Uint8Array[] = []
    for (const { at, bytes } of reads) results.push(this.runtime.read(at, bytes))
    return results
  }

  #release(job: J): void {
    if (!this.lifecycle.closed) this.runtime.release(job)
  }
}
