// Memory that the GPU sees: MTLBuffers in shared storage, read and written in place by the host. Knows how much there is, who
// may have more, and when a buffer may go; knows nothing of handles.
//
// Invariant: a buffer is released only after the last command buffer that names it has completed and one more was
// committed. Drivers have been seen to panic when buffers go while they are still being completed.

import { IngotError } from '../../base/error.ts'
import type { Address } from './ffi.ts'
import type { Id, Owned } from './objc.ts'
import type { Residency } from './residency.ts'
import type { Gpu, Metal } from './system.ts'

/** Numbers of submissions, counted from 1; a command buffer is one. */
export interface Clock {
  committed: number
  completed: number
}

export interface Region {
  readonly id: Owned
  readonly bytes: number
  /** of its first byte */
  readonly address: Address
  /** the same as a number, to compare ranges */
  readonly start: number
  /** the last submission that names it; 0 if none does */
  lastUse: number
  /** of those it is in, what counts against the working set */
  readonly counted: number
  /** called when it is gone */
  readonly after: (() => void) | undefined
  view: Uint8Array | undefined
}

/** Something to be released: memory, or an object that command buffers name. */
type Retired = Pick<Region, 'id' | 'lastUse' | 'after'> & { readonly resident: boolean }

/** Part of the recommended working set that is used: the system and other programs need some. */
const SHARE = 0.9
/** Larger regions are viewed in parts: arrays of JavaScript end somewhere. */
const WHOLE_VIEW = 2 ** 31
const SHARED_STORAGE = 0

export class Regions {
  readonly #metal: Metal
  readonly #device: Id
  readonly #gpu: Gpu
  readonly #clock: Readonly<Clock>
  readonly #residency: Residency | undefined
  /** waiting to be released */
  #retired: Retired[] = []
  #bytes = 0

  constructor(metal: Metal, device: Id, gpu: Gpu, clock: Readonly<Clock>, residency: Residency | undefined) {
    this.#metal = metal
    this.#device = device
    this.#gpu = gpu
    this.#clock = clock
    this.#residency = residency
  }

  /** Bytes that count against the working set. */
  get bytes(): number {
    return this.#bytes
  }

  /** New memory; contents undefined. Throws `out-of-memory`. */
  create(bytes: number, op = 'alloc'): Region {
    this.admit(bytes, op)
    const { messages } = this.#metal.objc
    const id = messages.MTLDevice['newBufferWithLength:options:'](this.#device, bytes, SHARED_STORAGE)
    if (id === null) throw this.#refuse(op, bytes, 'Metal has no memory for a buffer')
    const address = messages.MTLBuffer.contents(id) ?? 0n
    return this.#enter(id, address, bytes, bytes, undefined)
  }

  /** Memory that is somebody else's, whole pages of it; `after` is called when Metal has let go of it. */
  wrap(address: Address, bytes: number, op: string, after?: () => void): Region {
    const { messages } = this.#metal.objc
    const id = messages.MTLDevice['newBufferWithBytesNoCopy:length:options:deallocator:'](
      this.#device,
      address,
      bytes,
      SHARED_STORAGE,
      null,
    )
    if (id === null) throw this.#refuse(op, bytes, 'Metal cannot use the mapped file')
    return this.#enter(id, address, bytes, 0, after)
  }

  /** Throws `out-of-memory` if so much more does not fit. */
  admit(bytes: number, op: string): void {
    if (this.#bytes + bytes > this.#gpu.workingBytes * SHARE) throw this.#refuse(op, bytes, 'more than the GPU should be given')
  }

  /** Counts memory that `wrap` does not: a mapped file, once for all its windows. */
  count(bytes: number): void {
    this.#bytes += bytes
  }

  /** Bytes of a region, in place. */
  bytesOf(region: Region, offset: number, bytes: number): Uint8Array {
    if (region.bytes > WHOLE_VIEW) return this.#metal.ffi.view(region.address + BigInt(offset), bytes)
    region.view ??= this.#metal.ffi.view(region.address, region.bytes)
    return region.view.subarray(offset, offset + bytes)
  }

  /** True while the GPU may touch it, or will be told to. */
  isBusy({ lastUse }: Region): boolean {
    return lastUse > this.#clock.completed
  }

  /** Releases a region, as soon as that is safe. */
  retire(region: Region): void {
    this.#bytes -= region.counted
    region.view = undefined
    this.#retired.push({ ...region, resident: true })
    this.sweep()
  }

  /** Releases an object that submissions up to `lastUse` name. */
  retireObject(id: Owned, lastUse: number): void {
    this.#retired.push({ id, lastUse, after: undefined, resident: false })
    this.sweep()
  }

  /** Releases what can be; `all` when no submission is left and none will come. */
  sweep(all = false): void {
    if (this.#retired.length === 0) return
    const { committed, completed } = this.#clock
    const isDone = ({ lastUse }: Retired): boolean => all || lastUse === 0 || (lastUse <= completed && lastUse < committed)
    const done = this.#retired.filter(isDone)
    if (done.length === 0) return
    this.#retired = this.#retired.filter((retired) => !isDone(retired))
    for (const { id, resident } of done) if (resident) this.#residency?.remove(id)
    this.#residency?.settle() // it holds them until it is told
    for (const { id, after } of done) {
      this.#metal.objc.release(id)
      after?.()
    }
  }

  #enter(id: Owned, address: Address, bytes: number, counted: number, after: (() => void) | undefined): Region {
    this.#bytes += counted
    this.#residency?.add(id)
    return { id, address, start: Number(address), bytes, counted, after, lastUse: 0, view: undefined }
  }

  #refuse(op: string, bytes: number, why: string): IngotError {
    const most = Math.floor(this.#gpu.workingBytes * SHARE)
    return new IngotError('out-of-memory', why, {
      op,
      got: `${bytes} bytes besides ${this.#bytes}`,
      wanted: `at most ${most} in all`,
      hint: 'take a smaller model or context, or close other programs',
    })
  }
}
