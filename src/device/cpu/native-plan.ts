// Commands as a plan of the native runtime (native/cpu/runtime.h): written into the heap, where the library reads it. One
// allocation holds the plan, its commands, the arguments of each dispatch, and room for the bytes to be read back.

import { IngotError } from '../../base/error.ts'
import { buffersOf } from '../../ir/kernel.ts'
import type { Bound, Checked } from '../check.ts'
import type { Program } from '../device.ts'
import { Hazards } from '../hazard.ts'
import type { Heap } from './heap.ts'
import { KIND } from './layout.ts'
import { COMMAND, COMMAND_BYTES, PLAN, PLAN_BYTES, setWide } from './native-layout.ts'
import { PRODUCT_BYTES, type PlannedProduct, sizeOf } from './native-product.ts'
import type { NativeKernel } from './native.ts'

/** A kernel that is in the library. */
export interface NativeProgram extends Program {
  readonly native: NativeKernel
}

export interface NativePlan {
  /** where it lies in the heap */
  readonly block: number
  readonly reads: readonly { readonly at: number; readonly bytes: number }[]
  readonly products: readonly PlannedProduct[]
}

export interface NativeGround {
  readonly heap: Heap
  /** where a place is in the process */
  addressOf(place: number): number
}

/** Bytes of a copy or fill that are worth another thread. */
const COPY_CHUNK = 65536
const MOST_GROUPS = 2 ** 31 - 1
const POINTER = 8
const align = (bytes: number): number => Math.ceil(bytes / 64) * 64

type Dispatch = Extract<Checked<number>, { kind: 'dispatch' }>
const argsBytes = ({ program, buffers, uniforms }: Dispatch): number =>
  align(buffers.length * POINTER) + align(uniforms.length) + (program.kernel.product === undefined ? 0 : PRODUCT_BYTES)

export function encodeNative(ground: NativeGround, commands: readonly Checked<number>[]): NativePlan {
  const argsSize = commands.reduce((sum, command) => sum + (command.kind === 'dispatch' ? argsBytes(command) : 0), 0)
  const readSize = commands.reduce((sum, command) => sum + (command.kind === 'read' ? align(command.from.bytes) : 0), 0)
  const head = PLAN_BYTES + commands.length * COMMAND_BYTES
  const block = ground.heap.alloc(head + argsSize + readSize, 'submit')
  const encoder = new Encoder(ground, block, block + head)
  try {
    for (const command of commands) encoder.add(command)
    return encoder.finish()
  } catch (error) {
    ground.heap.free(block)
    throw error
  }
}

interface Fields {
  readonly kind: number
  readonly total: number
  readonly chunk: number
  readonly what: number
  readonly where: number
  readonly uniforms: number
  readonly grid: readonly number[]
}
type Span = { from: number; to: number }

class Encoder {
  readonly #ground: NativeGround
  readonly #words: Int32Array
  readonly #block: number
  readonly #hazards = new Hazards()
  readonly #reads: { at: number; bytes: number }[] = []
  readonly #products: PlannedProduct[] = []
  /** where the next arguments or bytes to read go */
  #top: number
  #count = 0
  #scratch = 0

  constructor(ground: NativeGround, block: number, top: number) {
    this.#ground = ground
    this.#words = ground.heap.words
    this.#block = block
    this.#top = top
  }

  add(command: Checked<number>): void {
    switch (command.kind) {
      case 'dispatch':
        return this.#dispatch(command)
      case 'fill':
        return this.#move(KIND.fill, command.value, command.to)
      case 'copy':
        return this.#move(KIND.copy, this.#address(command.from), command.to)
      case 'read': {
        const { bytes } = command.from
        const at = this.#take(bytes)
        this.#reads.push({ at, bytes })
        return this.#transfer(KIND.copy, this.#address(command.from), this.#ground.addressOf(at), bytes)
      }
    }
  }

  finish(): NativePlan {
    setWide(this.#words, this.#block + PLAN.commands, this.#ground.addressOf(this.#block + PLAN_BYTES))
    this.#words[(this.#block + PLAN.count) >>> 2] = this.#count
    this.#words[(this.#block + PLAN.cancel) >>> 2] = 0
    setWide(this.#words, this.#block + PLAN.scratch, this.#scratch)
    return { block: this.#block, reads: this.#reads, products: this.#products }
  }

  #address({ entry, offset }: Bound<number>): number {
    return this.#ground.addressOf(entry.memory) + offset
  }

  #span(bound: Bound<number>): Span {
    const from = this.#address(bound)
    return { from, to: from + bound.bytes }
  }

  #take(bytes: number): number {
    const at = this.#top
    this.#top += align(bytes)
    return at
  }

  #dispatch(dispatch: Dispatch): void {
    const { program, buffers, uniforms, grid } = dispatch
    const total = grid[0] * grid[1] * grid[2]
    if (total === 0) return
    if (total > MOST_GROUPS) {
      throw new IngotError('too-large', 'too many workgroups for this device', {
        op: program.kernel.name,
        got: [...grid],
        wanted: `at most ${MOST_GROUPS} in all`,
      })
    }
    const { kernel, native } = program as NativeProgram
    const pointers = this.#take(buffers.length * POINTER)
    buffers.forEach((bound, index) => setWide(this.#words, pointers + index * POINTER, this.#address(bound)))
    const values = this.#take(uniforms.length)
    this.#ground.heap.bytes.set(uniforms, values)
    this.#scratch = Math.max(this.#scratch, native.scratch)
    const params = buffersOf(kernel)
    const reads = buffers.filter((_, index) => params[index]?.role === 'read').map((bound) => this.#span(bound))
    const writes = buffers.filter((_, index) => params[index]?.role !== 'read').map((bound) => this.#span(bound))
    const { addressOf } = this.#ground
    const command = this.#command(
      { kind: KIND.dispatch, total, chunk: 1, what: native.address, where: addressOf(pointers), uniforms: addressOf(values), grid },
      reads,
      writes,
    )
    const size = sizeOf(dispatch)
    if (size !== undefined) this.#products.push({ size, dispatch, command, args: this.#take(PRODUCT_BYTES) })
  }

  #move(kind: typeof KIND.copy | typeof KIND.fill, what: number, to: Bound<number>): void {
    this.#transfer(kind, what, this.#address(to), to.bytes)
  }

  /** Copies from `what`, or fills with it. */
  #transfer(kind: typeof KIND.copy | typeof KIND.fill, what: number, where: number, total: number): void {
    if (total === 0) return
    const reads = kind === KIND.copy ? [{ from: what, to: what + total }] : []
    this.#command({ kind, total, chunk: COPY_CHUNK, what, where, uniforms: 0, grid: [0, 0, 0] }, reads, [
      { from: where, to: where + total },
    ])
  }

  #command({ kind, total, chunk, what, where, uniforms, grid }: Fields, reads: readonly Span[], writes: readonly Span[]): number {
    const at = this.#block + PLAN_BYTES + this.#count++ * COMMAND_BYTES
    this.#words[(at + COMMAND.kind) >>> 2] = kind
    this.#words[(at + COMMAND.barrier) >>> 2] = this.#hazards.add(reads, writes) ? 1 : 0
    setWide(this.#words, at + COMMAND.total, total)
    setWide(this.#words, at + COMMAND.chunk, chunk)
    setWide(this.#words, at + COMMAND.what, what)
    setWide(this.#words, at + COMMAND.where, where)
    setWide(this.#words, at + COMMAND.uniforms, uniforms)
    this.#words.set(grid, (at + COMMAND.grid) >>> 2)
    return at
  }
}
