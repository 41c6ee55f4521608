// The memory behind a leaf of the graph. A leaf can be made before its memory is there: a model is built first, and what it asked for is
// loaded then; numbers that a user brings wait on the host until a device computes with them. Weights may lie in two layouts at once, each
// for those who read it.
//
// Memory that a storage owns goes back to its device when it is disposed of, or when nothing can reach the storage any more.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Device } from '../device/device.ts'

/**
 * plain: elements or blocks one after the other, as in a file.
 * packed: rows side by side for int8 dot products (quant/packed/packed.ts); only products can use it.
 * cache: as attention has it (kernel/attention/cache-type.ts)
 */
export type Layout = 'plain' | 'packed' | 'cache'

/** Part of a buffer. */
export interface Region {
  readonly buffer: BufferHandle
  /** in bytes; a multiple of the device's alignment */
  readonly offset: number
}

/** A buffer of a device that somebody has to give back. */
interface Owned {
  readonly device: Device
  readonly buffer: BufferHandle
  readonly bytes: number
  /** where it is counted */
  readonly account: { bytes: number }
}

/** Bytes that storages own on each device. */
const held = new WeakMap<Device, { bytes: number }>()
const abandoned = new FinalizationRegistry<Owned>(giveBack)
const NOTHING = { bytes: 0 }

function accountOf(device: Device): { bytes: number } {
  const known = held.get(device)
  if (known !== undefined) return known
  const made = { bytes: 0 }
  held.set(device, made)
  return made
}

function giveBack({ device, buffer, account, bytes }: Owned): void {
  account.bytes -= bytes
  try {
    device.free(buffer)
  } catch {
    // The device is closed, which gave back everything.
  }
}

/** Bytes of tensors on a device that nobody has given back yet. */
export function heldBytes(device: Device): number {
  return (held.get(device) ?? NOTHING).bytes
}

export class Storage {
  #plain: Region | undefined
  /** in other layouts, which few have */
  #others: Map<Layout, Region> | undefined
  /** bytes that no device has yet */
  #host: Uint8Array | undefined
  #owned: Owned | undefined
  #device: Device | undefined
  #failure: unknown
  #isDisposed = false

  constructor(layout?: Layout, buffer?: BufferHandle, offset = 0) {
    if (layout !== undefined && buffer !== undefined) this.put(layout, { buffer, offset })
  }

  /** Bytes on the host. They are not copied. */
  static onHost(bytes: Uint8Array): Storage {
    const storage = new Storage()
    storage.#host = bytes
    return storage
  }

  /** A buffer that belongs to nobody else. */
  static owning(device: Device, buffer: BufferHandle, bytes: number): Storage {
    const storage = new Storage('plain', buffer)
    storage.#own(device, buffer, bytes)
    return storage
  }

  /** the device that it lies on, as far as it is known */
  get device(): Device | undefined {
    return this.#device
  }

  /** what a device has not been given yet */
  get host(): Uint8Array | undefined {
    return this.#host
  }

  has(layout: Layout): boolean {
    return layout === 'plain' ? this.#plain !== undefined : this.#others?.has(layout) === true
  }

  /** Where the bytes are, in this layout; `device` is who asks. */
  at(layout: Layout, device?: Device): Region {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#isDisposed) throw new IngotError('closed', 'the tensor was disposed of', { op: 'tensor' })
    if (device !== undefined) this.#checkDevice(device)
    const region = layout === 'plain' ? this.#plain : this.#others?.get(layout)
    if (region !== undefined) return region
    const got = [...(this.#plain === undefined ? [] : ['plain']), ...(this.#others?.keys() ?? [])]
    throw new IngotError('bad-argument', `a tensor has no memory as ${layout}`, { op: 'plan', got })
  }

  put(layout: Layout, region: Region): void {
    if (layout === 'plain') this.#plain = region
    else (this.#others ??= new Map<Layout, Region>()).set(layout, region)
  }

  /** Brings what is on the host to a device. */
  upload(device: Device): void {
    const bytes = this.#host
    this.#checkDevice(device)
    if (bytes === undefined) return
    const size = Math.max(4, Math.ceil(bytes.length / 4) * 4)
    const whole = bytes.length === size ? bytes : new Uint8Array(size)
    if (whole !== bytes) whole.set(bytes)
    const buffer = device.alloc(size)
    device.write(buffer, 0, whole)
    this.put('plain', { buffer, offset: 0 })
    this.#own(device, buffer, size)
    this.#host = undefined
  }

  /** What was to be computed into this memory failed: it goes back, and whoever reads it hears why. */
  fail(error: unknown): void {
    this.#failure = error
    this.dispose()
  }

  /** Gives the memory back now. What reads it later is refused. */
  dispose(): void {
    if (this.#owned !== undefined) {
      abandoned.unregister(this)
      giveBack(this.#owned)
    }
    this.#owned = undefined
    this.#host = undefined
    this.#plain = this.#others = undefined
    this.#isDisposed = true // an error with its stack would cost more than the rest of this
  }

  /** Handles are numbers: those of another device would name some other memory here. */
  #checkDevice(device: Device): void {
    if (this.#device === undefined || this.#device === device) return
    throw new IngotError('bad-argument', 'a tensor lies on another device', {
      op: 'tensor',
      got: `one of ${this.#device.name}`,
      wanted: `one of ${device.name}`,
      hint: 'bring its data() there',
    })
  }

  #own(device: Device, buffer: BufferHandle, bytes: number): void {
    this.#device = device
    const account = accountOf(device)
    this.#owned = { device, buffer, bytes, account }
    account.bytes += bytes
    abandoned.register(this, this.#owned, this)
  }
}
