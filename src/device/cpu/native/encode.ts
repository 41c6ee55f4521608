// Tasks as the native library reads them (native/cpu/runtime.h): 64-bit addresses of the process, behind a head for the whole job.

import type { BoundRange, CheckedCommand, CheckedDispatch } from '../../core/checked-command.ts'
import { type EncodedJob, type JobWriter, KIND, type Move, alignLine, encodeJob } from '../encode.ts'
import type { Heap } from '../heap.ts'
import { type Opening, openingAt } from '../opening.ts'
import { JOB, JOB_BYTES, TASK, TASK_BYTES, setWide } from './layout.ts'
import type { NativeProgram } from './library.ts'
import type { NativeMemory } from './memory.ts'
import { type EncodedProduct, PRODUCT_BYTES, findSize } from './product.ts'

export interface NativeJob extends EncodedJob {
  /** products of matrices in it, which a BLAS library could do */
  readonly products: readonly EncodedProduct[]
}

/** Bytes of a copy or fill that are worth another thread. */
const COPY_CHUNK = 65536
const POINTER = 8

export function encodeNative(heap: Heap, memory: NativeMemory, commands: readonly CheckedCommand<number, NativeProgram>[]): NativeJob {
  const writer = new NativeWriter(heap, memory)
  const job = encodeJob(heap, commands, writer)
  writer.writeHead(job)
  return { ...job, products: writer.products }
}

class NativeWriter implements JobWriter<NativeProgram> {
  readonly headBytes = JOB_BYTES
  readonly taskBytes = TASK_BYTES
  readonly mostMoved = Number.MAX_SAFE_INTEGER
  readonly products: EncodedProduct[] = []
  readonly openings: Opening[] = []
  readonly #heap: Heap
  readonly #memory: NativeMemory
  #scratch = 0

  constructor(heap: Heap, memory: NativeMemory) {
    this.#heap = heap
    this.#memory = memory
  }

  addressOf(place: number): number {
    return this.#memory.addressOf(place)
  }

  /** Pointers to the buffers, the uniforms, and room for the arguments of a BLAS library. */
  argsBytes({ program, buffers, uniforms }: CheckedDispatch<number, NativeProgram>): number {
    return alignLine(buffers.length * POINTER) + alignLine(uniforms.length) + (program.kernel.product === undefined ? 0 : PRODUCT_BYTES)
  }

  writeDispatch(task: number, dispatch: CheckedDispatch<number, NativeProgram>, args: number, groups: number, waits: boolean): void {
    const { program, buffers, uniforms, grid } = dispatch
    const { words, bytes } = this.#heap
    const values = args + alignLine(buffers.length * POINTER)
    buffers.forEach((range, index) => this.#point(args + index * POINTER, this.#address(range)))
    bytes.set(uniforms, values)
    this.#scratch = Math.max(this.#scratch, program.native.scratch)
    this.#write(task, KIND.dispatch, groups, 1, waits)
    setWide(words, task + TASK.what, program.native.address)
    setWide(words, task + TASK.where, this.addressOf(args))
    setWide(words, task + TASK.uniforms, this.addressOf(values))
    words.set(grid, (task + TASK.grid) >>> 2)
    const size = findSize(dispatch)
    const room = values + alignLine(uniforms.length)
    if (size !== undefined) this.products.push({ size, dispatch, task, pointers: args, args: room, openings: this.openings })
  }

  writeMove(task: number, { kind, what, where, bytes }: Move, waits: boolean): void {
    const { words } = this.#heap
    this.#write(task, kind, bytes, COPY_CHUNK, waits)
    if (kind === KIND.copy) this.#point(task + TASK.what, what)
    else setWide(words, task + TASK.what, what)
    this.#point(task + TASK.where, where)
  }

  writeHead({ block, count }: EncodedJob): void {
    const { words } = this.#heap
    setWide(words, block + JOB.tasks, this.addressOf(block + JOB_BYTES))
    words[(block + JOB.count) >>> 2] = count
    words[(block + JOB.cancel) >>> 2] = 0
    setWide(words, block + JOB.scratch, this.#scratch)
  }

  #write(task: number, kind: number, total: number, chunk: number, waits: boolean): void {
    const { words } = this.#heap
    words[(task + TASK.kind) >>> 2] = kind
    words[(task + TASK.barrier) >>> 2] = waits ? 1 : 0
    setWide(words, task + TASK.total, total)
    setWide(words, task + TASK.chunk, chunk)
  }

  /** Writes an address, which may stand for a blank. */
  #point(at: number, address: number): void {
    setWide(this.#heap.words, at, address)
    this.openings.push(...openingAt(at, address))
  }

  #address({ buffer, offset }: BoundRange<number>): number {
    return this.addressOf(buffer.memory) + offset
  }
}
