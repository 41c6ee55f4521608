// Everything that devices do alike, over a backend that does what is its own: handles and their memory, the cache of programs, checks
// before anything happens, counters, recordings, the end.
//
// Invariant: a call that is refused has changed nothing.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { hashKernel } from '../../ir/hash.ts'
import type { Kernel } from '../../ir/kernel.ts'
import {
  type BufferHandle,
  type ByteRange,
  type Command,
  type Device,
  type OpenCommand,
  type Program,
  type Range,
  type Recording,
  type Stats,
  emptyStats,
} from '../device.ts'
import type { Backend, Compilation, ReadPieces } from './backend.ts'
import { BufferTable } from './buffer-table.ts'
import { bindWords, checkCommands, checkLoaded, checkSize } from './check.ts'
import type { BoundRange, CheckedCommand } from './checked-command.ts'
import type { Lifecycle } from './lifecycle.ts'
import { CheckedRecording, type RecordingContext, countDispatches } from './recording.ts'

/** What may be submitted; `prepared` is there if it was recorded. */
interface Accepted<M, P extends Program, X> {
  readonly checked: readonly CheckedCommand<M, P>[]
  readonly dispatches: number
  readonly prepared: X | undefined
  readonly filled: readonly BoundRange<M>[]
}

/** Bytes of a range that are asked for at once: no more of it is in this process than a few pieces. */
const PIECE = 16 * 2 ** 20

export class BackedDevice<M, P extends Program, X> implements Device {
  readonly name: string
  readonly caps: Caps
  readonly stats: Stats
  readonly backend: Backend<M, P, X>
  readonly #lifecycle: Lifecycle
  readonly #buffers: BufferTable<M>
  readonly #programs = new Set<Program>()
  /** by the hash of their kernel */
  readonly #compiled = new Map<string, Promise<P>>()
  readonly #context: RecordingContext<M, P>

  constructor(backend: Backend<M, P, X>) {
    const { lifecycle, caps, stats = emptyStats() } = backend
    const buffers = new BufferTable(backend, stats)
    this.name = lifecycle.name
    this.caps = caps
    this.stats = stats
    this.backend = backend
    this.#lifecycle = lifecycle
    this.#buffers = buffers
    this.#context = {
      caps,
      get frees() {
        return buffers.frees
      },
      get: (handle, op) => buffers.get(handle, op),
      owns: (program): program is P => this.#programs.has(program),
    }
  }

  get detail(): string {
    return this.backend.detail
  }

  alloc(bytes: number): BufferHandle {
    this.#lifecycle.assertUsable('alloc')
    checkSize('alloc', bytes, this.caps)
    const { handle, memory } = this.#buffers.alloc(bytes, this.caps.bufferBytes)
    this.backend.poison?.(memory)
    return handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#lifecycle.assertUsable('load')
    checkSize('load', range.bytes, this.caps)
    // Memory has a handle as soon as it is there, so that `close`, which waits for it, finds it.
    const loading = this.backend.load(range, (put) => this.#readPieces(range, put))
    const { handle } = await this.#lifecycle.track(loading.then((memory) => this.#buffers.adopt(memory, range.bytes)))
    this.#lifecycle.assertUsable('load')
    return handle
  }

  free(buffer: BufferHandle): void {
    this.#lifecycle.assertUsable('free')
    const { backend } = this
    this.#buffers.free(buffer, backend.isReusable === undefined || backend.isReusable(this.#buffers.get(buffer, 'free').memory))
  }

  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void {
    this.#lifecycle.assertUsable('write')
    this.backend.write(bindWords('write', this.#buffers.get(buffer, 'write'), offset, bytes.length, true), bytes)
    this.stats.bytesWritten += bytes.length
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#lifecycle.assertUsable('read')
    const got = await this.backend.read(bindWords('read', this.#buffers.get(buffer, 'read'), offset, bytes, false))
    this.stats.bytesRead += bytes
    return got
  }

  async compile(kernel: Kernel): Promise<Program> {
    this.#lifecycle.assertUsable('compile')
    const key = hashKernel(kernel)
    const known = this.#compiled.get(key)
    if (known !== undefined) {
      const program = await known
      this.stats.compileHits++
      return program
    }
    const compiling = this.#addProgram(this.backend.compile(kernel, key))
    this.#compiled.set(key, compiling)
    compiling.catch(() => this.#compiled.delete(key)) // may be tried again
    return this.#lifecycle.track(compiling)
  }

  record(commands: readonly OpenCommand[]): Recording {
    this.#lifecycle.assertUsable('record')
    return new CheckedRecording(commands, this.#context, this.backend)
  }

  submit(work: readonly Command[] | Recording, ranges: readonly Range[] = []): Promise<Uint8Array[]> {
    try {
      const { checked, dispatches, prepared, filled } = this.#accept(work, ranges)
      this.stats.submissions++
      this.stats.dispatches += dispatches
      const got = this.backend.run(checked, prepared, filled)
      return Array.isArray(got) ? Promise.resolve(this.#count(got)) : got.then((bytes) => this.#count(bytes))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #count(got: Uint8Array[]): Uint8Array[] {
    for (const { length } of got) this.stats.bytesRead += length
    return got
  }

  async sync(): Promise<void> {
    this.#lifecycle.assertUsable('sync')
    await this.backend.sync()
  }

  close(): Promise<void> {
    return this.#lifecycle.close(async () => {
      await this.backend.sync().catch(() => {}) // what failed has said so to whoever asked for it
      this.#buffers.close()
      await this.backend.release()
      this.#compiled.clear()
      this.#programs.clear()
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #readPieces(range: ByteRange, put: Parameters<ReadPieces>[0]): Promise<void> {
    for (let at = 0; at < range.bytes; at += PIECE) {
      const length = Math.min(PIECE, range.bytes - at)
      const piece = await range.read(at, length)
      this.#lifecycle.assertUsable('load')
      checkLoaded(range, at, length, piece.length)
      await put(at, piece)
    }
    this.stats.bytesWritten += range.bytes
  }

  async #addProgram({ program, fresh }: Compilation<P>): Promise<P> {
    const built = await program
    if (fresh) this.stats.compiles++
    else this.stats.compileHits++
    this.#programs.add(built)
    return built
  }

  #accept(work: readonly Command[] | Recording, ranges: readonly Range[]): Accepted<M, P, X> {
    this.#lifecycle.assertUsable('submit')
    if (!('commands' in work)) {
      const checked = checkCommands(work, this.#context)
      return { checked, dispatches: countDispatches(checked), prepared: undefined, filled: [] }
    }
    if (!this.#recorded(work)) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    const { checked, dispatches, prepared } = work
    return { checked, dispatches, prepared, filled: work.check(ranges) }
  }

  /** What this device recorded, it recorded with its own types. */
  #recorded(work: Recording): work is CheckedRecording<M, P, X> {
    return work instanceof CheckedRecording && work.context === this.#context
  }
}

/** The bytes of a submission that reads back once. */
export function takeOnlyRead([bytes]: readonly Uint8Array[]): Uint8Array {
  if (bytes === undefined) throw new IngotError('device-failed', 'a submission gave no bytes', { op: 'read' })
  return bytes
}
