// Runs programs on a device: memory by handle, 96 slots for it, pools, the boundary pool, and programs that are compiled once. What a
// program ran into on the device is thrown after the submission, as the interpreter would throw it. Opens no device; `ingot/atlas` does.
//
// Invariants: handles count from 1 and are never given out twice (memory-table.ts); a slot comes back when its handle is freed; a call that
// is refused has changed nothing.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Command, Device, Dispatch, Program, Range, Stats } from '../device/device.ts'
import { scalarOf } from '../base/dtype.ts'
import { buffersOf, packUniforms, uses } from '../ir/kernel.ts'
import { BOUNDARY_BYTES, CLASSES, CLASS_BYTES, PAGES, PAGE_BYTES } from './class.ts'
import {
  type Binding,
  type CompileOptions,
  type CompiledProgram,
  NOTE_BYTES,
  compileProgram,
  computesHandles,
  isOfHost,
  noteOffset,
  readNote,
  sizeName,
  statusBytes,
} from './compile/compile.ts'
import { type Launch, type LaunchOptions, resolveLaunch, totalLanes } from './launch.ts'
import type { RunResult } from './interpret.ts'
import type { Handles } from './compile/memory.ts'
import { type Handle, type HeldMemory, MemoryTable, allocateZeros, isFrom } from './memory-table.ts'
import type { AtlasProgram } from './program.ts'
import { printInstruction } from './text.ts'

/** A program to run: on how many lanes, on which memory. */
export interface Execution extends LaunchOptions, Pick<CompileOptions, 'checks'> {
  readonly program: AtlasProgram
  /**
   * Which memory the handles in the program mean; those that are not named mean themselves. A handle that is computed while running means
   * one of those that are named or, if there is no list, any memory of the executor.
   */
  readonly buffers?: Readonly<Record<number, Handle>>
  /** The same for pools. */
  readonly pools?: Readonly<Record<number, Handle>>
  /** true: a device without f64 may compute f64 as f32; default false: it refuses */
  readonly f64AsF32?: boolean
}

/** What takes a slot; its range is its own buffer, or a part of the boundary pool. */
interface Slot extends HeldMemory {
  readonly index: number
  readonly isBoundary: boolean
}

/** A program for one block, with and without checks, and so on. */
interface Ready {
  readonly compiled: CompiledProgram
  readonly program: Promise<Program>
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
  readonly #slots: MemoryTable<Slot>
  readonly #pools: MemoryTable<HeldMemory>
  readonly #known = new WeakMap<AtlasProgram, { readonly computesHandles: boolean; readonly forms: Map<string, Ready> }>()
  #boundary: BufferHandle | undefined

  /** The executor closes the device when it is closed. */
  constructor(device: Device) {
    this.#device = device
    this.#slots = new MemoryTable(device, 'memory')
    this.#pools = new MemoryTable(device, 'pool')
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
    return this.#slots
      .entries()
      .map(([handle, { index, bytes, isBoundary }]) => ({ class: index, handle, bytes, boundary: isBoundary }))
      .toSorted((a, b) => a.class - b.class)
  }

  /** `bytes` of memory, all zero, in the first free slot. */
  allocate(bytes: number): Handle {
    const index = Array.from({ length: CLASSES }, (_, each) => each).find((each) => this.#slotOfClass(each) === undefined)
    if (index === undefined) {
      throw new IngotError('too-large', 'all class slots are taken', {
        op: 'allocate',
        wanted: `at most ${CLASSES}`,
        hint: 'free one first',
      })
    }
    return this.#slots.add({ ...allocateZeros('allocate', this.#device, bytes), index, isBoundary: false })
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
    if (this.#slotOfClass(index) !== undefined) {
      throw new IngotError('bad-argument', 'the slot of this class is taken', { op, got: index, wanted: 'a free one' })
    }
    const range = { buffer: this.#boundaryPool(), offset: index * CLASS_BYTES, bytes: CLASS_BYTES }
    return this.#slots.add({ index, bytes: width * height, range, isOwn: false, isBoundary: true })
  }

  /** Ends a handle and gives its slot back. */
  free(handle: Handle): void {
    const { range, isBoundary } = this.#slots.remove('free', handle)
    if (!isBoundary) this.#device.free(range.buffer)
  }

  bytesOf(handle: Handle): number {
    return this.#slots.get('bytesOf', handle).bytes
  }

  /** Writes bytes; offset and length are multiples of 4, as devices want it, or reach the end. */
  copyTo(handle: Handle, bytes: Uint8Array, offset = 0): void {
    this.#slots.write('copyTo', handle, bytes, offset)
  }

  /** Reads bytes; the offset is a multiple of 4. */
  copyFrom(handle: Handle, offset = 0, length?: number): Promise<Uint8Array> {
    return this.#slots.read('copyFrom', handle, offset, length)
  }

  /** A pool of `bytes` bytes, all zero, which all lanes share: poolload and poolstore know it by this handle. It takes no slot. */
  allocatePool(bytes: number): Handle {
    return this.#pools.add(allocateZeros('allocatePool', this.#device, bytes))
  }

  freePool(pool: Handle): void {
    this.#device.free(this.#pools.remove('freePool', pool).range.buffer)
  }

  poolBytes(pool: Handle): number {
    return this.#pools.get('poolBytes', pool).bytes
  }

  /** Writes bytes to a pool; offset and length are multiples of 4, as devices want it, or reach the end. */
  copyToPool(pool: Handle, bytes: Uint8Array, offset = 0): void {
    this.#pools.write('copyToPool', pool, bytes, offset)
  }

  /** Reads bytes of a pool; the offset is a multiple of 4. */
  copyFromPool(pool: Handle, offset = 0, length?: number): Promise<Uint8Array> {
    return this.#pools.read('copyFromPool', pool, offset, length)
  }

  /** Compiles a program for a launch, and says in words what became of it and what runs it. */
  async explain(program: AtlasProgram, launch: Omit<Execution, 'program'> = {}): Promise<string> {
    const { compiled } = await this.#prepare({ program, ...launch })
    return `${compiled.explain()}\ndevice: ${this.#device.name}, ${this.#device.detail}`
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
    this.#pools.clear()
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
  #compile(execution: Execution, launch: Launch): Ready {
    const { program, checks = true } = execution
    const known = this.#known.get(program) ?? { computesHandles: computesHandles(program), forms: new Map<string, Ready>() }
    this.#known.set(program, known)
    const handles = known.computesHandles ? this.#handlesOf(execution) : {}
    const f64AsF32 = execution.f64AsF32 === true && !this.#device.caps.f64
    const key = JSON.stringify([launch.block, launch.sharedBytes, checks, f64AsF32, handles])
    const before = known.forms.get(key)
    if (before !== undefined) return before
    const compiled = compileProgram(program, launch, { checks, f64AsF32, handles })
    this.#checkFits(compiled, known.computesHandles)
    const made = { compiled, program: this.#device.compile(compiled.kernel) }
    known.forms.set(key, made)
    return made
  }

  /** What a handle that is computed while running may mean. */
  #handlesOf({ buffers, pools }: Execution): Required<Handles> {
    const named = <T extends HeldMemory>(names: Readonly<Record<number, Handle>> | undefined, all: MemoryTable<T>): number[] =>
      names === undefined ? all.entries().map(([handle]) => handle) : Object.keys(names).map(Number)
    return { buffers: named(buffers, this.#slots), pools: named(pools, this.#pools) }
  }

  /** Refuses what only this device cannot do, with what to do about it. */
  #checkFits({ program, kernel }: CompiledProgram, isOpen: boolean): void {
    const { f64, bindings } = this.#device.caps
    const isDouble = uses(kernel, ({ dtype }) => dtype !== 'void' && scalarOf(dtype) === 'f64')
    if (!f64 && isDouble) {
      const at = program.instructions.findIndex((each) => each.op === 'resAccum' || Object.values(each).includes('f64'))
      const instruction = program.instructions[at]
      throw new IngotError('unsupported', `${this.#device.name} has no f64`, {
        op: 'atlas',
        got: `instruction ${at}${instruction === undefined ? '' : `: ${printInstruction(instruction)}`}`,
        hint: 'allow f32 by { f64AsF32: true }, or run it on cpu or reference',
      })
    }
    const buffers = buffersOf(kernel).length
    if (isOpen && buffers > bindings) {
      throw new IngotError('too-large', 'a handle that is computed while running may mean any memory, and this device binds less at once', {
        op: 'atlas',
        got: `${buffers} buffers and pools`,
        wanted: `at most ${bindings}`,
        hint: 'name those that it may mean in buffers and pools',
      })
    }
  }

  /** What a parameter of the kernel is; undefined for memory that is only for this launch. */
  #bound({ buffers = {}, pools = {} }: Execution, binding: Binding): { range: Range; bytes: number } | undefined {
    if (binding === 'boundary') return { range: { buffer: this.#boundaryPool() }, bytes: BOUNDARY_BYTES }
    if (!isOfHost(binding)) return undefined
    if (typeof binding === 'number') return this.#slots.get('execute', buffers[binding] ?? binding)
    const pool = Number(binding.replace('pool', ''))
    return this.#pools.get('execute', pools[pool] ?? pool)
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
    const uniforms = Object.fromEntries(compiled.bindings.map((binding, i) => [sizeName(binding), ranges[i]?.bytes ?? 0]))
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

  #slotOfClass(index: number): Slot | undefined {
    return this.#slots.entries().find(([, slot]) => slot.index === index)?.[1]
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
