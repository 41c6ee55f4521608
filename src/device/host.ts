// A device whose memory is plain bytes of this process and whose work is done when `submit` returns: the frame of `reference`
// and `null`. Knows nothing of what a dispatch does; its `Runner` does.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { hashKernel } from '../ir/hash.ts'
import type { Kernel } from '../ir/kernel.ts'
import { type Bound, type Checked, checkCommands, checkKernel, checkLoaded, checkSize, checkTransfer, checkWritable } from './check.ts'
import { type BufferHandle, type ByteRange, type Command, type Device, type Program, type Recording, emptyStats } from './device.ts'
import { CheckedRecording } from './recording.ts'
import { BufferTable } from './table.ts'

export interface Runner {
  readonly name: string
  readonly detail: string
  readonly caps: Caps
  /** Throws if the kernel cannot run. Called once per content. */
  compile(kernel: Kernel): void
  /** Runs one dispatch; `buffers` are in order of the parameters and exactly the ranges that were bound. */
  run(kernel: Kernel, buffers: readonly Uint8Array[], uniforms: Uint8Array, grid: readonly [number, number, number]): void
}

/** New memory is filled with this: NaN as f32 and f16, so that reading what nobody wrote shows. */
const POISON = 0xff

export class HostDevice implements Device {
  readonly name: string
  readonly detail: string
  readonly caps: Caps
  readonly stats = emptyStats()
  readonly #runner: Runner
  readonly #table: BufferTable<Uint8Array>
  readonly #programs = new Map<string, Program>()
  readonly #ground
  #closed = false

  constructor(runner: Runner) {
    this.name = runner.name
    this.detail = runner.detail
    this.caps = runner.caps
    this.#runner = runner
    const table = new BufferTable<Uint8Array>({ create, destroy: () => {} }, this.stats)
    this.#table = table
    this.#ground = {
      caps: this.caps,
      get frees() {
        return table.frees
      },
      get: (handle: BufferHandle, op: string) => table.get(handle, op),
      owns: (program: Program) => this.#programs.get(program.key) === program,
    }
  }

  alloc(bytes: number): BufferHandle {
    this.#open('alloc')
    checkSize('alloc', bytes, this.caps)
    const { handle, memory } = this.#table.alloc(bytes, this.caps.bufferBytes)
    memory.fill(POISON)
    return handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#open('load')
    checkSize('load', range.bytes, this.caps)
    const capacity = Math.ceil(range.bytes / 16) * 16
    const memory = create(capacity)
    const bytes = await range.read(0, range.bytes)
    checkLoaded(range, 0, range.bytes, bytes.length)
    memory.set(bytes)
    this.#open('load')
    this.stats.bytesWritten += range.bytes
    return this.#table.adopt(memory, range.bytes, capacity).handle
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
    entry.memory.set(bytes, offset)
    this.stats.bytesWritten += bytes.length
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#open('read')
    const entry = this.#table.get(buffer, 'read')
    checkTransfer('read', entry, offset, bytes)
    this.stats.bytesRead += bytes
    return entry.memory.slice(offset, offset + bytes)
  }

  async compile(kernel: Kernel): Promise<Program> {
    this.#open('compile')
    const key = hashKernel(kernel)
    const known = this.#programs.get(key)
    if (known !== undefined) {
      this.stats.compileHits++
      return known
    }
    checkKernel(kernel, this.caps)
    this.#runner.compile(kernel)
    this.stats.compiles++
    const program = { kernel, key }
    this.#programs.set(key, program)
    return program
  }

  record(commands: readonly Command[]): Recording {
    this.#open('record')
    return new CheckedRecording<Uint8Array, null>(
      commands,
      this.#ground,
      () => null,
      () => {},
    )
  }

  async submit(work: readonly Command[] | Recording): Promise<Uint8Array[]> {
    this.#open('submit')
    const commands = this.#check(work)
    this.stats.submissions++
    return commands.flatMap((command) => this.#run(command))
  }

  async sync(): Promise<void> {
    this.#open('sync')
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#table.close()
    this.#programs.clear()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #check(work: readonly Command[] | Recording): readonly Checked<Uint8Array>[] {
    if (!('commands' in work)) return checkCommands(work, this.#ground)
    if (!(work instanceof CheckedRecording)) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    work.check(this.#ground)
    return work.checked as readonly Checked<Uint8Array>[]
  }

  #run(command: Checked<Uint8Array>): Uint8Array[] {
    switch (command.kind) {
      case 'dispatch':
        this.stats.dispatches++
        if (!command.grid.includes(0))
          this.#runner.run(command.program.kernel, command.buffers.map(bytesOf), command.uniforms, command.grid)
        return []
      case 'copy':
        bytesOf(command.to).set(bytesOf(command.from))
        return []
      case 'fill':
        bytesOf(command.to).fill(command.value)
        return []
      case 'read':
        this.stats.bytesRead += command.from.bytes
        return [bytesOf(command.from).slice()]
    }
  }

  #open(op: string): void {
    if (this.#closed) throw new IngotError('closed', `the ${this.name} device was closed`, { op })
  }
}

function bytesOf({ entry, offset, bytes }: Bound<Uint8Array>): Uint8Array {
  return entry.memory.subarray(offset, offset + bytes)
}

function create(bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes)
  } catch (cause) {
    throw new IngotError('out-of-memory', 'no memory for a buffer', { op: 'alloc', got: `${bytes} bytes`, cause })
  }
}
