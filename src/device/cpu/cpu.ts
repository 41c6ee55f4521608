// The cpu device: native kernels where the library was built, else WebAssembly with SIMD on worker threads, which needs no driver
// and no compiler. Which of them runs (runtime.ts) is chosen when it is opened, and only its code is loaded: native kernels need
// neither an emitter nor to know what the engine can do.
//
// Everything that touches buffers is a job, and jobs run in the order of the calls: also writes and reads that come while work
// is under way. So memory of a freed buffer may be given out again at once; only what goes back to the heap waits.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import type { WasmFeatures } from '../../emit/wasm/features.ts'
import { hashKernel } from '../../ir/hash.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { type Checked, checkCommands, checkSize, checkTransfer, checkWritable } from '../check.ts'
import { type BufferHandle, type ByteRange, type Command, type Device, type Program, type Recording, emptyStats } from '../device.ts'
import type { DeviceFactory, OpenOptions, Probe } from '../factory.ts'
import { CheckedRecording } from '../recording.ts'
import { BufferTable, type Entry } from '../table.ts'
import type { Found } from './native.ts'
import type { BlasOptions, ProductReport } from './product-choice.ts'
import type { Runtime, Work } from './runtime.ts'
import { countThreads } from './thread-count.ts'
import { isNode } from './thread.ts'

export interface CpuOptions extends OpenOptions {
  /** `wasm`, or an instruction set of the native library (level.ts); default: INGOT_CPU, else the best there is */
  readonly level?: string
  /** where the native libraries are, if not where set-up puts them */
  readonly libraries?: string
  /** less than the engine has, for tests: `threads: false` means no shared memory; no native library then */
  readonly features?: WasmFeatures
  /** which BLAS library may multiply f32 matrices, and when */
  readonly blas?: BlasOptions
}

const WASM = 'wasm'

export const cpu: DeviceFactory = {
  name: 'cpu',
  about: 'native kernels where they are built, WebAssembly SIMD on worker threads everywhere else',
  probe: async (): Promise<Probe> => {
    const { native, reason } = await findLibrary({}).catch((error: Error): Found => ({ reason: error.message }))
    if (native !== undefined) {
      const { describeNative } = await import('./native-runtime.ts')
      const detail = describeNative(native, await countThreads())
      return { available: true, detail, key: `${detail} ${native.key}` }
    }
    const level = levelAsked()
    if (level !== undefined && level !== WASM) return { available: false, detail: `native, ${level}`, key: level, reason: String(reason) }
    const [{ describeWasm }, { detectWasm }] = await Promise.all([import('./wasm-runtime.ts'), import('../../emit/wasm/features.ts')])
    const features = await detectWasm()
    const detail = describeWasm(features, features.threads ? await countThreads() : 0)
    const key = `wasm ${typeof process === 'undefined' ? navigator.userAgent : process.versions['v8']} ${detail}`
    if (!features.simd || !features.bulk) return { available: false, detail, key, reason: 'the engine has no WebAssembly SIMD' }
    return { available: true, detail, key, ...(isNode() && level !== WASM ? { faster: String(reason) } : {}) }
  },
  open: openCpu,
}

export async function openCpu(options: CpuOptions = {}): Promise<Device> {
  const { threads } = options
  if (threads !== undefined && (!Number.isInteger(threads) || threads < 1)) {
    throw new IngotError('bad-argument', 'bad number of threads', { op: 'cpu', got: threads, wanted: 'a whole number from 1' })
  }
  const count = threads ?? (await countThreads())
  const { native } = await findLibrary(options)
  if (native === undefined) {
    const { openWasm } = await import('./wasm-runtime.ts')
    return new CpuDevice(await openWasm(count, options))
  }
  const { NativeRuntime } = await import('./native-runtime.ts')
  return new CpuDevice(new NativeRuntime(native, count, options.blas))
}

/** Who multiplies f32 matrices on a device, as far as that was asked of it; undefined where only our own kernels do. */
export function productsOf(device: Device): ProductReport | undefined {
  return device instanceof CpuDevice ? device.products : undefined
}

/** The native library, or why there is none; one that was asked for must be there. */
async function findLibrary({ level, libraries, features }: CpuOptions): Promise<Found> {
  const asked = level ?? (features === undefined ? levelAsked() : WASM)
  if (!isNode() || asked === WASM) return { reason: 'WebAssembly was asked for' }
  const { findNative } = await import('./native.ts')
  const found = await findNative({ level: asked, folder: libraries })
  if (found.native !== undefined || asked === undefined) return found
  throw new IngotError('device-unavailable', found.reason, { op: 'cpu', got: asked, hint: 'unset INGOT_CPU to take what works' })
}

function levelAsked(): string | undefined {
  const asked = isNode() ? process.env['INGOT_CPU']?.trim().toLowerCase() : undefined
  return asked === '' || asked === 'auto' ? undefined : asked
}

/** Bytes that `load` asks its source for at once. */
const LOAD_CHUNK = 8 * 2 ** 20

/** What a recording keeps: work that is not running, of which there is as much as ever ran at once. */
interface Recorded {
  readonly idle: Work[]
  disposed: boolean
}

class CpuDevice implements Device {
  readonly name = 'cpu'
  readonly caps: Caps
  readonly stats = emptyStats()
  readonly #runtime: Runtime
  readonly #table: BufferTable<number>
  readonly #compiled = new Map<string, Promise<Program>>()
  readonly #programs = new Set<Program>()
  readonly #ground
  /** settles when all that was submitted until now is done */
  #last: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(runtime: Runtime) {
    this.#runtime = runtime
    this.caps = runtime.caps
    const table = new BufferTable<number>(
      { create: (bytes) => runtime.alloc(bytes, 'alloc'), destroy: (at) => this.#freeLater(at) },
      this.stats,
    )
    this.#table = table
    this.#ground = {
      caps: this.caps,
      get frees() {
        return table.frees
      },
      get: (handle: BufferHandle, op: string) => table.get(handle, op),
      owns: (program: Program) => this.#programs.has(program),
    }
  }

  get detail(): string {
    return this.#runtime.detail
  }
  get products(): ProductReport | undefined {
    return this.#runtime.products
  }

  alloc(bytes: number): BufferHandle {
    this.#open('alloc')
    checkSize('alloc', bytes, this.caps)
    return this.#table.alloc(bytes, this.caps.bufferBytes).handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#open('load')
    checkSize('load', range.bytes, this.caps)
    const mapped = await this.#runtime.map(range)
    if (mapped !== undefined) {
      if (!this.#closed) return this.#table.adopt(mapped, range.bytes).handle
      this.#runtime.free(mapped)
      this.#open('load')
    }
    const at = this.#runtime.alloc(range.bytes, 'load')
    try {
      for (let done = 0; done < range.bytes;) {
        const bytes = await range.read(done, Math.min(LOAD_CHUNK, range.bytes - done))
        if (bytes.length === 0) throw new IngotError('bad-file', 'the range ended early', { op: 'load', got: done, wanted: range.bytes })
        this.#open('load')
        this.#runtime.write(at + done, bytes)
        done += bytes.length
      }
    } catch (error) {
      if (!this.#closed) this.#freeLater(at)
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
    if (this.#runtime.pending === 0) this.#runtime.write(entry.memory + offset, bytes)
    else this.#writeLater(entry, offset, bytes)
    this.stats.bytesWritten += bytes.length
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#open('read')
    const entry = this.#table.get(buffer, 'read')
    checkTransfer('read', entry, offset, bytes)
    if (this.#runtime.pending === 0) {
      this.stats.bytesRead += bytes
      return this.#runtime.read(entry.memory + offset, bytes)
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
    return new CheckedRecording<number, Recorded>(
      commands,
      this.#ground,
      (checked) => ({ idle: [this.#runtime.encode(checked)], disposed: false }),
      (recorded) => {
        recorded.disposed = true
        for (const work of recorded.idle.splice(0)) this.#release(work)
      },
    )
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
    const ready = extra.idle.pop() ?? this.#runtime.encode(checked)
    try {
      return await this.#run(ready)
    } finally {
      if (extra.disposed) this.#release(ready)
      else extra.idle.push(ready)
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
    this.#table.close()
    await this.#runtime.close()
    this.#compiled.clear()
    this.#programs.clear()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #compile(kernel: Kernel, key: string): Promise<Program> {
    const program = await this.#runtime.compile(kernel, key)
    this.#open('compile')
    this.stats.compiles++
    this.#programs.add(program)
    return program
  }

  /** A write while work is under way: the bytes wait in memory of their own for their turn. */
  #writeLater(entry: Entry<number>, offset: number, bytes: Uint8Array): void {
    const staged = this.#runtime.alloc(bytes.length, 'write')
    this.#runtime.write(staged, bytes)
    const from = { entry: { ...entry, memory: staged }, offset: 0, bytes: bytes.length }
    const done = this.#runOnce([{ kind: 'copy', from, to: { entry, offset, bytes: bytes.length } }])
    // a device that is lost tells so when work is submitted or read
    void done
      .catch(() => {})
      .finally(() => {
        if (!this.#closed) this.#runtime.free(staged)
      })
  }

  async #runOnce(commands: readonly Checked<number>[]): Promise<Uint8Array[]> {
    const work = this.#runtime.encode(commands)
    try {
      return await this.#run(work)
    } finally {
      this.#release(work)
    }
  }

  async #run(work: Work): Promise<Uint8Array[]> {
    this.stats.dispatches += work.dispatches
    const done = this.#runtime.run(work)
    this.#last = Promise.allSettled([this.#last, done])
    await done
    return work.reads.map(({ at, bytes }) => {
      this.stats.bytesRead += bytes
      return this.#runtime.read(at, bytes)
    })
  }

  #release(work: Work): void {
    if (!this.#closed) this.#runtime.release(work)
  }

  /** Gives memory back once no job that was posted can touch it. */
  #freeLater(at: number): void {
    if (this.#runtime.pending === 0) this.#runtime.free(at)
    else
      void this.#last.finally(() => {
        if (!this.#closed) this.#runtime.free(at)
      })
  }

  #open(op: string): void {
    if (this.#closed) throw new IngotError('closed', 'the cpu device was closed', { op })
  }
}
