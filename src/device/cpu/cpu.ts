// The cpu device: kernels as WebAssembly with SIMD on worker threads, over one shared memory. Needs no driver and no
// compiler; without shared memory it runs on this thread.
//
// Everything that touches buffers is a job, and jobs run in the order of the calls: also writes and reads that come while work
// is under way. So memory of a freed buffer may be given out again at once; only what goes back to the heap waits.

import type { Caps } from '../../base/caps.ts'
import { IngotError, isIngotError } from '../../base/error.ts'
import { emitWasm } from '../../emit/wasm/emit.ts'
import { type WasmFeatures, detectWasm } from '../../emit/wasm/features.ts'
import { hashKernel } from '../../ir/hash.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { type Checked, checkCommands, checkKernel, checkSize, checkTransfer, checkWritable } from '../check.ts'
import { type BufferHandle, type ByteRange, type Command, type Device, type Program, type Recording, emptyStats } from '../device.ts'
import type { DeviceFactory, OpenOptions, Probe } from '../factory.ts'
import { CheckedRecording } from '../recording.ts'
import { BufferTable, type Entry } from '../table.ts'
import type { Executor } from './executor.ts'
import { Heap } from './heap.ts'
import { Inline } from './inline.ts'
import { type CpuProgram, type Plan, encodePlan } from './plan.ts'
import { Pool } from './pool.ts'
import { countThreads } from './thread-count.ts'

export interface CpuOptions extends OpenOptions {
  /** less than the engine has, for tests: `threads: false` means no shared memory */
  readonly features?: WasmFeatures
}

export const cpu: DeviceFactory = {
  name: 'cpu',
  about: 'WebAssembly SIMD on worker threads: runs everywhere',
  probe: async (): Promise<Probe> => {
    const features = await detectWasm()
    const detail = describe(features, features.threads ? await countThreads() : 0)
    const key = `wasm ${typeof process === 'undefined' ? navigator.userAgent : process.versions['v8']} ${detail}`
    return features.simd && features.bulk ? { available: true, detail, key } : { available: false, detail, key, reason: 'the engine has no WebAssembly SIMD' }
  },
  open: openCpu,
}

export async function openCpu({ threads, features = undefined }: CpuOptions = {}): Promise<Device> {
  const found = features ?? await detectWasm()
  if (!found.simd || !found.bulk) throw new IngotError('device-unavailable', 'the engine has no WebAssembly SIMD', { op: 'cpu' })
  if (threads !== undefined && (!Number.isInteger(threads) || threads < 1)) {
    throw new IngotError('bad-argument', 'bad number of threads', { op: 'cpu', got: threads, wanted: 'a whole number from 1' })
  }
  return new CpuDevice(found, found.threads ? threads ?? await countThreads() : 0)
}

function describe({ relaxed }: WasmFeatures, threads: number): string {
  const how = threads === 0 ? 'on this thread' : threads === 1 ? '1 thread' : `${threads} threads`
  return `WebAssembly ${relaxed ? 'relaxed SIMD' : 'SIMD'}, ${how}`
}

/** Bytes that `load` asks its source for at once. */
const LOAD_CHUNK = 8 * 2 ** 20
const SHARED_BYTES = 2 ** 20

/** What a recording keeps: plans that are not running, of which there are as many as ever ran at once. */
interface Recorded {
  readonly idle: Plan[]
  disposed: boolean
}

class CpuDevice implements Device {
  readonly name = 'cpu'
  readonly detail: string
  readonly caps: Caps
  readonly stats = emptyStats()
  readonly #features: WasmFeatures
  readonly #heap: Heap
  readonly #threads: number
  readonly #executor: Executor
  readonly #table: BufferTable<number>
  readonly #compiled = new Map<string, Promise<CpuProgram>>()
  readonly #programs = new Set<Program>()
  readonly #ground
  /** settles when all that was submitted until now is done */
  #last: Promise<unknown> = Promise.resolve()
  #scratch = { at: 0, stride: 0 }
  #closed = false

  constructor(features: WasmFeatures, threads: number) {
    const heap = new Heap(features.threads)
    this.detail = describe(features, threads)
    this.#features = features
    this.#heap = heap
    this.#threads = Math.max(threads, 1)
    this.#executor = threads > 0 ? new Pool(heap, threads) : new Inline(heap)
    this.caps = capsOf(heap.mostBytes, this.#threads)
    const table = new BufferTable<number>({ create: (bytes) => heap.alloc(bytes), destroy: (at) => this.#freeLater(at) }, this.stats)
    this.#table = table
    this.#ground = {
      caps: this.caps,
      get frees() { return table.frees },
      get: (handle: BufferHandle, op: string) => table.get(handle, op),
      owns: (program: Program) => this.#programs.has(program),
    }
  }

  alloc(bytes: number): BufferHandle {
    this.#open('alloc')
    checkSize('alloc', bytes, this.caps)
    return this.#table.alloc(bytes, this.caps.bufferBytes).handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#open('load')
    checkSize('load', range.bytes, this.caps)
    const at = this.#heap.alloc(range.bytes, 'load')
    try {
      for (let done = 0; done < range.bytes;) {
        const bytes = await range.read(done, Math.min(LOAD_CHUNK, range.bytes - done))
        if (bytes.length === 0) throw new IngotError('bad-file', 'the range ended early', { op: 'load', got: done, wanted: range.bytes })
        this.#open('load')
        this.#heap.bytes.set(bytes, at + done)
        done += bytes.length
      }
    } catch (error) {
      this.#heap.free(at)
      throw error
    }
    this.stats.bytesWritten += range.bytes
    return this.#table.adopt(at, range.bytes).handle
  }

  free(buffer: BufferHandle): void {
    this.#open('free')
    this.#table.free(buffer)
  }

  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void {
    this.#open('write')
    const entry = this.#table.get(buffer, 'write')
    checkTransfer('write', entry, offset, bytes.length)
    checkWritable('write', entry)
    if (this.#executor.pending === 0) this.#heap.bytes.set(bytes, entry.memory + offset)
    else this.#writeLater(entry, offset, bytes)
    this.stats.bytesWritten += bytes.length
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#open('read')
    const entry = this.#table.get(buffer, 'read')
    checkTransfer('read', entry, offset, bytes)
    if (this.#executor.pending === 0) {
      this.stats.bytesRead += bytes
      return this.#heap.copy(entry.memory + offset, bytes)
    }
    const [read] = await this.#runOnce([{ kind: 'read', from: { entry, offset, bytes } }])
    return read as Uint8Array
  }

  async compile(kernel: Kernel): Promise<Program> {
    this.#open('compile')
    const key = hashKernel(kernel)
    const known = this.#compiled.get(key)
    if (known !== undefined) {
      const program = await known
      this.stats.compileHits++
      return program
    }
    checkKernel(kernel, this.caps)
    const compiling = this.#compile(kernel, key)
    this.#compiled.set(key, compiling)
    try {
      return await compiling
    } catch (error) {
      this.#compiled.delete(key)
      throw error
    }
  }

  record(commands: readonly Command[]): Recording {
    this.#open('record')
    return new CheckedRecording<number, Recorded>(commands, this.#ground,
      (checked) => ({ idle: [encodePlan(this.#heap, checked, this.#threads)], disposed: false }),
      (recorded) => {
        recorded.disposed = true
        for (const { block } of recorded.idle.splice(0)) if (!this.#closed) this.#heap.free(block)
      })
  }

  async submit(work: readonly Command[] | Recording): Promise<Uint8Array[]> {
    this.#open('submit')
    if (!('commands' in work)) {
      const checked = checkCommands(work, this.#ground)
      this.stats.submissions++
      return this.#runOnce(checked)
    }
    if (!(work instanceof CheckedRecording)) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    const recording = work as CheckedRecording<number, Recorded>
    recording.check(this.#ground)
    this.stats.submissions++
    const { extra, checked } = recording
    const plan = extra.idle.pop() ?? encodePlan(this.#heap, checked, this.#threads)
    try {
      return await this.#run(plan)
    } finally {
      if (extra.disposed) this.#heap.free(plan.block)
      else extra.idle.push(plan)
    }
  }

  async sync(): Promise<void> {
    this.#open('sync')
    await this.#last
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#last
    await this.#executor.close()
    this.#table.close()
    this.#compiled.clear()
    this.#programs.clear()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** The module is compiled here once; threads that load the same bytes share the engine's code. */
  async #compile(kernel: Kernel, key: string): Promise<CpuProgram> {
    const { bytes, tables, scratchBytes } = emitWasm(kernel, this.#features)
    try {
      await WebAssembly.compile(bytes)
    } catch (cause) {
      if (isIngotError(cause)) throw cause
      throw new IngotError('compile-failed', `the engine refuses the module: ${(cause as Error).message}`, { op: kernel.name, cause })
    }
    this.#open('compile')
    this.stats.compiles++
    const program = {
      kernel, key, number: this.#programs.size, code: this.#place(bytes), codeBytes: bytes.length,
      tables: tables.length === 0 ? 0 : this.#place(tables), scratchBytes,
    }
    this.#programs.add(program)
    return program
  }

  #place(bytes: Uint8Array): number {
    const at = this.#heap.alloc(bytes.length, 'compile')
    this.#heap.bytes.set(bytes, at)
    return at
  }

  /** A write while work is under way: the bytes wait in memory of their own for their turn. */
  #writeLater(entry: Entry<number>, offset: number, bytes: Uint8Array): void {
    const staged = this.#heap.alloc(bytes.length, 'write')
    this.#heap.bytes.set(bytes, staged)
    const from = { entry: { ...entry, memory: staged }, offset: 0, bytes: bytes.length }
    const done = this.#runOnce([{ kind: 'copy', from, to: { entry, offset, bytes: bytes.length } }])
    // a device that is lost tells so when work is submitted or read
    void done.catch(() => {}).finally(() => this.#heap.free(staged))
  }

  async #runOnce(commands: readonly Checked<number>[]): Promise<Uint8Array[]> {
    const plan = encodePlan(this.#heap, commands, this.#threads)
    try {
      return await this.#run(plan)
    } finally {
      this.#heap.free(plan.block)
    }
  }

  async #run({ entries, count, reads, dispatches, scratchBytes }: Plan): Promise<Uint8Array[]> {
    this.stats.dispatches += dispatches
    this.#needScratch(scratchBytes)
    const done = this.#executor.run({ entries, count, scratch: this.#scratch.at, scratchStride: this.#scratch.stride })
    this.#last = Promise.allSettled([this.#last, done])
    await done
    return reads.map(({ at, bytes }) => {
      this.stats.bytesRead += bytes
      return this.#heap.copy(at, bytes)
    })
  }

  /** Makes the threads' own memory large enough; jobs that were posted keep what they have. */
  #needScratch(bytes: number): void {
    if (bytes <= this.#scratch.stride) return
    const stride = Math.ceil(bytes / 4096) * 4096
    const at = this.#heap.alloc(stride * this.#threads, 'submit')
    if (this.#scratch.stride > 0) this.#freeLater(this.#scratch.at)
    this.#scratch = { at, stride }
  }

  /** Gives memory back once no job that was posted can touch it. */
  #freeLater(at: number): void {
    if (this.#executor.pending === 0) this.#heap.free(at)
    else void this.#last.then(() => this.#heap.free(at))
  }

  #open(op: string): void {
    if (this.#closed) throw new IngotError('closed', 'the cpu device was closed', { op })
  }
}

function capsOf(bufferBytes: number, threads: number): Caps {
  return {
    lanes: 1, subgroup: 0, tiles: false, f16: false, width: 4, dot: true, parallel: threads, sharedBytes: SHARED_BYTES,
    bufferBytes, bindingBytes: bufferBytes, bindings: 64, grid: 2 ** 31 - 1, alignment: 64,
  }
}
