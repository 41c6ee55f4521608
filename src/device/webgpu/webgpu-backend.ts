// What is the WebGPU device's own, over a GPUDevice from Dawn in Node or from the browser. Buffers are GPU buffers in a pool, a
// submission is one command buffer and one queue.submit. Knows nothing of kernels beyond their parameters.
//
// What is encoded in `run`, `read` and `write` happens before the call returns, so the queue sees calls in their order; only
// results and errors are awaited. WebGPU reports errors late: a buffer that could not be made fails the work that uses it.
// Everything that WebGPU has not answered yet is tracked: Dawn may crash when a device is destroyed meanwhile.

import type { Caps } from '../../base/caps.ts'
import { IngotError, isIngotError, messageOf } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { takeOnlyRead } from '../core/backed-device.ts'
import type { Backend, Compilation, ReadPieces } from '../core/backend.ts'
import { alignBytes } from '../core/buffer-table.ts'
import { type BoundRange, type CheckedCommand } from '../core/checked-command.ts'
import { Lifecycle } from '../core/lifecycle.ts'
import { type ByteRange, rangesOf } from '../device.ts'
import { capsOf, describe } from './adapter.ts'
import { type GpuMemory, type PreparedCommands, encode, prepare } from './encode.ts'
import { guard, translate } from './fault.ts'
import { Pipelines, type WebgpuProgram } from './pipeline.ts'
import { Staging, createUniforms } from './staging.ts'
import { startUpload, writeBytes } from './upload.ts'
import { COPY_DST, COPY_SRC, STORAGE } from './usage.ts'

/** What a recording keeps: its commands with bind groups, its own uniforms, what went wrong in making them, and whether it ran. */
interface RecordedCommands {
  readonly prepared: PreparedCommands
  readonly uniforms: GPUBuffer | undefined
  readonly fault: Promise<IngotError | undefined>
  proven: boolean
}

type Commands = readonly CheckedCommand<GpuMemory, WebgpuProgram>[]

export class WebgpuBackend implements Backend<GpuMemory, WebgpuProgram, RecordedCommands> {
  readonly lifecycle = new Lifecycle('webgpu')
  readonly detail: string
  readonly caps: Caps
  readonly #device: GPUDevice
  readonly #pipelines: Pipelines
  readonly #staging: Staging
  /** unanswered questions whether a buffer could be made */
  readonly #creating = new Set<Promise<void>>()
  /** an error that no scope caught */
  #stray: IngotError | undefined

  constructor(adapter: GPUAdapter, device: GPUDevice) {
    this.detail = describe(adapter)
    this.caps = capsOf(device, adapter)
    this.#device = device
    this.#pipelines = new Pipelines(device, this.caps)
    this.#staging = new Staging(device)
    void this.#watch()
    device.addEventListener('uncapturederror', (event) => {
      event.preventDefault()
      this.#stray ??= translate(event.error, 'webgpu')
    })
  }

  create(bytes: number): GpuMemory {
    const [buffer, fault] = this.#guard(() => this.#device.createBuffer({ size: bytes, usage: STORAGE | COPY_SRC | COPY_DST }), 'alloc')
    const memory: GpuMemory = { buffer, known: false }
    const ask = async (): Promise<void> => {
      const error = await fault
      this.#creating.delete(asked)
      memory.known = true
      if (error !== undefined)
        memory.failed = new IngotError('out-of-memory', 'no memory for a buffer', { op: 'alloc', got: `${bytes} bytes`, cause: error })
    }
    const asked = ask()
    this.#creating.add(asked)
    return memory
  }

  destroy({ buffer }: GpuMemory): void {
    buffer.destroy()
  }

  /** The queue runs in order, so what comes next may reuse the memory at once. */
  isReusable({ failed }: GpuMemory): boolean {
    return failed === undefined
  }

  async load({ bytes }: ByteRange, readPieces: ReadPieces): Promise<GpuMemory> {
    const memory = this.create(alignBytes(bytes))
    try {
      await readPieces(startUpload(this.#device.queue, memory.buffer))
      await this.#created([memory])
      return memory
    } catch (error) {
      memory.buffer.destroy()
      throw error
    }
  }

  write({ buffer: { memory }, offset }: BoundRange<GpuMemory>, bytes: Uint8Array): void {
    if (memory.failed !== undefined) throw memory.failed
    const write = (): void => writeBytes(this.#device.queue, memory.buffer, offset, bytes)
    // If the buffer turns out not to be made, whoever uses it next is told; this write must not be reported to someone else.
    if (memory.known) write()
    else void this.#guard(write, 'write')
  }

  async read(from: BoundRange<GpuMemory>): Promise<Uint8Array> {
    const { memory } = from.buffer
    if (memory.failed !== undefined) throw memory.failed
    const prepared: PreparedCommands = { commands: [{ kind: 'read', from, bytes: from.bytes }], reads: [from.bytes], detours: [] }
    const run = (): Promise<Uint8Array[]> => this.#submit(prepared, [memory], 'read')
    return takeOnlyRead(await (memory.known ? run() : this.#outcome(...this.#guard(run, 'read'))))
  }

  compile(kernel: Kernel): Compilation<WebgpuProgram> {
    const { program, fresh } = this.#pipelines.compile(kernel)
    return { program: program.catch((error: unknown) => this.#explain(error, 'compile')), fresh }
  }

  prepare(commands: Commands): RecordedCommands {
    let uniforms: GPUBuffer | undefined
    const [prepared, fault] = this.#guard(
      () => prepare(this.#device, this.#pipelines, commands, (bytes) => (uniforms = createUniforms(this.#device, bytes))),
      'record',
    )
    return { prepared, uniforms, fault, proven: false }
  }

  dispose({ prepared, uniforms }: RecordedCommands): void {
    uniforms?.destroy()
    for (const buffer of prepared.detours) buffer.destroy()
  }

  async run(commands: Commands, recorded: RecordedCommands | undefined): Promise<Uint8Array[]> {
    if (recorded !== undefined) return this.#replay(recorded, commands)
    let prepared: PreparedCommands | undefined
    const [done, fault] = this.#guard(() => {
      prepared = prepare(this.#device, this.#pipelines, commands, (bytes) => this.#staging.uniforms(bytes))
      return this.#submit(prepared, memoriesOf(commands), 'submit')
    }, 'submit')
    for (const buffer of prepared?.detours ?? []) buffer.destroy()
    return this.#outcome(done, fault)
  }

  async sync(): Promise<void> {
    if (this.lifecycle.lost === undefined) await this.#device.queue.onSubmittedWorkDone()
    await Promise.all(this.#creating)
    this.#throwStray()
  }

  release(): void {
    this.#device.destroy()
  }

  async #replay(recorded: RecordedCommands, commands: Commands): Promise<Uint8Array[]> {
    const { prepared, proven } = recorded
    const run = (): Promise<Uint8Array[]> => this.#submit(prepared, proven ? [] : memoriesOf(commands), 'submit')
    // Error scopes cost some 0.1 ms; the same commands on the same buffers stay valid, and rarer faults arrive as strays.
    if (proven) return run()
    const [done, fault] = this.#guard(run, 'submit')
    const result = await this.#outcome(
      done,
      recorded.fault.then((error) => error ?? fault),
    )
    recorded.proven = true
    return result
  }

  async #watch(): Promise<void> {
    const { reason, message } = await this.#device.lost
    this.lifecycle.lose(
      new IngotError('device-lost', `the GPU is gone (${reason}): ${message}`, { op: 'webgpu', hint: 'open the device again' }),
    )
  }

  /** Encodes and submits at once; the promise brings the read-backs. */
  #submit(prepared: PreparedCommands, memories: readonly GpuMemory[], op: string): Promise<Uint8Array[]> {
    const total = prepared.reads.reduce((sum, bytes) => sum + bytes, 0)
    const reader = total === 0 ? undefined : this.#staging.reader(total)
    this.#device.queue.submit([encode(this.#device, prepared, this.#staging, reader)])
    const mapped = reader === undefined ? this.#device.queue.onSubmittedWorkDone() : reader.mapAsync(0x1 /* read */, 0, total)
    return this.lifecycle.track(this.#finish(mapped, reader, prepared.reads, memories, op))
  }

  #guard<T>(work: () => T, op: string): readonly [T, Promise<IngotError | undefined>] {
    const [result, fault] = guard(this.#device, work, op)
    return [result, this.lifecycle.track(fault)]
  }

  async #finish(
    mapped: Promise<unknown>,
    reader: GPUBuffer | undefined,
    reads: readonly number[],
    memories: readonly GpuMemory[],
    op: string,
  ): Promise<Uint8Array[]> {
    try {
      await mapped
      await this.#created(memories)
      this.#throwStray()
      const total = reads.reduce((sum, bytes) => sum + bytes, 0)
      const all = reader === undefined ? new Uint8Array(0) : new Uint8Array(reader.getMappedRange(0, total))
      let at = 0
      return reads.map((bytes) => all.slice(at, (at += bytes)))
    } catch (error) {
      return await this.#explain(error, op)
    } finally {
      if (reader !== undefined) {
        if (reader.mapState === 'mapped') reader.unmap()
        this.#staging.release(reader)
      }
    }
  }

  /** The result of a guarded submission: its error wins over its bytes. */
  async #outcome(done: Promise<Uint8Array[]>, fault: Promise<IngotError | undefined>): Promise<Uint8Array[]> {
    const [result, error] = await Promise.all([
      done.then(
        (bytes) => ({ bytes }),
        (failed: unknown) => ({ failed }),
      ),
      fault,
    ])
    if ('failed' in result && isIngotError(result.failed) && result.failed.code !== 'device-failed') throw result.failed
    if (error !== undefined) throw error
    if ('failed' in result) throw result.failed
    return result.bytes
  }

  /** Throws if one of these could not be made. */
  async #created(memories: readonly GpuMemory[]): Promise<void> {
    if (this.#creating.size > 0) await Promise.all(this.#creating)
    for (const { failed } of memories) if (failed !== undefined) throw failed
  }

  /** Reports what came in from the side while nobody was looking. */
  #throwStray(): void {
    if (this.lifecycle.lost !== undefined) throw this.lifecycle.lost
    const stray = this.#stray
    this.#stray = undefined
    if (stray !== undefined) throw stray
  }

  /** Rethrows an error for what it is: an aborted map of a lost device is a lost device. */
  async #explain(error: unknown, op: string): Promise<never> {
    if (!isIngotError(error))
      await new Promise((resolve) => {
        setTimeout(resolve, 1)
      }) // `lost` settles after what it breaks
    if (this.lifecycle.lost !== undefined) throw this.lifecycle.lost
    if (isIngotError(error)) throw error
    throw new IngotError('device-failed', messageOf(error), { op, cause: error })
  }
}

function memoriesOf(commands: Commands): GpuMemory[] {
  return commands.flatMap((command) => rangesOf(command).map(({ buffer }) => buffer.memory))
}
