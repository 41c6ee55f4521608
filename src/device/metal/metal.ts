// The Metal device: Apple's framework driven from TypeScript, without a native addon. Buffers are in shared storage and read
// and written in place; files are mapped; a submission is one command buffer with one encoder. Composes the files beside it.
//
// Calls take effect in their order. What is written while the GPU is still busy with a buffer waits in a staging region, and
// the next command buffer begins with copying it. Nothing here blocks the event loop.

import type { Caps } from '../../base/caps.ts'
import { IngotError, isIngotError } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { checkCommands, checkKernel, checkSize, checkTransfer, checkWritable } from '../check.ts'
import {
  type BufferHandle,
  type ByteRange,
  type Command,
  type Device,
  type Program,
  type Recording,
  type Stats,
  emptyStats,
} from '../device.ts'
import type { DeviceFactory } from '../factory.ts'
import { CheckedRecording } from '../recording.ts'
import { BufferTable } from '../table.ts'
import { startCapture } from './capture.ts'
import { Encoding } from './encode.ts'
import { type Replay, encodeReplay, prepareReplay } from './indirect.ts'
import { type Launch, type Lowered, type MetalMemory, type Transfers, lower } from './launch.ts'
import { Mappings } from './mapping.ts'
import type { Id, Owned } from './objc.ts'
import { Pipelines } from './pipeline.ts'
import { Profile, type ProfileRow, describeProfile } from './profile.ts'
import { CommandQueue } from './queue.ts'
import { type Region, Regions } from './region.ts'
import { Residency } from './residency.ts'
import { type MetalSettings, readSettings } from './settings.ts'
import { Staging } from './staging.ts'
import { type Gpu, type Metal, capsOf, describeGpu, detailOf, findDevice, openMetal, probeMetal } from './system.ts'
import { COPY_WORDS, FILL_WORDS, copyUniforms, groupsFor } from './transfer.ts'

export const metal: DeviceFactory = {
  name: 'metal',
  about: 'Metal on Apple silicon, through koffi',
  probe: () => probeMetal(readSettings()),
  open: () => openMetalDevice(),
}

export async function openMetalDevice(settings: MetalSettings = readSettings()): Promise<MetalDevice> {
  const system = await openMetal(settings)
  const id = findDevice(system)
  let device: MetalDevice | undefined
  try {
    device = new MetalDevice(system, id, describeGpu(system, id, settings), settings)
    await device.prepare()
    return device
  } catch (error) {
    if (device === undefined) system.objc.release(id)
    else await device.close()
    throw error
  }
}

/** What a recording keeps: its launches, and the indirect commands where there are some. */
interface Kept {
  readonly lowered: Lowered
  readonly replay: Replay | undefined
  lastUse: number
}

const PIECE = 16 * 2 ** 20

export class MetalDevice implements Device {
  readonly name = 'metal'
  readonly detail: string
  readonly caps: Caps
  readonly stats: Stats
  readonly #metal: Metal
  readonly #id: Owned
  readonly #gpu: Gpu
  readonly #settings: MetalSettings
  readonly #queue: CommandQueue
  readonly #residency: Residency | undefined
  readonly #regions: Regions
  readonly #mappings: Mappings
  readonly #staging: Staging
  readonly #table: BufferTable<MetalMemory>
  readonly #pipelines: Pipelines
  readonly #programs = new WeakSet<Program>()
  readonly #recordings = new Set<Kept>()
  readonly #ground
  readonly #profile = new Profile()
  /** what is not settled yet; memory must stay until it is */
  readonly #running = new Set<Promise<unknown>>()
  #endCapture: (() => void) | undefined
  #transfers: Transfers | undefined
  /** copies that the next command buffer begins with */
  #ahead: { readonly launch: Launch; readonly from: Region; readonly to: Region }[] = []
  #lost: IngotError | undefined
  #closed = false

  /** Takes over the device. `prepare` must follow. */
  constructor(metal: Metal, id: Owned, gpu: Gpu, settings: MetalSettings) {
    const { objc } = metal
    this.#metal = metal
    this.#id = id
    this.#gpu = gpu
    this.#settings = settings
    this.detail = detailOf(gpu)
    this.caps = capsOf(gpu, settings)
    this.#queue = new CommandQueue(objc, id, settings.concurrent)
    this.#residency = settings.residency ? Residency.open(objc, id, this.#queue.id) : undefined
    this.#regions = new Regions(metal, id, gpu, this.#queue.clock, this.#residency)
    this.#mappings = new Mappings(metal.ffi, this.#regions, gpu.bufferBytes)
    this.#staging = new Staging(this.#regions)
    this.stats = countingStats(metal, this.#queue)
    const table = new BufferTable<MetalMemory>(
      {
        create: (bytes) => ({ region: this.#regions.create(bytes), base: 0 }),
        destroy: ({ region, mapped }) => (mapped === undefined ? this.#regions.retire(region) : mapped.release()),
      },
      this.stats,
    )
    this.#table = table
    this.#pipelines = new Pipelines(objc, id, this.caps, { indirect: this.#canReplay(), system: gpu.system })
    this.#ground = {
      caps: this.caps,
      get frees() {
        return table.frees
      },
      get: (handle: BufferHandle, op: string) => table.get(handle, op),
      owns: (program: Program) => this.#programs.has(program),
    }
  }

  /** Compiles what the device itself needs, and starts what the settings ask for. */
  async prepare(): Promise<void> {
    const { capture } = this.#settings
    if (capture !== undefined) this.#endCapture = startCapture(this.#metal.objc, this.#id, capture)
    const [copy, fill] = await Promise.all([COPY_WORDS, FILL_WORDS].map((kernel) => this.#pipelines.compile(kernel).program))
    if (copy !== undefined && fill !== undefined) this.#transfers = { copy, fill }
  }

  alloc(bytes: number): BufferHandle {
    this.#usable('alloc')
    checkSize('alloc', bytes, this.caps)
    return this.#table.alloc(bytes, this.caps.bufferBytes).handle
  }

  async load(range: ByteRange): Promise<BufferHandle> {
    this.#usable('load')
    checkSize('load', range.bytes, this.caps)
    const handle = await this.#track(this.#load(range))
    this.#usable('load')
    return handle
  }

  free(buffer: BufferHandle): void {
    this.#usable('free')
    const { memory } = this.#table.get(buffer, 'free')
    // Busy memory is not given to anyone else: whoever wrote to it would have to wait.
    this.#table.free(buffer, !this.#regions.isBusy(memory.region))
  }

  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void {
    this.#usable('write')
    const entry = this.#table.get(buffer, 'write')
    checkTransfer('write', entry, offset, bytes.length)
    checkWritable('write', entry)
    this.stats.bytesWritten += bytes.length
    const { region, base } = entry.memory
    if (bytes.length === 0) return
    if (this.#regions.isBusy(region)) this.#writeLater(region, base + offset, bytes)
    else this.#regions.bytesOf(region, base + offset, bytes.length).set(bytes)
  }

  async read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array> {
    this.#usable('read')
    const entry = this.#table.get(buffer, 'read')
    checkTransfer('read', entry, offset, bytes)
    const { region, base } = entry.memory
    if (this.#regions.isBusy(region)) {
      const [got] = await this.#run(this.#lower([{ kind: 'read', from: { entry, offset, bytes } }]), undefined)
      return got as Uint8Array
    }
    this.stats.bytesRead += bytes
    return this.#regions.bytesOf(region, base + offset, bytes).slice()
  }

  async compile(kernel: Kernel): Promise<Program> {
    this.#usable('compile')
    checkKernel(kernel, this.caps)
    const { program, fresh } = this.#pipelines.compile(kernel)
    if (!fresh) this.stats.compileHits++
    const made = await this.#track(program)
    if (fresh) this.stats.compiles++
    this.#programs.add(made)
    return made
  }

  record(commands: readonly Command[]): Recording {
    this.#usable('record')
    return new CheckedRecording<MetalMemory, Kept>(
      commands,
      this.#ground,
      (checked) => {
        const lowered = this.#lower(checked)
        const options = { concurrent: this.#settings.concurrent, touches: !this.#gpu.apple9 && !this.#gpu.software }
        const replay = this.#canReplay() ? prepareReplay(this.#metal.objc, this.#id, this.#regions, lowered, options) : undefined
        const kept = { lowered, replay, lastUse: 0 }
        this.#recordings.add(kept)
        return kept
      },
      (kept) => this.#discard(kept),
    )
  }

  async submit(work: readonly Command[] | Recording): Promise<Uint8Array[]> {
    this.#usable('submit')
    if (!('commands' in work)) {
      const lowered = this.#lower(checkCommands(work, this.#ground))
      this.stats.submissions++
      return this.#run(lowered, undefined)
    }
    if (!(work instanceof CheckedRecording)) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    const recording = work as CheckedRecording<MetalMemory, Kept>
    recording.check(this.#ground)
    this.stats.submissions++
    const done = this.#run(recording.extra.lowered, recording.extra.replay)
    recording.extra.lastUse = this.#queue.clock.committed
    return done
  }

  async sync(): Promise<void> {
    this.#usable('sync')
    await this.#queue.idle()
  }

  /** What each kernel cost, with INGOT_PROFILE=1; otherwise empty. */
  profile(): readonly ProfileRow[] {
    return this.#profile.rows()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    await this.#queue.idle()
    await this.#pipelines.close()
    this.#endCapture?.()
    for (const kept of this.#recordings) this.#discard(kept)
    for (const { from } of this.#ahead.splice(0)) this.#regions.retire(from)
    this.#staging.close()
    this.#table.close()
    this.#regions.sweep(true)
    this.#residency?.close()
    this.#queue.close()
    this.#metal.objc.release(this.#id)
    if (this.profile().length > 0) console.error(describeProfile(this.profile()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #lower(commands: Parameters<typeof lower>[0]): Lowered {
    return lower(commands, this.#transfers as Transfers)
  }

  #canReplay(): boolean {
    const { apple7, virtual } = this.#gpu
    return this.#settings.indirect && !this.#settings.profile && apple7 && !virtual
  }

  /** Once there is memory it has a handle, so that `close` finds it. */
  async #load(range: ByteRange): Promise<BufferHandle> {
    const { path, offset } = range
    const enter = (memory: MetalMemory): BufferHandle => this.#table.adopt(memory, range.bytes, Math.ceil(range.bytes / 16) * 16).handle
    if (this.#settings.mapped && path !== undefined && offset !== undefined) {
      const mapped = await this.#mappings.map(path, offset, range.bytes)
      if (mapped !== undefined) return enter({ region: mapped.region, base: mapped.base, mapped })
    }
    const region = this.#regions.create(Math.ceil(range.bytes / 16) * 16, 'load')
    try {
      for (let at = 0; at < range.bytes; at += PIECE) {
        const length = Math.min(PIECE, range.bytes - at)
        const piece = await range.read(at, length)
        this.#usable('load')
        if (piece.length !== length)
          throw new IngotError('bad-file', 'the source gave too few bytes', {
            op: path ?? 'load',
            got: `${piece.length} at ${at}`,
            wanted: length,
          })
        this.#regions.bytesOf(region, at, length).set(piece)
      }
    } catch (error) {
      this.#regions.retire(region)
      throw error
    }
    this.stats.bytesWritten += range.bytes
    return enter({ region, base: 0 })
  }

  #writeLater(to: Region, offset: number, bytes: Uint8Array): void {
    const from = this.#staging.take(bytes.length)
    this.#regions.bytesOf(from, 0, bytes.length).set(bytes)
    const { copy } = this.#transfers as Transfers
    const buffers = [
      { region: from, offset: 0, bytes: bytes.length },
      { region: to, offset, bytes: bytes.length },
    ]
    // One after another: two of them may touch the same bytes.
    const launch = {
      program: copy,
      buffers,
      uniforms: copyUniforms(bytes.length),
      grid: { width: groupsFor(bytes.length), height: 1, depth: 1 },
      waits: true,
    }
    this.#ahead.push({ launch, from, to })
    to.lastUse = from.lastUse = this.#queue.clock.committed + 1
  }

  /** Commits at once; resolves with the bytes that come back. */
  #run(lowered: Lowered, replay: Replay | undefined): Promise<Uint8Array[]> {
    const { launches, readBytes, regions } = lowered
    this.stats.dispatches += lowered.dispatches
    if (launches.length === 0) return Promise.resolve(lowered.reads.map(() => new Uint8Array(0)))
    const reader = readBytes === 0 ? undefined : this.#staging.take(readBytes)
    const ahead = this.#ahead
    this.#ahead = []
    this.#residency?.settle()
    const done = this.#commit(
      ahead.map(({ launch }) => launch),
      launches,
      replay,
      reader,
    )
    const { committed } = this.#queue.clock
    for (const region of regions) region.lastUse = committed
    for (const { from, to } of ahead) from.lastUse = to.lastUse = committed
    if (reader !== undefined) reader.lastUse = committed
    if (replay?.constants !== undefined) replay.constants.lastUse = committed
    return this.#track(
      this.#finish(
        done,
        lowered,
        reader,
        ahead.map(({ from }) => from),
      ),
    )
  }

  /** One command buffer, or one for each launch when they are to be timed. */
  #commit(ahead: readonly Launch[], launches: readonly Launch[], replay: Replay | undefined, reader: Region | undefined): Promise<unknown> {
    try {
      if (this.#settings.profile) return this.#submitEach([...ahead, ...launches], reader)
      return this.#queue.submit((encoder) => this.#encode(encoder, ahead, launches, replay, reader))
    } catch (error) {
      return Promise.reject(error as Error) // no command buffer was to be had; what was staged is lost with it
    }
  }

  #encode(
    encoder: Id,
    ahead: readonly Launch[],
    launches: readonly Launch[],
    replay: Replay | undefined,
    reader: Region | undefined,
  ): void {
    const encoding = new Encoding(this.#metal.objc, encoder, reader, this.#settings.concurrent)
    for (const launch of ahead) encoding.launch(launch)
    if (ahead.length > 0) encoding.barrier()
    if (replay !== undefined) encodeReplay(encoding, replay)
    else for (const launch of launches) encoding.launch(launch)
  }

  /** One command buffer per launch, to time each. */
  async #submitEach(launches: readonly Launch[], reader: Region | undefined): Promise<void> {
    const done = launches.map((launch) => this.#queue.submit((encoder) => this.#encode(encoder, [], [launch], undefined, reader)))
    const seconds = await Promise.all(done)
    launches.forEach(({ program }, index) => this.#profile.add(program.kernel.name, seconds[index] as number))
  }

  async #finish(done: Promise<unknown>, { reads }: Lowered, reader: Region | undefined, staged: readonly Region[]): Promise<Uint8Array[]> {
    try {
      await done
      const got = reads.map(({ at, bytes }) =>
        reader === undefined ? new Uint8Array(0) : this.#regions.bytesOf(reader, at, bytes).slice(),
      )
      this.stats.bytesRead += reads.reduce((sum, { bytes }) => sum + bytes, 0)
      return got
    } catch (error) {
      if (isIngotError(error, 'device-lost')) this.#lost ??= error
      throw error
    } finally {
      if (reader !== undefined) this.#staging.give(reader)
      for (const region of staged) this.#staging.give(region)
      this.#regions.sweep()
    }
  }

  #discard(kept: Kept): void {
    if (!this.#recordings.delete(kept) || kept.replay === undefined) return
    this.#regions.retireObject(kept.replay.commands, kept.lastUse)
    if (kept.replay.constants !== undefined) this.#regions.retire(kept.replay.constants)
  }

  #track<T>(promise: Promise<T>): Promise<T> {
    this.#running.add(promise)
    const forget = (): void => {
      this.#running.delete(promise)
    }
    promise.then(forget, forget)
    return promise
  }

  #usable(op: string): void {
    if (this.#closed) throw new IngotError('closed', 'the metal device was closed', { op })
    if (this.#lost !== undefined) throw this.#lost
  }
}

/** Counters that also show what only Metal knows. */
function countingStats({ objc }: Metal, queue: CommandQueue): Stats {
  const before = objc.sent
  return Object.defineProperties(emptyStats(), {
    gpuSeconds: { enumerable: true, get: () => queue.seconds },
    messages: { enumerable: true, get: () => objc.sent - before },
  })
}
