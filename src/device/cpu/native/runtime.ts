// The native library as what runs the cpu device. A job whose kernels are all in the library is one call; others are cut into native
// and WebAssembly segments, which run one after the other on the same bytes. Two calls are under way at most: while one runs, the
// next waits inside the library, so that nothing comes between them. WebAssembly is loaded when a kernel needs it.

import { totalmem } from 'node:os'
import type { Caps } from '../../../base/caps.ts'
import { IngotError } from '../../../base/error.ts'
import type { Kernel } from '../../../ir/kernel.ts'
import type { BoundRange, CheckedCommand, CheckedDispatch } from '../../core/checked-command.ts'
import type { ByteRange } from '../../device.ts'
import { type BlasOptions, ProductChoice } from '../blas/choice.ts'
import type { ProductReport } from '../blas/report.ts'
import { Heap } from '../heap.ts'
import { cpuCaps } from '../level.ts'
import type { Job, Runtime } from '../runtime.ts'
import type { WasmJob, WasmProgram } from '../wasm/encode.ts'
import type { WasmRuntime } from '../wasm/runtime.ts'
import { type NativeJob, encodeNative } from './encode.ts'
import { fillingOf } from '../opening.ts'
import { STATUS, setWide } from './layout.ts'
import type { Native, NativeProgram } from './library.ts'
import { NativeMemory } from './memory.ts'
import type { EncodedProduct } from './product.ts'
import { StandIns } from './stand-in.ts'

type Segment = { readonly native: NativeJob } | { readonly wasm: WasmJob }
type AnyProgram = NativeProgram | WasmProgram

/** Segments that run one after the other. */
export interface MixedJob extends Job {
  readonly segments: readonly Segment[]
  /** heap memory that stands in for native memory in WebAssembly segments */
  readonly staged: readonly number[]
  /** true once it is known who multiplies matrices in it */
  settled: boolean
}

const AT_ONCE = 2

interface Waiting {
  readonly job: MixedJob
  resolve(): void
  reject(error: unknown): void
}

export function describeNative({ level }: Native, threads: number): string {
  return `native ${level.title}, ${threads === 1 ? '1 thread' : `${threads} threads`}`
}

export class NativeRuntime implements Runtime<MixedJob, AnyProgram> {
  readonly kind = 'native'
  readonly caps: Caps
  readonly #native: Native
  readonly #threads: number
  readonly #heap: Heap
  readonly #memory: NativeMemory
  readonly #standIns: StandIns
  readonly #pool: number
  /** of this thread alone, for work that is not worth others */
  readonly #own: number
  #ownTicket = 0
  readonly #products: ProductChoice
  /** started when a kernel needs it */
  #starting: Promise<WasmRuntime> | undefined
  #wasm: WasmRuntime | undefined
  readonly #queue: Waiting[] = []
  #running = 0
  /** true while a job runs that must be alone */
  #alone = false
  #ticket = 0
  /** kernels that the library does not have */
  #foreign = 0

  constructor(native: Native, threads: number, blas: BlasOptions = {}) {
    this.#native = native
    this.#threads = threads
    this.#heap = new Heap(true)
    this.#memory = new NativeMemory(native, this.#heap)
    this.#standIns = new StandIns(native, this.#heap, this.#memory)
    this.#pool = native.createPool(threads)
    this.#own = native.createPool(1)
    if (this.#pool === 0 || this.#own === 0)
      throw new IngotError('device-unavailable', 'no threads can be started', { op: 'cpu', got: threads })
    this.#products = new ProductChoice({ native, heap: this.#heap, memory: this.#memory, threads, run: (job) => this.#call(job) }, blas)
    const { width, registers, pairs } = native.level
    this.caps = cpuCaps({ width, registers, pairs, threads, bufferBytes: Math.floor(totalmem() / 64) * 64 })
  }

  get products(): ProductReport | undefined {
    return this.#products.report
  }

  /** Also says how many kernels were not in the library, and whether another one multiplies. */
  get detail(): string {
    const { name, choices = [] } = this.products ?? {}
    const blas = choices.some(({ verdict }) => verdict === 'faster') ? `, ${name}` : ''
    const rest = this.#foreign === 0 ? '' : `; ${this.#foreign} ${this.#foreign === 1 ? 'kernel' : 'kernels'} as WebAssembly`
    return describeNative(this.#native, this.#threads) + blas + rest
  }

  get pending(): number {
    return this.#queue.length + this.#running
  }

  alloc(bytes: number, op: string): number {
    return this.#memory.alloc(bytes, op)
  }
  read(place: number, bytes: number): Uint8Array {
    return this.#memory.read(place, bytes)
  }
  write(place: number, bytes: Uint8Array): void {
    this.#memory.write(place, bytes)
  }
  map(range: ByteRange): Promise<number | undefined> {
    return this.#memory.map(range)
  }
  free(place: number): void {
    this.#standIns.forget(place)
    this.#memory.free(place)
  }

  /** A kernel of the library was held against these caps when it was listed, so its body need not be written here. */
  async compile(kernel: Kernel, key: string): Promise<AnyProgram> {
    const native = this.#native.find(key)
    if (native !== undefined) return { kernel, key, native }
    this.#foreign++
    this.#starting ??= import('../wasm/runtime.ts').then(({ openWasm }) => openWasm(this.#threads, { heap: this.#heap }))
    this.#wasm = await this.#starting
    return this.#wasm.compile(kernel, key)
  }

  /** Everything but foreign kernels is native: copies and reads reach all memory there. */
  encode(commands: readonly CheckedCommand<number, AnyProgram>[]): MixedJob {
    const segments: Segment[] = []
    const staged: number[] = []
    let own: CheckedCommand<number, NativeProgram>[] = []
    let foreign: CheckedDispatch<number, WasmProgram>[] = []
    const endOwn = (): void => {
      if (own.length > 0) segments.push({ native: encodeNative(this.#heap, this.#memory, own) })
      own = []
    }
    const endForeign = (): void => {
      if (foreign.length === 0) return
      const { before, inside, after } = this.#standIns.stage(foreign, staged)
      own.push(...before)
      endOwn()
      segments.push({ wasm: this.#foreignRuntime().encode(inside) })
      own.push(...after)
      foreign = []
    }
    try {
      for (const command of commands) {
        if (isForeign(command)) foreign.push(command)
        else if (isNative(command)) {
          endForeign()
          own.push(command)
        }
      }
      endForeign()
      endOwn()
    } catch (error) {
      this.release({ segments, staged, reads: [], settled: true })
      throw error
    }
    return { segments, staged, reads: segments.flatMap(readsOf), settled: segments.flatMap(productsOf).length === 0 }
  }

  fill({ segments }: MixedJob, filled: readonly BoundRange<number>[]): boolean {
    for (const segment of segments) {
      if ('wasm' in segment) {
        if (!this.#foreignRuntime().fill(segment.wasm, filled)) return false
        continue
      }
      for (const opening of segment.native.openings) {
        const { buffer, offset } = fillingOf(opening, filled)
        setWide(this.#heap.words, opening.at, this.#memory.addressOf(buffer.memory) + offset + opening.offset)
      }
    }
    return true
  }

  run(job: MixedJob): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ job, resolve, reject })
      this.#pump()
    })
  }

  /** Not where it is to be found out first who multiplies. */
  runHere({ segments, settled }: MixedJob): boolean {
    if (!settled) return false
    for (const segment of segments) {
      if ('native' in segment) checkStatus(this.#native.runHere(this.#own, this.#memory.addressOf(segment.native.block), this.#ownTicket++))
      else this.#foreignRuntime().runHere(segment.wasm)
    }
    return true
  }

  release({ segments, staged }: MixedJob): void {
    for (const segment of segments) this.#heap.free('native' in segment ? segment.native.block : segment.wasm.block)
    for (const at of staged) this.#heap.free(at)
  }

  async close(): Promise<void> {
    await (await this.#starting?.catch(() => undefined))?.close()
    this.#native.destroyPool(this.#pool)
    this.#native.destroyPool(this.#own)
    this.#memory.close()
  }

  #foreignRuntime(): WasmRuntime {
    if (this.#wasm === undefined) throw new IngotError('device-failed', 'no foreign kernel was compiled', { op: 'submit' })
    return this.#wasm
  }

  /** Starts what may start: calls of one segment two deep; alone what has several segments, or products to be measured. */
  #pump(): void {
    for (;;) {
      const [next] = this.#queue
      if (next === undefined || this.#alone) return
      const { segments, settled } = next.job
      const alone = !settled || segments.length > 1 || segments.some((segment) => 'wasm' in segment)
      if (this.#running >= (alone ? 1 : AT_ONCE)) return
      this.#queue.shift()
      this.#running++
      this.#alone = alone
      void this.#start(next, alone)
    }
  }

  async #start({ job, resolve, reject }: Waiting, alone: boolean): Promise<void> {
    let failed: { readonly error: unknown } | undefined
    try {
      if (!job.settled) await this.#products.settle(job.segments.flatMap(productsOf))
      job.settled = true
      for (const segment of job.segments) {
        await ('native' in segment ? this.#call(segment.native) : this.#foreignRuntime().run(segment.wasm))
      }
    } catch (error) {
      failed = { error }
    }
    this.#running--
    if (alone) this.#alone = false
    if (failed === undefined) resolve()
    else reject(failed.error)
    this.#pump()
  }

  async #call({ block }: NativeJob): Promise<void> {
    checkStatus(await this.#native.run(this.#pool, this.#memory.addressOf(block), this.#ticket++))
  }
}

function checkStatus(status: number): void {
  if (status === STATUS.ok) return
  throw status === STATUS.noMemory
    ? new IngotError('out-of-memory', 'no memory for the threads to work in', { op: 'submit' })
    : new IngotError('device-failed', 'the work was cancelled', { op: 'submit', got: status })
}

function isForeign(command: CheckedCommand<number, AnyProgram>): command is CheckedDispatch<number, WasmProgram> {
  return command.kind === 'dispatch' && !('native' in command.program)
}

function isNative(command: CheckedCommand<number, AnyProgram>): command is CheckedCommand<number, NativeProgram> {
  return command.kind !== 'dispatch' || 'native' in command.program
}

/** Foreign segments read nothing back. */
function readsOf(segment: Segment): Job['reads'] {
  return 'native' in segment ? segment.native.reads : []
}

function productsOf(segment: Segment): readonly EncodedProduct[] {
  return 'native' in segment ? segment.native.products : []
}
