// What is the Metal device's own. Buffers are in shared storage and read and written in place; files are mapped; a submission is one
// command buffer with one encoder (submission.ts). Composes the files beside it.
//
// Calls take effect in their order. What is written while the GPU is still busy with a buffer waits for the next command buffer,
// which begins with copying it. Nothing here blocks the event loop.

import type { Caps } from '../../base/caps.ts'
import { isIngotError } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { takeOnlyRead } from '../core/backed-device.ts'
import type { Backend, Compilation, ReadPieces } from '../core/backend.ts'
import { alignBytes } from '../core/buffer-table.ts'
import type { BoundRange, CheckedCommand } from '../core/checked-command.ts'
import { Lifecycle } from '../core/lifecycle.ts'
import { type ByteRange, type Stats, emptyStats } from '../device.ts'
import { type Replay, prepareReplay } from './indirect.ts'
import { type Lowered, type MetalMemory, lower } from './launch.ts'
import { Mappings } from './mapping.ts'
import type { Owned } from './objc.ts'
import type { MetalProgram, Pipelines } from './pipeline.ts'
import { type ProfileRow, describeProfile } from './profile.ts'
import { CommandQueue } from './queue.ts'
import { Regions } from './region.ts'
import { Residency } from './residency.ts'
import type { MetalSettings } from './settings.ts'
import { Submissions } from './submission.ts'
import { type Gpu, type Metal, canReplay, detailOf } from './system.ts'
import type { Transfers } from './transfer.ts'

/** What it is made of; it takes all of it over. */
export interface MetalParts {
  readonly system: Metal
  /** the GPU */
  readonly id: Owned
  readonly gpu: Gpu
  readonly caps: Caps
  readonly settings: MetalSettings
  readonly pipelines: Pipelines
  readonly transfers: Transfers
  readonly endCapture: (() => void) | undefined
}

/** What a recording keeps: its launches, and the indirect commands where there are some. */
interface RecordedLaunches {
  readonly lowered: Lowered
  readonly replay: Replay | undefined
  /** the last submission that names it */
  lastUse: number
}

/** The extra counter of this device. */
export const MESSAGES = 'Objective-C messages'

export class MetalBackend implements Backend<MetalMemory, MetalProgram, RecordedLaunches> {
  readonly lifecycle = new Lifecycle('metal')
  readonly detail: string
  readonly caps: Caps
  readonly stats: Stats
  readonly #parts: MetalParts
  readonly #queue: CommandQueue
  readonly #residency: Residency | undefined
  readonly #regions: Regions
  readonly #mappings: Mappings
  readonly #submissions: Submissions
  readonly #recordings = new Set<RecordedLaunches>()

  constructor(parts: MetalParts) {
    const { system, id, gpu, caps, settings, transfers } = parts
    const { objc } = system
    this.#parts = parts
    this.detail = detailOf(gpu)
    this.caps = caps
    this.#queue = new CommandQueue(objc, id, settings.concurrent)
    this.#residency = settings.residency ? Residency.open(objc, id, this.#queue.id) : undefined
    this.#regions = new Regions(system, id, gpu, this.#queue.clock, this.#residency)
    this.#mappings = new Mappings(system.ffi, this.#regions, gpu.bufferBytes)
    this.#submissions = new Submissions(objc, this.#queue, this.#regions, this.#residency, transfers, settings)
    this.stats = countingStats(system, this.#queue)
  }

  /** What each kernel cost, if that was to be measured. */
  profile(): readonly ProfileRow[] {
    return this.#submissions.profile()
  }

  create(bytes: number): MetalMemory {
    return { region: this.#regions.create(bytes), base: 0 }
  }

  destroy({ region, mapped }: MetalMemory): void {
    if (mapped === undefined) this.#regions.retire(region)
    else mapped.release()
  }

  /** Busy memory is not given to anyone else: whoever wrote to it would have to wait. */
  isReusable({ region }: MetalMemory): boolean {
    return !this.#regions.isBusy(region)
  }

  async load({ path, offset, bytes }: ByteRange, readPieces: ReadPieces): Promise<MetalMemory> {
    if (this.#parts.settings.mapped && path !== undefined && offset !== undefined) {
      const mapped = await this.#mappings.map(path, offset, bytes)
      if (mapped !== undefined) return { region: mapped.region, base: mapped.base, mapped }
    }
    const region = this.#regions.create(alignBytes(bytes), 'load')
    try {
      await readPieces((at, piece) => this.#regions.bytesOf(region, at, piece.length).set(piece))
      return { region, base: 0 }
    } catch (error) {
      this.#regions.retire(region)
      throw error
    }
  }

  write({ buffer: { memory }, offset }: BoundRange<MetalMemory>, bytes: Uint8Array): void {
    const { region, base } = memory
    if (bytes.length === 0) return
    if (this.#regions.isBusy(region)) this.#submissions.writeAhead(region, base + offset, bytes)
    else this.#regions.bytesOf(region, base + offset, bytes.length).set(bytes)
  }

  async read(from: BoundRange<MetalMemory>): Promise<Uint8Array> {
    const { region, base } = from.buffer.memory
    if (this.#regions.isBusy(region))
      return takeOnlyRead(await this.#submit(this.#lower([{ kind: 'read', from, bytes: from.bytes }]), undefined))
    return this.#regions.bytesOf(region, base + from.offset, from.bytes).slice()
  }

  compile(kernel: Kernel, key: string): Compilation<MetalProgram> {
    return this.#parts.pipelines.compile(kernel, key)
  }

  prepare(commands: readonly CheckedCommand<MetalMemory, MetalProgram>[]): RecordedLaunches {
    const { system, id, gpu, settings } = this.#parts
    const lowered = this.#lower(commands)
    const options = { concurrent: settings.concurrent, touches: !gpu.apple9 && !gpu.software }
    const replay = canReplay(gpu, settings) ? prepareReplay(system.objc, id, this.#regions, lowered, options) : undefined
    const recorded = { lowered, replay, lastUse: 0 }
    this.#recordings.add(recorded)
    return recorded
  }

  dispose(recorded: RecordedLaunches): void {
    if (!this.#recordings.delete(recorded) || recorded.replay === undefined) return
    this.#regions.retireObject(recorded.replay.commands, recorded.lastUse)
    if (recorded.replay.constants !== undefined) this.#regions.retire(recorded.replay.constants)
  }

  run(commands: readonly CheckedCommand<MetalMemory, MetalProgram>[], recorded: RecordedLaunches | undefined): Promise<Uint8Array[]> {
    if (recorded === undefined) return this.#submit(this.#lower(commands), undefined)
    const done = this.#submit(recorded.lowered, recorded.replay)
    recorded.lastUse = this.#queue.clock.committed
    return done
  }

  sync(): Promise<void> {
    return this.#queue.idle()
  }

  async release(): Promise<void> {
    const { pipelines, endCapture, system, id } = this.#parts
    await pipelines.close()
    endCapture?.()
    for (const recorded of this.#recordings) this.dispose(recorded)
    this.#submissions.close()
    this.#regions.sweep(true)
    this.#residency?.close()
    this.#queue.close()
    system.objc.release(id)
    if (this.profile().length > 0) console.error(describeProfile(this.profile()))
  }

  #lower(commands: readonly CheckedCommand<MetalMemory, MetalProgram>[]): Lowered {
    return lower(commands, this.#parts.transfers)
  }

  /** Commits at once; resolves with the bytes that come back. */
  async #submit(lowered: Lowered, replay: Replay | undefined): Promise<Uint8Array[]> {
    try {
      return await this.lifecycle.track(this.#submissions.run(lowered, replay))
    } catch (error) {
      if (isIngotError(error, 'device-lost')) this.lifecycle.lose(error)
      throw error
    }
  }
}

/** Counters that also show what only Metal knows. */
function countingStats({ objc }: Metal, queue: CommandQueue): Stats {
  const before = objc.sent
  return Object.defineProperties(emptyStats(), {
    gpuSeconds: { enumerable: true, get: () => queue.seconds },
    extras: { enumerable: true, get: () => ({ [MESSAGES]: objc.sent - before }) },
  })
}
