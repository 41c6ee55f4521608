// Memory of an executor by handle: one table for buffers, one for pools. Handles count from 1 and are never given out twice. A call that is
// refused has changed nothing. Knows neither slots nor programs.

import { IngotError } from '../base/error.ts'
import type { Device, Range } from '../device/device.ts'

/** Memory of an executor, from 1 on; buffers and pools count apart. */
export type Handle = number

/** What a handle stands for. */
export interface HeldMemory {
  readonly bytes: number
  readonly range: Range
  /** true if all of its device's buffer is its own: nobody has the bytes behind its end */
  readonly isOwn: boolean
}

export class MemoryTable<T extends HeldMemory> {
  readonly #device: Device
  readonly #what: string
  readonly #held = new Map<Handle, T>()
  #next = 1

  /** `what` is what errors call it: `memory`, `pool`. */
  constructor(device: Device, what: string) {
    this.#device = device
    this.#what = what
  }

  entries(): [Handle, T][] {
    return [...this.#held]
  }

  add(held: T): Handle {
    const handle = this.#next++
    this.#held.set(handle, held)
    return handle
  }

  /** Ends a handle; gives what it stood for. */
  remove(op: string, handle: Handle): T {
    const held = this.get(op, handle, 'double-free')
    this.#held.delete(handle)
    return held
  }

  clear(): void {
    this.#held.clear()
  }

  get(op: string, handle: Handle, freed: 'unknown-handle' | 'double-free' = 'unknown-handle'): T {
    const held = this.#held.get(handle)
    if (held !== undefined) return held
    const wasFreed = Number.isInteger(handle) && handle > 0 && handle < this.#next
    if (!wasFreed) throw new IngotError('unknown-handle', `no such ${this.#what}`, { op, got: handle })
    throw new IngotError(freed, `this ${this.#what} was freed before`, { op, got: handle })
  }

  /** Writes bytes; offset and length are multiples of 4, as devices want it, or reach the end. */
  write(op: string, handle: Handle, bytes: Uint8Array, offset: number): void {
    const held = this.#within(op, handle, offset, bytes.length)
    const reachesEnd = held.isOwn && offset + bytes.length === held.bytes
    this.#device.write(held.range.buffer, (held.range.offset ?? 0) + offset, reachesEnd ? padded(bytes) : bytes)
  }

  /** Reads bytes; the offset is a multiple of 4. */
  async read(op: string, handle: Handle, offset: number, length: number | undefined): Promise<Uint8Array> {
    const count = length ?? this.get(op, handle).bytes - offset
    const { range } = this.#within(op, handle, offset, count)
    return (await this.#device.read(range.buffer, (range.offset ?? 0) + offset, wholeWords(count))).subarray(0, count)
  }

  #within(op: string, handle: Handle, offset: number, length: number): T {
    const held = this.get(op, handle)
    const isInside = isFrom(offset, 0, held.bytes) && isFrom(length, 0, held.bytes - offset)
    if (isInside) return held
    throw new IngotError('out-of-range', 'past the end', { op, got: [offset, offset + length], wanted: `within ${held.bytes} bytes` })
  }
}

/** New memory of zeros. */
export function allocateZeros(op: string, device: Device, bytes: number): HeldMemory {
  if (!Number.isSafeInteger(bytes) || bytes < 1) {
    throw new IngotError('bad-argument', 'no size', { op, got: bytes, wanted: 'a whole number of bytes from 1' })
  }
  const whole = wholeWords(bytes)
  const buffer = device.alloc(whole)
  device.write(buffer, 0, new Uint8Array(whole))
  return { bytes, range: { buffer, offset: 0, bytes: whole }, isOwn: true }
}

/** As many words as it takes; there is room for them behind the end. */
function padded(bytes: Uint8Array): Uint8Array {
  if (bytes.length % 4 === 0) return bytes
  const whole = new Uint8Array(wholeWords(bytes.length))
  whole.set(bytes)
  return whole
}

function wholeWords(bytes: number): number {
  return Math.ceil(bytes / 4) * 4
}

export function isFrom(value: number, low: number, high: number): boolean {
  return Number.isInteger(value) && value >= low && value <= high
}
