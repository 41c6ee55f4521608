// The native library as what runs the cpu device. Work whose kernels are all in the library is one call; other work is cut into
// native and WebAssembly parts, which run one after the other on the same bytes. Two calls are under way at most: while one runs,
// the next waits inside the library, so that nothing comes between them. WebAssembly is loaded when a kernel needs it.

import { totalmem } from 'node:os'
import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Checked } from '../check.ts'
import type { BufferHandle, ByteRange, Program } from '../device.ts'
import type { Entry } from '../table.ts'
import { Heap } from './heap.ts'
import { cpuCaps } from './level.ts'
import { FIRST_ADDRESS, STATUS } from './native-layout.ts'
import { NativeMemory } from './native-memory.ts'
import { type NativePlan, type NativeProgram, encodeNative } from './native-plan.ts'
import type { Native, NativeKernel } from './native.ts'
import type { Plan } from './plan.ts'
import { type BlasOptions, ProductChoice, type ProductReport } from './product-choice.ts'
import type { Runtime, Work } from './runtime.ts'
import type { WasmRuntime } from './wasm-runtime.ts'

type Part = { readonly native: NativePlan } | { readonly wasm: Plan }

export interface NativeWork extends Work {
  readonly parts: readonly Part[]
  /** heap memory that stands in for native memory in WebAssembly parts */
  readonly staged: readonly number[]
  /** true once it is known who multiplies matrices in it */
  settled: boolean
}

const AT_ONCE = 2

interface Waiting {
  readonly work: NativeWork
  resolve(): void
  reject(error: unknown): void
}

export function describeNative({ level }: Native, threads: number): string {
  return `native ${level.title}, ${threads === 1 ? '1 thread' : `${threads} threads`}`
}

export class NativeRuntime implements Runtime<NativeWork> {
  readonly caps: Caps
  readonly #native: Native
  readonly #threads: number
  readonly #heap: Heap
  readonly #memory: NativeMemory
  readonly #pool: number
  readonly #products: ProductChoice
  /** started when a kernel needs it */
  #starting: Promise<WasmRuntime> | undefined
  #wasm: WasmRuntime | undefined
  /** copies of read-only native memory for WebAssembly, by buffer */
  readonly #copies = new Map<BufferHandle, { readonly at: number; readonly of: number }>()
  readonly #queue: Waiting[] = []
  #running = 0
  #mixed = false
  #ticket = 0
  #foreign = 0

  constructor(native: Native, threads: number, blas: BlasOptions = {}) {
    this.#native = native
    this.#threads = threads
    this.#heap = new Heap(true)
    this.#memory = new NativeMemory(native, this.#heap)
    this.#pool = native.createPool(threads)
    if (this.#pool === 0) throw new IngotError('device-unavailable', 'no threads can be started', { op: 'cpu', got: threads })
    this.#products = new ProductChoice({ native, heap: this.#heap, memory: this.#memory, threads, run: (plan) => this.#call(plan) }, blas)
    this.caps = cpuCaps({ width: native.level.width, threads, bufferBytes: Math.floor(totalmem() / 64) * 64 })
  }

  get products(): ProductReport | undefined {
    return this.#products.report
  }

  /** Also says how many kernels were not in the library, and whether another one multiplies. */
  get detail(): string {
    const { name, choices = [] } = this.products ?? {}
    const blas = choices.some((choice) => choice.blas) ? `, ${name}` : ''
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
    for (const [handle, { at, of }] of this.#copies) {
      if (of !== place) continue
      this.#copies.delete(handle)
      this.#heap.free(at)
    }
    this.#memory.free(place)
  }

  /** A kernel of the library was held against these caps when it was listed, so its body need not be written here. */
  async compile(kernel: Kernel, key: string): Promise<Program> {
    const native = this.#native.find(key)
    if (native !== undefined) return nativeProgram(kernel, key, native)
    this.#foreign++
    this.#starting ??= import('./wasm-runtime.ts').then(({ openWasm }) => openWasm(this.#threads, { heap: this.#heap }))
    this.#wasm = await this.#starting
    return this.#wasm.compile(kernel, key)
  }

  /** Everything but foreign kernels is native: copies and reads reach all memory there. */
  encode(commands: readonly Checked<number>[]): NativeWork {
    const parts: Part[] = []
    const staged: number[] = []
    const reads: { at: number; bytes: number }[] = []
    const addNative = (some: readonly Checked<number>[]): void => {
      if (some.length === 0) return
      const native = encodeNative({ heap: this.#heap, addressOf: (place) => this.#memory.addressOf(place) }, some)
      reads.push(...native.reads)
      parts.push({ native })
    }
    try {
      let held: Checked<number>[] = []
      for (const { foreign, commands: some } of runsOf(commands)) {
        if (!foreign) held.push(...some)
        else {
          const { before, inside, after } = this.#stage(some, staged)
          addNative([...held, ...before])
          parts.push({ wasm: this.#foreignRuntime().encode(inside) })
          held = after
        }
      }
      addNative(held)
    } catch (error) {
      this.release({ parts, staged, reads, dispatches: 0, settled: true })
      throw error
    }
    const settled = productsOf(parts).length === 0
    return { parts, staged, reads, settled, dispatches: commands.filter(({ kind }) => kind === 'dispatch').length }
  }

  run(work: NativeWork): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ work, resolve, reject })
      this.#pump()
    })
  }

  release({ parts, staged }: NativeWork): void {
    for (const part of parts) this.#heap.free('native' in part ? part.native.block : part.wasm.block)
    for (const at of staged) this.#heap.free(at)
  }

  async close(): Promise<void> {
    await (await this.#starting?.catch(() => undefined))?.close()
    this.#native.destroyPool(this.#pool)
    this.#memory.close()
  }

  #foreignRuntime(): WasmRuntime {
    if (this.#wasm === undefined) throw new IngotError('device-failed', 'no foreign kernel was compiled', { op: 'submit' })
    return this.#wasm
  }

  /** Starts what may start: calls of one part two deep; alone what has several parts, or products to be measured. */
  #pump(): void {
    for (;;) {
      const [next] = this.#queue
      if (next === undefined || this.#mixed) return
      const mixed = !next.work.settled || next.work.parts.length > 1 || next.work.parts.some((part) => 'wasm' in part)
      if (this.#running >= (mixed ? 1 : AT_ONCE)) return
      this.#queue.shift()
      this.#running++
      this.#mixed = mixed
      void this.#start(next, mixed)
    }
  }

  async #start({ work, resolve, reject }: Waiting, mixed: boolean): Promise<void> {
    let failed: { readonly error: unknown } | undefined
    try {
      if (!work.settled) await this.#products.settle(productsOf(work.parts))
      work.settled = true
      for (const part of work.parts) await ('native' in part ? this.#call(part.native) : this.#foreignRuntime().run(part.wasm))
    } catch (error) {
      failed = { error }
    }
    this.#running--
    if (mixed) this.#mixed = false
    if (failed === undefined) resolve()
    else reject(failed.error)
    this.#pump()
  }

  async #call({ block }: NativePlan): Promise<void> {
    const status = await this.#native.run(this.#pool, this.#memory.addressOf(block), this.#ticket++)
    if (status === STATUS.ok) return
    throw status === STATUS.noMemory
      ? new IngotError('out-of-memory', 'no memory for the threads to work in', { op: 'submit' })
      : new IngotError('device-failed', 'the work was cancelled', { op: 'submit', got: status })
  }

  /** Puts heap memory in the place of native memory: what can be written is copied there before and back after. */
  #stage(
    commands: readonly Checked<number>[],
    staged: number[],
  ): { before: Checked<number>[]; inside: Checked<number>[]; after: Checked<number>[] } {
    const moved = new Map<BufferHandle, Entry<number>>()
    const before: Checked<number>[] = []
    const after: Checked<number>[] = []
    const stand = (entry: Entry<number>): Entry<number> => {
      if (entry.memory < FIRST_ADDRESS) return entry
      const known = moved.get(entry.handle)
      if (known !== undefined) return known
      const inHeap = { ...entry, memory: entry.writable ? this.#heap.alloc(entry.capacity, 'submit') : this.#copyOf(entry) }
      moved.set(entry.handle, inHeap)
      if (entry.writable) {
        staged.push(inHeap.memory)
        const [from, to] = [entry, inHeap].map((each) => ({ entry: each, offset: 0, bytes: Math.ceil(entry.bytes / 4) * 4 })) as [
          Bound,
          Bound,
        ]
        before.push({ kind: 'copy', from, to })
        after.push({ kind: 'copy', from: to, to: from })
      }
      return inHeap
    }
    const inside = commands.map((command) =>
      command.kind !== 'dispatch'
        ? command
        : {
            ...command,
            buffers: command.buffers.map((bound) => ({ ...bound, entry: stand(bound.entry) })),
          },
    )
    return { before, inside, after }
  }

  /** Made once, since nothing writes to it. */
  #copyOf({ handle, memory, bytes }: Entry<number>): number {
    const known = this.#copies.get(handle)
    if (known !== undefined) return known.at
    const at = this.#heap.alloc(bytes, 'submit')
    this.#native.copy(this.#memory.addressOf(at), memory, bytes)
    this.#copies.set(handle, { at, of: memory })
    return at
  }
}

const productsOf = (parts: readonly Part[]) => parts.flatMap((part) => ('native' in part ? part.native.products : []))
const nativeProgram = (kernel: Kernel, key: string, native: NativeKernel): NativeProgram => ({ kernel, key, native })

type Bound = Extract<Checked<number>, { kind: 'read' }>['from']

/** Neighbours that run in the same way. */
function runsOf(commands: readonly Checked<number>[]): { foreign: boolean; commands: Checked<number>[] }[] {
  const runs: { foreign: boolean; commands: Checked<number>[] }[] = []
  for (const command of commands) {
    const foreign = command.kind === 'dispatch' && !('native' in command.program)
    const last = runs.at(-1)
    if (last?.foreign === foreign) last.commands.push(command)
    else runs.push({ foreign, commands: [command] })
  }
  return runs
}
