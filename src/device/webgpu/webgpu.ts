// The WebGPU device: one class over a GPUDevice, from Dawn in Node or from the browser. Buffers are GPU buffers in a pool,
// a submission is one command buffer and one queue.submit. Knows nothing of kernels beyond their parameters.
//
// What is encoded in `submit`, `read` and `write` happens before the call returns, so the queue sees calls in their order; only
// results and errors are awaited. WebGPU reports errors late: a buffer that could not be made fails the work that uses it.

import type { Caps } from '../../base/caps.ts'
import { IngotError, isIngotError } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { type Checked, checkCommands, checkKernel, checkSize, checkTransfer, checkWritable } from '../check.ts'
import { type BufferHandle, type ByteRange, type Command, type Device, type Program, type Recording, emptyStats } from '../device.ts'
import type { DeviceFactory } from '../factory.ts'
import { CheckedRecording } from '../recording.ts'
import { BufferTable } from '../table.ts'
import { capsOf, describe, findAdapter, probeAdapter, requestDevice } from './adapter.ts'
import { type GpuMemory, type Prepared, encode, prepare } from './encode.ts'
import { guard, translate } from './fault.ts'
import { upload } from './load.ts'
import { Pipelines } from './pipeline.ts'
import { Staging, createUniforms } from './staging.ts'
import { COPY_DST, COPY_SRC, STORAGE } from './usage.ts'

export const webgpu: DeviceFactory = {
  name: 'webgpu',
  about: 'WebGPU: Dawn in Node (package webgpu), navigator.gpu in browsers',
  probe: probeAdapter,
  async open() {
    const adapter = await findAdapter()
    return new WebgpuDevice(adapter, await requestDevice(adapter))
  },
}

/** What a recording keeps: its commands with bind groups, its own uniforms, what went wrong in making them, and whether it ran. */
interface Kept {
  readonly prepared: Prepared
  readonly uniforms: GPUBuffer | undefined
  readonly fault: Promise<IngotError | undefined>
  proven: boolean
}

export class WebgpuDevice implements Device {
  readonly name = 'webgpu'
  readonly detail: string
  readonly caps: Caps
  readonly stats = emptyStats()
  readonly #device: GPUDevice
  readonly #table: BufferTable<GpuMemory>
  readonly #pipelines: Pipelines
  readonly #staging: Staging
  readonly #programs = new WeakSet<Program>()
  readonly #ground
  /** unanswered questions whether a buffer could be made */
  readonly #creating = new Set<Promise<void>>()
  /** what WebGPU has not answered yet; Dawn may crash when a device is destroyed meanwhile */
  readonly #running = new Set<Promise<unknown>>()
  #lost: IngotError | undefined
  /** an error that no scope caught */
  #stray: IngotError | undefined
  #closed = false

  constructor(adapter: GPUAdapter, device: GPUDevice) {
    this.detail = describe(adapter)
    this.caps = capsOf(device, adapter)
    this.#device = device
    const table = new BufferTable<GpuMemory>(
      { create: (bytes) => this.#create(bytes), destroy: ({ buffer }) => buffer.destroy() },
      this.stats,
    )
    this.#table = table
    this.#pipelines = new Pipelines(device, this.caps)
    this.#staging = new Staging(device)
    this.#ground = {
      caps: this.caps,
      get frees() {
        return table.frees
      },
      get: (handle: BufferHandle, op: string) => table.get(handle, op),
      owns: (program: Program) => this.#programs.has(program),
    }
    void this.#watch()
    device.addEventListener('uncapturederror', (event) => {
      event.preventDefault()
      this.#stray ??= translate(event.error, 'webgpu')
    })
  }

  alloc(bytes: number): BufferHandle {
    this.#usable('alloc')
    checkSize('alloc', bytes, this.caps)
    return this.#table.alloc(bytes, this.caps.bufferBytes).handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#usable('load')
    checkSize('load', range.bytes, this.caps)
    const capacity = Math.ceil(range.bytes / 16) * 16
    const memory = this.#create(capacity)
    try {
      await this.#track(upload(this.#device, memory.buffer, range, () => this.#usable('load')))
      await this.#created([memory])
      this.#usable('load')
    } catch (error) {
      memory.buffer.destroy()
      throw error
    }
    this.stats.bytesWritten += range.bytes
    return this.#table.adopt(memory, range.bytes, capacity).handle
  }

  free(buffer: BufferHandle): void {
    this.#usable('free')
    // The queue runs in order, so what comes next may reuse the memory at once.
    this.#table.free(buffer, this.#table.get(buffer, 'free').memory.failed === undefined)
  }

  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void {
    this.#usable('write')
    const entry = this.#table.get(buffer, 'write')
    checkTransfer('write', entry, offset, bytes.length)
    checkWritable('write', entry)
    if (entry.memory.failed !== undefined) throw entry.memory.failed
    const write = (): void => this.#device.queue.writeBuffer(entry.memory.buffer, offset, bytes as Uint8Array<ArrayBuffer>)
    // If the buffer turns out not to be made, whoever uses it next is told; this write must not be reported to someone else.
    if (entry.memory.known) write()
    else this.#guard(write, 'write')
    this.stats.bytesWritten += bytes.length
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#usable('read')
    const entry = this.#table.get(buffer, 'read')
    checkTransfer('read', entry, offset, bytes)
    if (entry.memory.failed !== undefined) throw entry.memory.failed
    const steps = [{ kind: 'read', from: { entry, offset, bytes } }] as const
    const run = (): Promise<Uint8Array[]> => this.#submit({ steps, dispatches: 0, reads: [bytes], detours: [] }, [entry.memory], 'read')
    const [got] = await (entry.memory.known ? run() : this.#outcome(...this.#guard(run, 'read')))
    return got as Uint8Array
  }

  async compile(kernel: Kernel): Promise<Program> {
    this.#usable('compile')
    checkKernel(kernel, this.caps)
    const { program, fresh } = this.#pipelines.compile(kernel)
    if (!fresh) this.stats.compileHits++
    const made = await this.#track(program).catch((error: unknown) => this.#explain(error))
    if (fresh) this.stats.compiles++
    this.#programs.add(made)
    return made
  }

  record(commands: readonly Command[]): Recording {
    this.#usable('record')
    return new CheckedRecording<GpuMemory, Kept>(
      commands,
      this.#ground,
      (checked) => {
        let uniforms: GPUBuffer | undefined
        const [prepared, fault] = this.#guard(
          () => this.#prepare(checked, (bytes) => (uniforms = createUniforms(this.#device, bytes))),
          'record',
        )
        return { prepared, uniforms, fault, proven: false }
      },
      ({ prepared, uniforms }) => {
        uniforms?.destroy()
        for (const buffer of prepared.detours) buffer.destroy()
      },
    )
  }

  async submit(work: readonly Command[] | Recording): Promise<Uint8Array[]> {
    this.#usable('submit')
    if ('commands' in work) return this.#replay(work)
    const checked = checkCommands(work, this.#ground)
    this.stats.submissions++
    let prepared: Prepared | undefined
    const [done, fault] = this.#guard(() => {
      prepared = this.#prepare(checked, (bytes) => this.#staging.uniforms(bytes))
      return this.#submit(prepared, memoriesOf(checked), 'submit')
    }, 'submit')
    for (const buffer of prepared?.detours ?? []) buffer.destroy()
    return this.#outcome(done, fault)
  }

  async sync(): Promise<void> {
    this.#usable('sync')
    await this.#device.queue.onSubmittedWorkDone()
    await Promise.all(this.#creating)
    this.#settle()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    if (this.#lost === undefined) await this.#device.queue.onSubmittedWorkDone()
    this.#table.close()
    this.#device.destroy()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #replay(work: Recording): Promise<Uint8Array[]> {
    if (!(work instanceof CheckedRecording)) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    const recording = work as CheckedRecording<GpuMemory, Kept>
    recording.check(this.#ground)
    this.stats.submissions++
    const { extra: kept, checked } = recording
    const run = (): Promise<Uint8Array[]> => this.#submit(kept.prepared, kept.proven ? [] : memoriesOf(checked), 'submit')
    // Error scopes cost some 0.1 ms; the same commands on the same buffers stay valid, and rarer faults arrive as strays.
    if (kept.proven) return run()
    const [done, fault] = this.#guard(run, 'submit')
    const result = await this.#outcome(
      done,
      kept.fault.then((error) => error ?? fault),
    )
    kept.proven = true
    return result
  }

  async #watch(): Promise<void> {
    const { reason, message } = await this.#device.lost
    this.#lost = new IngotError('device-lost', `the GPU is gone (${reason}): ${message}`, { op: 'webgpu', hint: 'open the device again' })
  }

  #prepare(checked: readonly Checked<GpuMemory>[], uniforms: (bytes: number) => GPUBuffer): Prepared {
    return prepare(this.#device, this.#pipelines, checked, uniforms)
  }

  /** Encodes and submits at once; the promise brings the read-backs. */
  #submit(prepared: Prepared, memories: readonly GpuMemory[], op: string): Promise<Uint8Array[]> {
    const total = prepared.reads.reduce((sum, bytes) => sum + bytes, 0)
    const reader = total === 0 ? undefined : this.#staging.reader(total)
    this.#device.queue.submit([encode(this.#device, prepared, this.#staging, reader)])
    this.stats.dispatches += prepared.dispatches
    const mapped = reader === undefined ? this.#device.queue.onSubmittedWorkDone() : reader.mapAsync(0x1 /* read */, 0, total)
    return this.#track(this.#finish(mapped, reader, prepared.reads, memories, op))
  }

  #guard<T>(work: () => T, op: string): readonly [T, Promise<IngotError | undefined>] {
    const [result, fault] = guard(this.#device, work, op)
    return [result, this.#track(fault)]
  }

  #track<T>(promise: Promise<T>): Promise<T> {
    this.#running.add(promise)
    const forget = (): void => {
      this.#running.delete(promise)
    }
    promise.then(forget, forget)
    return promise
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
      this.#settle()
      const total = reads.reduce((sum, bytes) => sum + bytes, 0)
      const all = reader === undefined ? new Uint8Array(0) : new Uint8Array(reader.getMappedRange(0, total))
      this.stats.bytesRead += total
      let at = 0
      return reads.map((bytes) => all.slice(at, (at += bytes)))
    } catch (error) {
      throw await this.#explain(error, op).catch((explained: unknown) => explained)
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

  #create(bytes: number): GpuMemory {
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

  /** Throws if one of these could not be made. */
  async #created(memories: readonly GpuMemory[]): Promise<void> {
    if (this.#creating.size > 0) await Promise.all(this.#creating)
    for (const { failed } of memories) if (failed !== undefined) throw failed
  }

  /** Reports what came in from the side while nobody was looking. */
  #settle(): void {
    if (this.#lost !== undefined) throw this.#lost
    const stray = this.#stray
    this.#stray = undefined
    if (stray !== undefined) throw stray
  }

  /** Rethrows an error for what it is: an aborted map of a lost device is a lost device. */
  async #explain(error: unknown, op = 'compile'): Promise<never> {
    if (!isIngotError(error))
      await new Promise((resolve) => {
        setTimeout(resolve, 1)
      }) // `lost` settles after what it breaks
    if (this.#lost !== undefined) throw this.#lost
    if (isIngotError(error)) throw error
    throw new IngotError('device-failed', error instanceof Error ? error.message : String(error), { op, cause: error })
  }

  #usable(op: string): void {
    if (this.#closed) throw new IngotError('closed', 'the webgpu device was closed', { op })
    if (this.#lost !== undefined) throw this.#lost
  }
}

function memoriesOf(commands: readonly Checked<GpuMemory>[]): GpuMemory[] {
  return commands.flatMap((command) => {
    switch (command.kind) {
      case 'dispatch':
        return command.buffers.map(({ entry }) => entry.memory)
      case 'copy':
        return [command.from.entry.memory, command.to.entry.memory]
      case 'fill':
        return [command.to.entry.memory]
      case 'read':
        return [command.from.entry.memory]
    }
  })
}
