// Tasks as the runner of WebAssembly threads reads them (layout.ts): 32-bit words.

import { ARGS, argsBytes, uniformsOffset } from '../../../emit/wasm/emit.ts'
import type { BoundRange, CheckedCommand, CheckedDispatch } from '../../core/checked-command.ts'
import type { Program } from '../../device.ts'
import { type EncodedJob, type JobWriter, KIND, type Move, alignLine, encodeJob } from '../encode.ts'
import type { Heap } from '../heap.ts'
import { type Opening, openingAt } from '../opening.ts'
import { TASK, TASK_BYTES } from './layout.ts'

/** A kernel that lies in memory, ready to be loaded by each thread. */
export interface WasmProgram extends Program {
  readonly number: number
  readonly code: number
  readonly codeBytes: number
  /** address of its tables of constants; 0 if it has none */
  readonly tables: number
  readonly scratchBytes: number
}

export interface WasmJob extends EncodedJob {
  /** most bytes that a program needs per thread */
  readonly scratchBytes: number
}

/** Chunks per thread: enough to balance, few enough to cost nothing. */
const CHUNKS = 6
/** Share of the work that is dealt out in one run per thread: a long run reads memory in one stream. */
const DEALT = 3 / 4
/** Bytes of a copy or fill that are worth another thread. */
const COPY_CHUNK = 65536
/** A task counts in 32 bits, a little past its end. */
const MOST_COPY = 2 ** 30

const addressOf = ({ buffer, offset }: BoundRange<number>): number => buffer.memory + offset

export function encodeWasm(heap: Heap, commands: readonly CheckedCommand<number, WasmProgram>[], threads: number): WasmJob {
  const writer = new WasmWriter(heap, threads)
  const job = encodeJob(heap, commands, writer)
  return { ...job, scratchBytes: writer.scratchBytes }
}

class WasmWriter implements JobWriter<WasmProgram> {
  readonly headBytes = 0
  readonly taskBytes = TASK_BYTES
  readonly mostMoved = MOST_COPY
  readonly openings: Opening[] = []
  scratchBytes = 0
  readonly #heap: Heap
  readonly #threads: number

  constructor(heap: Heap, threads: number) {
    this.#heap = heap
    this.#threads = threads
  }

  addressOf(place: number): number {
    return place
  }

  argsBytes({ program }: CheckedDispatch<number, WasmProgram>): number {
    return argsBytes(program.kernel)
  }

  writeDispatch(task: number, dispatch: CheckedDispatch<number, WasmProgram>, args: number, groups: number, waits: boolean): void {
    const { program, buffers, uniforms, grid } = dispatch
    const { words, bytes } = this.#heap
    const word = args >>> 2
    words.set(grid, word + (ARGS.grid >> 2))
    words[word + (ARGS.tables >> 2)] = program.tables
    buffers.forEach((range, index) => this.#point(args + ARGS.buffers + 4 * index, addressOf(range)))
    bytes.set(uniforms, args + uniformsOffset(program.kernel))
    this.scratchBytes = Math.max(this.scratchBytes, program.scratchBytes)
    this.#write(task, KIND.dispatch, groups, Math.ceil(groups / (this.#threads * CHUNKS)), waits)
    words[(task + TASK.what) >>> 2] = program.number
    words[(task + TASK.where) >>> 2] = args
    words[(task + TASK.code) >>> 2] = program.code
    words[(task + TASK.codeBytes) >>> 2] = program.codeBytes
  }

  writeMove(task: number, { kind, what, where, bytes }: Move, waits: boolean): void {
    const { words } = this.#heap
    this.#write(task, kind, bytes, Math.max(COPY_CHUNK, alignLine(bytes / (this.#threads * CHUNKS))), waits)
    if (kind === KIND.copy) this.#point(task + TASK.what, what)
    else words[(task + TASK.what) >>> 2] = what
    this.#point(task + TASK.where, where)
  }

  /** Writes an address, which may stand for a blank. */
  #point(at: number, address: number): void {
    this.#heap.words[at >>> 2] = address
    this.openings.push(...openingAt(at, address))
  }

  #write(task: number, kind: number, total: number, chunk: number, waits: boolean): void {
    const { words } = this.#heap
    words[(task + TASK.kind) >>> 2] = kind
    words[(task + TASK.barrier) >>> 2] = waits ? 1 : 0
    words[(task + TASK.total) >>> 2] = total
    words[(task + TASK.chunk) >>> 2] = chunk
    words[(task + TASK.run) >>> 2] = Math.max(1, Math.floor((total * DEALT) / this.#threads / chunk)) * chunk
  }
}
