// Handles and the memory behind them, for every device that keeps its own buffers: who is alive, how large, and a pool of
// freed memory in size classes. Does not know what memory is (`M`), nor when a device is done with it: a device whose work
// outlives a call frees late, or relies on the order of its queue.
//
// Invariants: a handle is never given out twice, on any device of this process; `stats.bytesLive` is the sum of the sizes
// that were asked for; the pool never holds more than `keepBytes`.

import { IngotError } from '../../base/error.ts'
import type { BufferHandle, Stats } from '../device.ts'

/** How a device gets and returns memory. */
export interface Allocator<M> {
  /** Throws `out-of-memory` if there is none. */
  create(bytes: number): M
  destroy(memory: M): void
}

/** A buffer that was given out and not freed. */
export interface LiveBuffer<M> {
  readonly handle: BufferHandle
  readonly memory: M
  /** as asked for */
  readonly bytes: number
  /** as given: a multiple of 16, the size class if pooled */
  readonly capacity: number
  /** false for memory that nothing may write to: mapped or loaded weights */
  readonly writable: boolean
  readonly pooled: boolean
}

export interface BufferTableOptions {
  /** most bytes that freed memory may hold on to */
  readonly keepBytes?: number
}

const KEEP_BYTES = 256 * 2 ** 20
const SMALLEST_CLASS = 256 // bytes
/** Handles of different devices differ in the part above this, so that a foreign one is never taken for one's own. */
const SERIES = 2 ** 32
let tables = 0

/** Memory always ends on a multiple of 16, so that whole words and vectors can be read to its end. */
export function alignBytes(bytes: number): number {
  return Math.ceil(bytes / 16) * 16
}

/** Eight classes per power of two: at most an eighth is wasted. A multiple of 16 from 256 on. */
export function sizeClass(bytes: number): number {
  if (bytes <= SMALLEST_CLASS) return SMALLEST_CLASS
  // Also right for sizes that take more than 32 bits: these are counted in units of 2^16.
  const power = bytes <= 2 ** 31 ? 32 - Math.clz32(bytes - 1) : 48 - Math.clz32(Math.ceil(bytes / 65536) - 1)
  const step = Math.max(16, 2 ** (power - 4))
  return Math.ceil(bytes / step) * step
}

export class BufferTable<M> {
  readonly #allocator: Allocator<M>
  readonly #stats: Stats
  readonly #keepBytes: number
  /** the handle before the first */
  readonly #base = SERIES * tables++
  readonly #live = new Map<BufferHandle, LiveBuffer<M>>()
  /** oldest first within a class */
  readonly #pool = new Map<number, M[]>()
  #pooledBytes = 0
  #given = 0
  #freed = 0

  constructor(allocator: Allocator<M>, stats: Stats, { keepBytes = KEEP_BYTES }: BufferTableOptions = {}) {
    this.#allocator = allocator
    this.#stats = stats
    this.#keepBytes = keepBytes
  }

  /** Grows with every `free`: what was checked before it changed must be checked again. */
  get frees(): number {
    return this.#freed
  }
  get pooledBytes(): number {
    return this.#pooledBytes
  }

  /** Memory of at least `bytes`, from the pool if it has some, which may hold what was there before. `most` caps the size class. */
  alloc(bytes: number, most: number): LiveBuffer<M> {
    const capacity = Math.min(sizeClass(bytes), Math.floor(most / 16) * 16)
    const memory = this.#pool.get(capacity)?.pop()
    if (memory !== undefined) {
      this.#pooledBytes -= capacity
      this.#stats.poolHits++
      return this.#register({ memory, bytes, capacity, writable: true, pooled: true })
    }
    this.#stats.poolMisses++
    return this.#register({ memory: this.#create(capacity), bytes, capacity, writable: true, pooled: true })
  }

  /** A handle for memory of this size that is not from the pool and does not go there: weights. */
  adopt(memory: M, bytes: number): LiveBuffer<M> {
    return this.#register({ memory, bytes, capacity: alignBytes(bytes), writable: false, pooled: false })
  }

  get(handle: BufferHandle, op: string): LiveBuffer<M> {
    const buffer = this.#live.get(handle)
    if (buffer === undefined) throw this.#missing(handle, op)
    return buffer
  }

  /** Ends a handle. Its memory goes to the pool unless `reusable` is false. */
  free(handle: BufferHandle, reusable = true): void {
    const buffer = this.#live.get(handle)
    if (buffer === undefined) throw this.#missing(handle, 'free')
    this.#live.delete(handle)
    this.#freed++
    this.#stats.buffers--
    this.#stats.bytesLive -= buffer.bytes
    if (reusable && buffer.pooled && buffer.capacity <= this.#keepBytes) this.#keep(buffer)
    else this.#allocator.destroy(buffer.memory)
  }

  /** Gives all pooled memory back. */
  trim(): void {
    for (const memories of this.#pool.values()) for (const memory of memories) this.#allocator.destroy(memory)
    this.#pool.clear()
    this.#pooledBytes = 0
  }

  /** Ends every handle and returns all memory. */
  close(): void {
    for (const handle of this.#live.keys()) this.free(handle, false)
    this.trim()
  }

  #register(buffer: Omit<LiveBuffer<M>, 'handle'>): LiveBuffer<M> {
    const handle = (this.#base + ++this.#given) as BufferHandle // the one place where handles are made
    const { memory, bytes, capacity, writable, pooled } = buffer
    const live = { handle, memory, bytes, capacity, writable, pooled }
    this.#live.set(handle, live)
    this.#stats.buffers++
    this.#stats.bytesLive += bytes
    return live
  }

  /** New memory; if there is none, tries once more without the pool. */
  #create(bytes: number): M {
    try {
      return this.#allocator.create(bytes)
    } catch (error) {
      if (this.#pooledBytes === 0) throw error
      this.trim()
      return this.#allocator.create(bytes)
    }
  }

  #keep({ memory, capacity }: LiveBuffer<M>): void {
    const memories = this.#pool.get(capacity)
    if (memories === undefined) this.#pool.set(capacity, [memory])
    else memories.push(memory)
    this.#pooledBytes += capacity
    for (const [size, old] of this.#pool) {
      if (this.#pooledBytes <= this.#keepBytes) return
      for (const spare of old.splice(0, Math.ceil((this.#pooledBytes - this.#keepBytes) / size))) {
        this.#allocator.destroy(spare)
        this.#pooledBytes -= size
      }
    }
  }

  #missing(handle: BufferHandle, op: string): IngotError {
    const number = handle - this.#base
    if (!Number.isInteger(number) || number < 1 || number > this.#given) {
      const what = this.#given === 0 ? 'no buffer was allocated yet' : 'no such buffer on this device'
      return new IngotError('unknown-handle', what, { op, got: handle, hint: 'handles belong to the device that gave them out' })
    }
    if (op === 'free') return new IngotError('double-free', 'this buffer was freed before', { op, got: handle })
    return new IngotError('unknown-handle', 'this buffer was freed', { op, got: handle })
  }
}
