// Runs programs on a device: memory by handle, 96 slots for it, the boundary pool, and programs that are compiled once. What a program ran
// into on the device is thrown after the submission, as the interpreter would throw it. Opens no device; `ingot/atlas` does.
//
// Invariants: handles count from 1 and are never given out twice; a slot comes back when its handle is freed; a call that is refused has
// changed nothing.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Command, Device, Dispatch, Program, Range, Stats } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { BOUNDARY_BYTES, CLASSES, CLASS_BYTES, PAGES, PAGE_BYTES } from './class.ts'
import {
  type Binding,
  type CompileOptions,
  type CompiledProgram,
  NOTE_BYTES,
  compileProgram,
  noteOffset,
  readNote,
  statusBytes,
} from './compile/compile.ts'
import { type Launch, type LaunchOptions, resolveLaunch, totalLanes } from './launch.ts'
import type { RunResult } from './interpret.ts'
import type { AtlasProgram } from './program.ts'

/** Memory of an executor, from 1 on. */
export type Handle = number

/** A program to run: on how many lanes, on which memory. */
export interface Execution extends LaunchOptions, CompileOptions {
  readonly program: AtlasProgram
  /** which memory the handles in the program mean; those that are not named mean themselves */
  readonly buffers?: Readonly<Record<number, Handle>>
}

/** What takes a slot. */
interface Slot {
  readonly index: number
  readonly bytes: number
  /** its own buffer, or a part of the boundary pool */
  readonly range: Range
  readonly isBoundary: boolean
}

/** A slot that is taken. */
export interface SlotInfo {
  readonly class: number
  readonly handle: Handle
  readonly bytes: number
  /** true if it is in the boundary pool */
  readonly boundary: boolean
}

/** Runs programs on a device, and holds their memory. */
export class Executor implements AsyncDisposable {
  readonly #device: Device
  readonly #slots = new Map<Handle, Slot>()
  readonly #compiled = new WeakMap<AtlasProgram, Map<string, { compiled: CompiledProgram; program: Promise<Program> }>>()
  #nextHandle = 1
  #boundary: BufferHandle | undefined

  /** The executor closes the device when it is closed. */
  constructor(device: Device) {
    this.#device = device
  }

  get device(): Device {
    return this.#device
  }

  /** live counters of the device: copy them to compare */
  get stats(): Readonly<Stats> {
    return this.#device.stats
  }

  /** The slots that are taken, by class. */
  get slots(): SlotInfo[] {
    return [...this.#slots]
      .map(([handle, { index, bytes, isBoundary }]) => ({ class: index, handle, bytes, boundary: isBoundary }))
      .toSorted((a, b) => a.class - b.class)
  }

  /** `bytes` of memory, all zero, in the first free slot. */
  allocate(bytes: number): Handle {
    if (!Number.isInteger(bytes) || bytes < 1) throw wrong('allocate', 'no size', bytes, 'a whole number of bytes from 1')
    const index = Array.from({ length: CLASSES }, (_, each) => each).find((each) => this.#slotOfClass(each) === undefined)
    if (index === undefined) {
      throw new IngotError('too-large', 'all class slots are taken', {
        op: 'allocate',
        wanted: `at most ${CLASSES}`,
        hint: 'free one first',
      })
    }
    const whole = Math.ceil(bytes / 4) * 4
    const buffer = this.#device.alloc(whole)
    this.#device.write(buffer, 0, new Uint8Array(whole))
    return this.#take({ index, bytes, range: { buffer, offset: 0, bytes: whole }, isBoundary: false })
  }

  /** The memory of a class in the boundary pool, `width` pages of `height` bytes each. */
  allocateBoundary(index: number, width: number, height: number): Handle {
    const op = 'allocateBoundary'
    if (!isFrom(index, 0, CLASSES - 1))
      throw new IngotError('bad-class', 'no such class', { op, got: index, wanted: `0 to ${CLASSES - 1}` })
    if (!isFrom(width, 1, PAGES) || !isFrom(height, 1, PAGE_BYTES)) {
      throw new IngotError('bad-coordinates', 'no such part of the boundary pool', {
        op,
        got: [width, height],
        wanted: `1 to ${PAGES} pages of 1 to ${PAGE_BYTES} bytes`,
      })
    }
    if (this.#slotOfClass(index) !== undefined) throw wrong(op, 'the slot of this class is taken', index, 'a free one')
    const range = { buffer: this.#boundaryPool(), offset: index * CLASS_BYTES, bytes: CLASS_BYTES }
    return this.#take({ index, bytes: width * height, range, isBoundary: true })
  }

  /** Ends a handle and gives its slot back. */
  free(handle: Handle): void {
    const { range, isBoundary } = this.#slot('free', handle)
    if (!isBoundary) this.#device.free(range.buffer)
    this.#slots.delete(handle)
  }

  bytesOf(handle: Handle): number {
    return this.#slot('bytesOf', handle).bytes
  }

  /** Writes bytes; offset and length are multiples of 4, as devices want it, or reach the end. */
  copyTo(handle: Handle, bytes: Uint8Array, offset = 0): void {
    const { range } = this.#within('copyTo', handle, offset, bytes.length)
    const end = offset + bytes.length
    const whole = end === this.bytesOf(handle) && bytes.length % 4 !== 0 ? padded(bytes) : bytes
    this.#device.write(range.buffer, (range.offset ?? 0) + offset, whole)
  }

  /** Reads bytes; offset and length are multiples of 4. */
  async copyFrom(handle: Handle, offset = 0, length?: number): Promise<Uint8Array> {
    const slot = this.#slot('copyFrom', handle)
    const count = length ?? slot.bytes - offset
    const { range } = this.#within('copyFrom', handle, offset, count)
    const whole = Math.ceil(count / 4) * 4
    return (await this.#device.read(range.buffer, (range.offset ?? 0) + offset, whole)).subarray(0, count)
  }

  /** Runs a program on all lanes of a launch. */
  async execute(program: AtlasProgram, launch: Omit<Execution, 'program'> = {}): Promise<RunResult> {
    const [result] = await this.executeAll([{ program, ...launch }])
    return result ?? { accumulators: new Float64Array(CLASSES) }
  }

  /** Runs programs one after the other, in one submission. The first error of the first program that has one is thrown. */
  async executeAll(executions: readonly Execution[]): Promise<RunResult[]> {
    const parts = await Promise.all(executions.map((execution) => this.#prepare(execution)))
    const scratch = new Array<Scratch>()
    try {
      for (const part of parts) scratch.push(this.#allocateScratch(part))
      const read = await this.#device.submit(parts.flatMap((part, i) => this.#commands(part, scratch[i] ?? {})))
      const results = new Array<RunResult>()
      for (const [i, { compiled }] of parts.entries()) {
        const { status, accumulators } = scratch[i] ?? {}
        if (status !== undefined) await this.#checkStatus(compiled, status, read.shift())
        results.push({ accumulators: addRows(accumulators === undefined ? undefined : read.shift()) })
      }
      return results
    } finally {
      for (const buffers of scratch) for (const buffer of Object.values(buffers)) this.#device.free(buffer)
    }
  }

  /** Throws what a lane has run into, if one has. */
  async #checkStatus({ program }: CompiledProgram, status: BufferHandle, head: Uint8Array | undefined): Promise<void> {
    const lane = head === undefined ? NO_LANE : new DataView(head.buffer, head.byteOffset).getUint32(0, true)
    if (lane !== NO_LANE) throw readNote(program, lane, await this.#device.read(status, noteOffset(lane), NOTE_BYTES))
  }

  /** Closes the device, and with it all memory. */
  async close(): Promise<void> {
    this.#slots.clear()
    await this.#device.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  // ----

  async #prepare(execution: Execution): Promise<Prepared> {
    const launch = resolveLaunch(execution)
    const { compiled, program } = this.#compile(execution, launch)
    const ready = await program
    const ranges = compiled.bindings.map((binding) => this.#bound(execution, binding))
    return { compiled, program: ready, launch, ranges }
  }

  /** The program of these settings; the same one is compiled once. */
  #compile({ program, checks = true }: Execution, launch: Launch): { compiled: CompiledProgram; program: Promise<Program> } {
    const known = this.#compiled.get(program) ?? new Map<string, { compiled: CompiledProgram; program: Promise<Program> }>()
    this.#compiled.set(program, known)
    const key = `${launch.block.join(',')} ${launch.sharedBytes} ${checks}`
    const before = known.get(key)
    if (before !== undefined) return before
    const compiled = compileProgram(program, launch, { checks })
    const made = { compiled, program: this.#device.compile(compiled.kernel) }
    known.set(key, made)
    return made
  }

  /** What a parameter of the kernel is; undefined for memory that is only for this launch. */
  #bound({ buffers = {} }: Execution, binding: Binding): { range: Range; bytes: number } | undefined {
    if (binding === 'boundary') return { range: { buffer: this.#boundaryPool() }, bytes: BOUNDARY_BYTES }
    if (typeof binding !== 'number') return undefined
    const { range, bytes } = this.#slot('execute', buffers[binding] ?? binding)
    return { range, bytes }
  }

  #allocateScratch({ compiled, launch }: Prepared): Scratch {
    const lanes = totalLanes(launch)
    const sizes = { status: statusBytes(launch), pools: compiled.poolBytes * lanes, accumulators: ROW_BYTES * lanes }
    const needed = SCRATCH.filter((name) => compiled.bindings.includes(name))
    return Object.fromEntries(needed.map((name) => [name, this.#device.alloc(sizes[name])]))
  }

  /** The first lane that reports is none, accumulators are 0; then the program; then what it leaves for the host. */
  #commands(part: Prepared, scratch: Scratch): Command[] {
    const { status, accumulators } = scratch
    const rows = ROW_BYTES * totalLanes(part.launch)
    const ranges = [
      ...(status === undefined ? [] : [{ to: { buffer: status }, bytes: STATUS_BYTES, value: 255 }]),
      ...(accumulators === undefined ? [] : [{ to: { buffer: accumulators }, bytes: rows, value: 0 }]),
    ]
    return [
      ...ranges.map((fill): Command => ({ kind: 'fill', ...fill })),
      this.#dispatch(part, scratch),
      ...ranges.map(({ to, bytes }): Command => ({ kind: 'read', from: to, bytes })),
    ]
  }

  #dispatch({ compiled, program, launch, ranges }: Prepared, scratch: Scratch): Dispatch {
    const uniforms = Object.fromEntries(compiled.bindings.map((binding, i) => [`buf${binding}_bytes`, ranges[i]?.bytes ?? 0]))
    const buffers = compiled.bindings.flatMap((binding, i): Range[] => {
      const own = binding === 'status' || binding === 'pools' || binding === 'accumulators' ? scratch[binding] : undefined
      const range = ranges[i]?.range ?? (own === undefined ? undefined : { buffer: own })
      return range === undefined ? [] : [range]
    })
    return { kind: 'dispatch', program, buffers, uniforms: packUniforms(compiled.kernel, uniforms), grid: launch.grid }
  }

  #boundaryPool(): BufferHandle {
    if (this.#boundary === undefined) {
      this.#boundary = this.#device.alloc(BOUNDARY_BYTES)
      this.#device.write(this.#boundary, 0, new Uint8Array(BOUNDARY_BYTES))
    }
    return this.#boundary
  }

  #take(slot: Slot): Handle {
    const handle = this.#nextHandle++
    this.#slots.set(handle, slot)
    return handle
  }

  #slotOfClass(index: number): Slot | undefined {
    return [...this.#slots.values()].find((slot) => slot.index === index)
  }

  #slot(op: string, handle: Handle): Slot {
    const slot = this.#slots.get(handle)
    if (slot !== undefined) return slot
    const wasFreed = Number.isInteger(handle) && handle > 0 && handle < this.#nextHandle
    if (wasFreed && op === 'free') throw new IngotError('double-free', 'memory is freed twice', { op, got: handle })
    throw new IngotError('unknown-handle', wasFreed ? 'memory was freed' : 'no such memory', { op, got: handle })
  }

  #within(op: string, handle: Handle, offset: number, length: number): Slot {
    const slot = this.#slot(op, handle)
    const isInside = isFrom(offset, 0, slot.bytes) && isFrom(length, 0, slot.bytes - offset)
    if (!isInside) {
      throw new IngotError('out-of-range', 'past the end', { op, got: [offset, offset + length], wanted: `within ${slot.bytes} bytes` })
    }
    return slot
  }
}

/** What the first word of reports is while there are none. */
const NO_LANE = 0xffffffff

/** of the head of reports that the host reads */
const STATUS_BYTES = 16
/** of the accumulators of a lane */
const ROW_BYTES = 8 * CLASSES
/** Memory that only one launch needs. */
const SCRATCH = ['status', 'pools', 'accumulators'] as const
type Scratch = Partial<Record<(typeof SCRATCH)[number], BufferHandle>>

/** The sums of all lanes, first lane first. */
function addRows(bytes: Uint8Array | undefined): Float64Array {
  const sums = new Float64Array(CLASSES)
  const rows = bytes === undefined ? new Float64Array() : new Float64Array(bytes.slice().buffer)
  rows.forEach((value, at) => {
    sums[at % CLASSES] = (sums[at % CLASSES] ?? 0) + value
  })
  return sums
}

interface Prepared {
  readonly compiled: CompiledProgram
  readonly program: Program
  readonly launch: Launch
  readonly ranges: readonly ({ readonly range: Range; readonly bytes: number } | undefined)[]
}

/** As many words as it takes; there is room for them behind the end. */
function padded(bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(Math.ceil(bytes.length / 4) * 4)
  whole.set(bytes)
  return whole
}

function isFrom(value: number, low: number, high: number): boolean {
  return Number.isInteger(value) && value >= low && value <= high
}

function wrong(op: string, what: string, got: unknown, wanted: string): IngotError {
  return new IngotError('bad-argument', what, { op, got, wanted })
}
