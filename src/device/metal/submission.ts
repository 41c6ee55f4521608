// Launches as command buffers: one for a submission, which begins with what was written while the GPU was busy and ends in the region
// that brings bytes back. Keeps regions marked as used for as long as they are. Knows no handles and no counters.

import { Encoding } from './encode.ts'
import { type Replay, encodeReplay } from './indirect.ts'
import type { Launch, Lowered } from './launch.ts'
import type { Id, Objc } from './objc.ts'
import { Profile, type ProfileRow } from './profile.ts'
import type { CommandQueue } from './queue.ts'
import type { Region, Regions } from './region.ts'
import type { Residency } from './residency.ts'
import type { MetalSettings } from './settings.ts'
import { Staging } from './staging.ts'
import { type Transfers, copyUniforms, groupsFor } from './transfer.ts'

/** A copy that the next command buffer begins with. */
interface Ahead {
  readonly launch: Launch
  readonly from: Region
  readonly to: Region
}

/** What goes into one command buffer. */
interface Contents {
  readonly ahead: readonly Launch[]
  readonly launches: readonly Launch[]
  readonly replay: Replay | undefined
  /** where bytes come back */
  readonly reader: Region | undefined
}

export class Submissions {
  readonly #objc: Objc
  readonly #queue: CommandQueue
  readonly #regions: Regions
  readonly #residency: Residency | undefined
  readonly #transfers: Transfers
  readonly #settings: MetalSettings
  readonly #staging: Staging
  readonly #profile = new Profile()
  #ahead: Ahead[] = []

  constructor(
    objc: Objc,
    queue: CommandQueue,
    regions: Regions,
    residency: Residency | undefined,
    transfers: Transfers,
    settings: MetalSettings,
  ) {
    this.#objc = objc
    this.#queue = queue
    this.#regions = regions
    this.#residency = residency
    this.#transfers = transfers
    this.#settings = settings
    this.#staging = new Staging(regions)
  }

  /** What each kernel cost, if that was to be measured. */
  profile(): readonly ProfileRow[] {
    return this.#profile.rows()
  }

  /** Takes bytes for a region that the GPU is busy with: the next command buffer begins with copying them. */
  writeAhead(to: Region, offset: number, bytes: Uint8Array): void {
    const from = this.#staging.take(bytes.length)
    this.#regions.bytesOf(from, 0, bytes.length).set(bytes)
    const launch = {
      program: this.#transfers.copy,
      buffers: [
        { region: from, offset: 0, bytes: bytes.length, written: false },
        { region: to, offset, bytes: bytes.length, written: true },
      ],
      uniforms: copyUniforms(bytes.length),
      grid: { width: groupsFor(bytes.length), height: 1, depth: 1 },
      waits: true, // one after another: two of them may touch the same bytes
    }
    this.#ahead.push({ launch, from, to })
    to.lastUse = from.lastUse = this.#queue.clock.committed + 1
  }

  /** Commits at once; resolves with the bytes that come back. */
  run({ launches, reads, readBytes, regions }: Lowered, replay: Replay | undefined): Promise<Uint8Array[]> {
    if (launches.length === 0) return Promise.resolve(reads.map(() => new Uint8Array(0)))
    const reader = readBytes === 0 ? undefined : this.#staging.take(readBytes)
    const ahead = this.#ahead
    this.#ahead = []
    this.#residency?.settle()
    const done = this.#commit({ ahead: ahead.map(({ launch }) => launch), launches, replay, reader })
    const { committed } = this.#queue.clock
    for (const region of regions) region.lastUse = committed
    for (const { from, to } of ahead) from.lastUse = to.lastUse = committed
    if (reader !== undefined) reader.lastUse = committed
    if (replay?.constants !== undefined) replay.constants.lastUse = committed
    const staged = ahead.map(({ from }) => from)
    return this.#finish(done, reads, reader, reader === undefined ? staged : [reader, ...staged])
  }

  /** Nothing may be running. */
  close(): void {
    for (const { from } of this.#ahead.splice(0)) this.#regions.retire(from)
    this.#staging.close()
  }

  /** One command buffer, or one for each launch when they are to be timed. */
  #commit(contents: Contents): Promise<unknown> {
    try {
      if (this.#settings.profile) return this.#commitEach(contents)
      return this.#queue.submit((encoder) => this.#encode(encoder, contents))
    } catch (error) {
      return Promise.reject(error) // no command buffer was to be had; what was staged is lost with it
    }
  }

  #encode(encoder: Id, { ahead, launches, replay, reader }: Contents): void {
    const encoding = new Encoding(this.#objc, encoder, reader, this.#settings.concurrent)
    for (const launch of ahead) encoding.launch(launch)
    if (ahead.length > 0) encoding.barrier()
    if (replay !== undefined) encodeReplay(encoding, replay)
    else for (const launch of launches) encoding.launch(launch)
  }

  async #commitEach({ ahead, launches, reader }: Contents): Promise<void> {
    const timed = [...ahead, ...launches].map((launch) => {
      const contents = { ahead: [], launches: [launch], replay: undefined, reader }
      return { launch, done: this.#queue.submit((encoder) => this.#encode(encoder, contents)) }
    })
    await Promise.all(timed.map(async ({ launch, done }) => this.#profile.add(launch.program.kernel.name, await done)))
  }

  async #finish(
    done: Promise<unknown>,
    reads: Lowered['reads'],
    reader: Region | undefined,
    staged: readonly Region[],
  ): Promise<Uint8Array[]> {
    try {
      await done
      return reads.map(({ at, bytes }) => (reader === undefined ? new Uint8Array(0) : this.#regions.bytesOf(reader, at, bytes).slice()))
    } finally {
      for (const region of staged) this.#staging.give(region)
      this.#regions.sweep()
    }
  }
}
