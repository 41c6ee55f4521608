// Commands as a job in memory: entries, the arguments of each dispatch, and room for the bytes that are to be read back.
// One allocation holds it all. The same plan can run many times, but not twice at once.

import { IngotError } from '../../base/error.ts'
import { ARGS, argsBytes, uniformsOffset } from '../../emit/wasm/emit.ts'
import { buffersOf } from '../../ir/kernel.ts'
import type { Bound, Checked } from '../check.ts'
import type { Program } from '../device.ts'
import { Hazards } from '../hazard.ts'
import type { Heap } from './heap.ts'
import { ENTRY, ENTRY_BYTES, KIND } from './layout.ts'

/** A kernel that lies in memory, ready to be loaded by each thread. */
export interface CpuProgram extends Program {
  readonly number: number
  readonly code: number
  readonly codeBytes: number
  /** address of its tables of constants; 0 if it has none */
  readonly tables: number
  readonly scratchBytes: number
}

export interface Plan {
  /** where it lies; to be given back to the heap */
  readonly block: number
  readonly entries: number
  readonly count: number
  /** where the bytes of each read are after a run */
  readonly reads: readonly { readonly at: number; readonly bytes: number }[]
  readonly dispatches: number
  /** most bytes that a program needs per thread */
  readonly scratchBytes: number
}

/** Chunks per thread: enough to balance, few enough to cost nothing. */
const CHUNKS = 6
/** Share of the work that is dealt out in one run per thread: a long run reads memory in one stream. */
const DEALT = 3 / 4
/** Bytes of a copy or fill that are worth another thread. */
const COPY_CHUNK = 65536
/** An entry counts in 32 bits, a little past its end. */
const MOST_COPY = 2 ** 30
const MOST_GROUPS = 2 ** 31 - 1
const align = (bytes: number): number => Math.ceil(bytes / 64) * 64

type Span = { from: number; to: number }
const addressOf = ({ entry, offset }: Bound<number>): number => entry.memory + offset
const spanOf = (bound: Bound<number>): Span => ({ from: addressOf(bound), to: addressOf(bound) + bound.bytes })

export function encodePlan(heap: Heap, commands: readonly Checked<number>[], threads: number): Plan {
  const most = commands.reduce((sum, command) => sum + entriesOf(command), 0)
  const argsSize = commands.reduce((sum, command) => sum + (command.kind === 'dispatch' ? align(argsBytes(command.program.kernel)) : 0), 0)
  const readSize = commands.reduce((sum, command) => sum + (command.kind === 'read' ? align(command.from.bytes) : 0), 0)
  const block = heap.alloc(most * ENTRY_BYTES + argsSize + readSize, 'submit')
  const encoder = new Encoder(heap, block, block + most * ENTRY_BYTES, threads)
  for (const command of commands) encoder.add(command)
  return encoder.finish()
}

function entriesOf(command: Checked<number>): number {
  switch (command.kind) {
    case 'dispatch': {
      const [x, y, z] = command.grid
      if (x * y * z <= MOST_GROUPS) return 1
      throw new IngotError('too-large', 'too many workgroups for this device', {
        op: command.program.kernel.name,
        got: [x, y, z],
        wanted: `at most ${MOST_GROUPS} in all`,
      })
    }
    case 'fill':
      return Math.ceil(command.to.bytes / MOST_COPY)
    default:
      return Math.ceil(command.from.bytes / MOST_COPY)
  }
}

class Encoder {
  readonly #words: Int32Array
  readonly #bytes: Uint8Array
  readonly #block: number
  readonly #threads: number
  readonly #hazards = new Hazards()
  readonly #reads: { at: number; bytes: number }[] = []
  /** where the next arguments or bytes to read go */
  #top: number
  #count = 0
  #dispatches = 0
  #scratchBytes = 0

  constructor(heap: Heap, block: number, top: number, threads: number) {
    this.#words = heap.words
    this.#bytes = heap.bytes
    this.#block = block
    this.#top = top
    this.#threads = threads
  }

  add(command: Checked<number>): void {
    switch (command.kind) {
      case 'dispatch':
        return this.#dispatch(command)
      case 'fill':
        return this.#move(KIND.fill, command.value, addressOf(command.to), command.to.bytes)
      case 'copy':
        return this.#move(KIND.copy, addressOf(command.from), addressOf(command.to), command.to.bytes)
      case 'read': {
        const { bytes } = command.from
        const at = this.#take(bytes)
        this.#reads.push({ at, bytes })
        return this.#move(KIND.copy, addressOf(command.from), at, bytes)
      }
    }
  }

  finish(): Plan {
    return {
      block: this.#block,
      entries: this.#block,
      count: this.#count,
      reads: this.#reads,
      dispatches: this.#dispatches,
      scratchBytes: this.#scratchBytes,
    }
  }

  #take(bytes: number): number {
    const at = this.#top
    this.#top += align(bytes)
    return at
  }

  #dispatch({ program, buffers, uniforms, grid }: Extract<Checked<number>, { kind: 'dispatch' }>): void {
    this.#dispatches++
    const total = grid[0] * grid[1] * grid[2]
    const { kernel, number, code, codeBytes, tables, scratchBytes } = program as CpuProgram
    const args = this.#take(argsBytes(kernel))
    if (total === 0) return
    const word = args >>> 2
    this.#words.set(grid, word + (ARGS.grid >> 2))
    this.#words[word + (ARGS.tables >> 2)] = tables
    this.#words.set(buffers.map(addressOf), word + (ARGS.buffers >> 2))
    this.#bytes.set(uniforms, args + uniformsOffset(kernel))
    this.#scratchBytes = Math.max(this.#scratchBytes, scratchBytes)
    const params = buffersOf(kernel)
    const reads = buffers.filter((_, index) => params[index]?.role === 'read').map(spanOf)
    const writes = buffers.filter((_, index) => params[index]?.role !== 'read').map(spanOf)
    const chunk = Math.ceil(total / (this.#threads * CHUNKS))
    this.#entry({ kind: KIND.dispatch, total, chunk, what: number, where: args, code, codeBytes }, reads, writes)
  }

  /** Copies from `what`, or fills with it. */
  #move(kind: typeof KIND.copy | typeof KIND.fill, what: number, where: number, bytes: number): void {
    for (let at = 0; at < bytes; at += MOST_COPY) {
      const total = Math.min(bytes - at, MOST_COPY)
      const chunk = Math.max(COPY_CHUNK, align(total / (this.#threads * CHUNKS)))
      const from = kind === KIND.copy ? what + at : what
      const reads = kind === KIND.copy ? [{ from, to: from + total }] : []
      this.#entry({ kind, total, chunk, what: from, where: where + at, code: 0, codeBytes: 0 }, reads, [
        { from: where + at, to: where + at + total },
      ])
    }
  }

  #entry(
    fields: Omit<Record<keyof typeof ENTRY, number>, 'barrier' | 'next' | 'run'>,
    reads: readonly Span[],
    writes: readonly Span[],
  ): void {
    const waits = this.#hazards.add(reads, writes)
    const start = (this.#block + this.#count++ * ENTRY_BYTES) >>> 2
    for (const [name, value] of Object.entries(fields)) this.#words[start + (ENTRY[name as keyof typeof ENTRY] >> 2)] = value
    this.#words[start + (ENTRY.barrier >> 2)] = waits ? 1 : 0
    const { total, chunk } = fields
    this.#words[start + (ENTRY.run >> 2)] = Math.max(1, Math.floor((total * DEALT) / this.#threads / chunk)) * chunk
  }
}
