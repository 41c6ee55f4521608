// WebAssembly as what runs the cpu device: one module per kernel, on worker threads over one shared memory, or on this thread
// where there is none.

import type { Caps } from '../../../base/caps.ts'
import { IngotError, isIngotError, messageOf } from '../../../base/error.ts'
import { emitWasm } from '../../../emit/wasm/emit.ts'
import { type WasmFeatures, detectWasm } from '../../../emit/wasm/features.ts'
import type { Kernel } from '../../../ir/kernel.ts'
import { checkKernel } from '../../core/check.ts'
import type { BoundRange, CheckedCommand } from '../../core/checked-command.ts'
import { Heap } from '../heap.ts'
import { cpuCaps } from '../level.ts'
import { fillingOf } from '../opening.ts'
import type { Runtime } from '../runtime.ts'
import { type WasmJob, type WasmProgram, encodeWasm } from './encode.ts'
import type { Executor, PostedJob } from './executor.ts'
import { Inline } from './inline.ts'
import { Pool } from './pool.ts'

/** WebAssembly has no prefetch. */
const STREAMS = 4

/** With the features of the engine, unless others are given; `heap`: memory that is there already. */
export async function openWasm(threads: number, { features, heap }: { features?: WasmFeatures; heap?: Heap } = {}): Promise<WasmRuntime> {
  const found = features ?? (await detectWasm())
  if (!found.simd || !found.bulk) throw new IngotError('device-unavailable', 'the engine has no WebAssembly SIMD', { op: 'cpu' })
  return new WasmRuntime(found, found.threads ? threads : 0, heap)
}

export function describeWasm({ relaxed }: WasmFeatures, threads: number): string {
  const how = threads === 0 ? 'on this thread' : threads === 1 ? '1 thread' : `${threads} threads`
  return `WebAssembly ${relaxed ? 'relaxed SIMD' : 'SIMD'}, ${how}`
}

export class WasmRuntime implements Runtime<WasmJob, WasmProgram> {
  readonly kind = 'wasm'
  readonly detail: string
  readonly caps: Caps
  readonly #features: WasmFeatures
  readonly #heap: Heap
  readonly #threads: number
  readonly #executor: Executor
  /** this very thread, for work that is not worth others */
  readonly #here: Inline
  #programs = 0
  #scratch = { at: 0, stride: 0 }
  /** settles when all that was given until now is done */
  #last: Promise<unknown> = Promise.resolve()

  /** `threads` 0: no shared memory. */
  constructor(features: WasmFeatures, threads: number, heap: Heap = new Heap(features.threads)) {
    this.detail = describeWasm(features, threads)
    this.#features = features
    this.#heap = heap
    this.#threads = Math.max(threads, 1)
    this.#here = new Inline(heap)
    this.#executor = threads > 0 ? new Pool(heap, threads) : this.#here
    this.caps = cpuCaps({ width: 4, threads: this.#threads, bufferBytes: heap.mostBytes, streams: STREAMS })
  }

  get pending(): number {
    return this.#executor.pending
  }

  alloc(bytes: number, op: string): number {
    return this.#heap.alloc(bytes, op)
  }
  free(place: number): void {
    this.#heap.free(place)
  }
  read(place: number, bytes: number): Uint8Array {
    return this.#heap.copy(place, bytes)
  }
  write(place: number, bytes: Uint8Array): void {
    this.#heap.bytes.set(bytes, place)
  }
  map(): Promise<undefined> {
    return Promise.resolve(undefined)
  }

  /** The module is compiled here once; threads that load the same bytes share the engine's code. */
  async compile(kernel: Kernel, key: string): Promise<WasmProgram> {
    checkKernel(kernel, this.caps)
    const { bytes, tables, scratchBytes } = emitWasm(kernel, this.#features)
    try {
      await WebAssembly.compile(bytes)
    } catch (cause) {
      if (isIngotError(cause)) throw cause
      throw new IngotError('compile-failed', `the engine refuses the module: ${messageOf(cause)}`, { op: kernel.name, cause })
    }
    return {
      kernel,
      key,
      form: 'WebAssembly',
      number: this.#programs++,
      code: this.#place(bytes),
      codeBytes: bytes.length,
      tables: tables.length === 0 ? 0 : this.#place(tables),
      scratchBytes,
    }
  }

  encode(commands: readonly CheckedCommand<number, WasmProgram>[]): WasmJob {
    return encodeWasm(this.#heap, commands, this.#threads)
  }

  fill({ openings }: WasmJob, filled: readonly BoundRange<number>[]): boolean {
    const { words } = this.#heap
    for (const opening of openings) {
      const { buffer, offset } = fillingOf(opening, filled)
      if (buffer.memory > this.#heap.mostBytes) return false
      words[opening.at >>> 2] = buffer.memory + offset + opening.offset
    }
    return true
  }

  run(job: WasmJob): Promise<void> {
    const done = this.#executor.run(this.#posted(job))
    this.#last = Promise.allSettled([this.#last, done])
    return done
  }

  runHere(job: WasmJob): boolean {
    this.#here.runAtOnce(this.#posted(job))
    return true
  }

  #posted({ block, count, scratchBytes }: WasmJob): PostedJob {
    this.#needScratch(scratchBytes)
    return { tasks: block, count, scratch: this.#scratch.at, scratchStride: this.#scratch.stride }
  }

  release({ block }: WasmJob): void {
    this.#heap.free(block)
  }

  close(): Promise<void> {
    return this.#executor.close()
  }

  #place(bytes: Uint8Array): number {
    const at = this.#heap.alloc(bytes.length, 'compile')
    this.#heap.bytes.set(bytes, at)
    return at
  }

  /** Makes the threads' own memory large enough; jobs that were posted keep what they have. */
  #needScratch(bytes: number): void {
    if (bytes <= this.#scratch.stride) return
    const stride = Math.ceil(bytes / 4096) * 4096
    const at = this.#heap.alloc(stride * this.#threads, 'submit')
    const old = this.#scratch
    if (old.stride > 0 && this.pending === 0) this.#heap.free(old.at)
    else if (old.stride > 0) void this.#last.then(() => this.#heap.free(old.at))
    this.#scratch = { at, stride }
  }
}
