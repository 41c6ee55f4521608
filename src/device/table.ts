// Handles and the memory behind them, for every device that keeps its own buffers: who is alive, how large, and a pool of
// freed memory in size classes. Does not know what memory is (`M`), nor when a device is done with it: a device whose work
// outlives a call frees late, or relies on the order of its queue.
//
// Invariants: a handle is never given out twice, on any device of this process; `stats.bytesLive` is the sum of the sizes
// that were asked for; the pool never holds more than `keepBytes`.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Stats } from './device.ts'

/** How a device gets and returns memory. */
export interface Memory<M> {
  /** Throws `out-of-memory` if there is none. */
  create(bytes: number): M
  destroy(memory: M): void
}

export interface Entry<M> {
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

export interface TableOptions {
  /** most bytes that freed memory may hold on to */
  readonly keepBytes?: number
}

const KEEP_BYTES = 256 * 2 ** 20
const SMALLEST_CLASS = 256 // bytes
/** Handles of different devices differ in the part above this, so that a foreign one is never taken for one's own. */
const SERIES = 2 ** 32
let tables = 0

/** Eight classes per power of two: at most an eighth is wasted. A multiple of 16 from 256 on. */
export function sizeClass(bytes: number): number {
  if (bytes <= SMALLEST_CLASS) return SMALLEST_CLASS
  const step = Math.max(16, 2 ** (Math.ceil(Math.log2(bytes)) - 4))
  return Math.ceil(bytes / step) * step
}

export class BufferTable<M> {
  readonly #memory: Memory<M>
  readonly #stats: Stats
  readonly #keepBytes: number
  /** the handle before the first */
  readonly #base = SERIES * tables++
  readonly #live = new Map<BufferHandle, Entry<M>>()
  /** oldest first within a class */
  readonly #pool = new Map<number, M[]>()
  #pooledBytes = 0
  #given = 0
  #freed = 0

  constructor(memory: Memory<M>, stats: Stats, { keepBytes = KEEP_BYTES }: TableOptions = {}) {
    this.#memory = memory
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
  alloc(bytes: number, most: number): Entry<M> {
    const capacity = Math.min(sizeClass(bytes), Math.floor(most / 16) * 16)
    const memory = this.#pool.get(capacity)?.pop()
    if (memory !== undefined) {
      this.#pooledBytes -= capacity
      this.#stats.poolHits++
      return this.#enter({ memory, bytes, capacity, writable: true, pooled: true })
    }
    this.#stats.poolMisses++
    return this.#enter({ memory: this.#create(capacity), bytes, capacity, writable: true, pooled: true })
  }

  /** A handle for memory of exactly this size that is not from the pool and does not go there: weights. */
  adopt(memory: M, bytes: number, capacity = bytes): Entry<M> {
    return this.#enter({ memory, bytes, capacity, writable: false, pooled: false })
  }

  get(handle: BufferHandle, op: string): Entry<M> {
    const entry = this.#live.get(handle)
    if (entry === undefined) throw this.#missing(handle, op)
    return entry
  }

  /** Ends a handle. Its memory goes to the pool unless `reusable` is false. */
  free(handle: BufferHandle, reusable = true): void {
    const entry = this.#live.get(handle)
    if (entry === undefined) throw this.#missing(handle, 'free')
    this.#live.delete(handle)
    this.#freed++
    this.#stats.buffers--
    this.#stats.bytesLive -= entry.bytes
    if (reusable && entry.pooled && entry.capacity <= this.#keepBytes) this.#keep(entry)
    else this.#memory.destroy(entry.memory)
  }

  /** Gives all pooled memory back. */
  trim(): void {
    for (const memories of this.#pool.values()) for (const memory of memories) this.#memory.destroy(memory)
    this.#pool.clear()
    this.#pooledBytes = 0
  }

  /** Ends every handle and returns all memory. */
  close(): void {
    for (const handle of this.#live.keys()) this.free(handle, false)
    this.trim()
  }

  #enter(entry: Omit<Entry<M>, 'handle'>): Entry<M> {
    const handle = (this.#base + ++this.#given) as BufferHandle
    const entered = { ...entry, handle }
    this.#live.set(handle, entered)
    this.#stats.buffers++
    this.#stats.bytesLive += entry.bytes
    return entered
  }

  /** New memory; if there is none, tries once more without the pool. */
  #create(bytes: number): M {
    try {
      return this.#memory.create(bytes)
    } catch (error) {
      if (this.#pooledBytes === 0) throw error
      this.trim()
      return this.#memory.create(bytes)
    }
  }

  #keep({ memory, capacity }: Entry<M>): void {
    const memories = this.#pool.get(capacity)
    if (memories === undefined) this.#pool.set(capacity, [memory])
    else memories.push(memory)
    this.#pooledBytes += capacity
    for (const [size, old] of this.#pool) {
      while (this.#pooledBytes > this.#keepBytes && old.length > 0) {
        this.#memory.destroy(old.shift() as M)
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
