// Memory for the cpu device: parts of one WebAssembly.Memory, which grows on demand and is shared with the worker threads where
// the engine can. Gives out addresses, best fit, and joins neighbours that are free. Does not know buffers, nor when a part
// that is given back is still in use.
//
// Invariants: addresses are multiples of 64 and not below START; what lies below belongs to the runner (layout.ts).

import { IngotError } from '../../base/error.ts'
import { MOST_PAGES, PAGE } from '../../emit/wasm/page.ts'

/** Where parts begin: kernels rely on nothing of theirs being lower (emit/wasm/access.ts). */
export const START = PAGE
const ALIGN = 64
const FIRST_PAGES = 64
/** Grow by at least this share of what there is: every growth costs an interrupt in each thread. */
const GROWTH = 1 / 8

export class Heap {
  readonly memory: WebAssembly.Memory
  readonly shared: boolean
  /** most bytes that one part can have */
  readonly mostBytes: number
  readonly #mostPages: number
  /** sizes of the parts given out, by address */
  readonly #sizes = new Map<number, number>()
  /** by address */
  readonly #free: { at: number; bytes: number }[] = []
  #end: number
  #words = new Int32Array(0)
  #bytes = new Uint8Array(0)

  constructor(shared: boolean) {
    const { memory, pages } = reserve(shared)
    this.memory = memory
    this.shared = shared
    this.#mostPages = pages
    this.#end = FIRST_PAGES * PAGE
    this.mostBytes = pages * PAGE - START
    this.#free.push({ at: START, bytes: this.#end - START })
  }

  /** The whole memory as bytes. Ask again after `alloc`: growing may replace it. */
  get bytes(): Uint8Array {
    if (this.#bytes.length !== this.#end || this.#bytes.buffer !== this.memory.buffer) this.#bytes = new Uint8Array(this.memory.buffer)
    return this.#bytes
  }

  /** The whole memory as 32-bit words. */
  get words(): Int32Array {
    if (this.#words.length * 4 !== this.#end || this.#words.buffer !== this.memory.buffer) this.#words = new Int32Array(this.memory.buffer)
    return this.#words
  }

  /** A copy of a part of the memory. */
  copy(at: number, bytes: number): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(at, at + bytes) // also of shared memory it is memory of its own
  }

  alloc(bytes: number, op = 'alloc'): number {
    const size = Math.ceil(Math.max(bytes, 1) / ALIGN) * ALIGN
    let best = this.#find(size)
    if (best < 0) {
      this.#grow(size, op)
      best = this.#find(size)
    }
    const part = this.#free[best]
    if (part === undefined) throw outOfMemory(op, bytes, this.mostBytes)
    const { at } = part
    if (part.bytes === size) this.#free.splice(best, 1)
    else {
      part.at += size
      part.bytes -= size
    }
    this.#sizes.set(at, size)
    return at
  }

  free(at: number): void {
    const bytes = this.#sizes.get(at)
    if (bytes === undefined) throw new IngotError('double-free', 'no such part of the memory', { op: 'free', got: at })
    this.#sizes.delete(at)
    this.#release(at, bytes)
  }

  #find(size: number): number {
    let best = -1
    for (const [index, { bytes }] of this.#free.entries()) {
      if (bytes >= size && (best < 0 || bytes < (this.#free[best]?.bytes ?? 0))) best = index
    }
    return best
  }

  #release(at: number, bytes: number): void {
    let [low, high] = [0, this.#free.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#free[middle]?.at ?? 0) > at) high = middle
      else low = middle + 1
    }
    const [before, after] = [this.#free[low - 1], this.#free[low]]
    const joinsBefore = before !== undefined && before.at + before.bytes === at
    const joinsAfter = after !== undefined && at + bytes === after.at
    if (joinsBefore) before.bytes += bytes + (joinsAfter ? after.bytes : 0)
    else if (joinsAfter) Object.assign(after, { at, bytes: after.bytes + bytes })
    if (joinsBefore && joinsAfter) this.#free.splice(low, 1)
    else if (!joinsBefore && !joinsAfter) this.#free.splice(low, 0, { at, bytes })
  }

  #grow(size: number, op: string): void {
    const last = this.#free.at(-1)
    const there = last !== undefined && last.at + last.bytes === this.#end ? last.bytes : 0
    const pages = this.#end / PAGE
    const needed = Math.ceil((size - there) / PAGE)
    const wanted = Math.min(Math.max(needed, Math.ceil(pages * GROWTH)), this.#mostPages - pages)
    const grown = [wanted, needed].some((more) => more >= needed && this.#tryGrow(more))
    if (!grown) throw outOfMemory(op, size, this.mostBytes)
  }

  #tryGrow(pages: number): boolean {
    const end = this.#end + pages * PAGE
    if (end > this.#mostPages * PAGE) return false
    try {
      this.memory.grow(pages)
    } catch {
      return false
    }
    this.#release(this.#end, pages * PAGE)
    this.#end = end
    return true
  }
}

const outOfMemory = (op: string, bytes: number, most: number): IngotError =>
  new IngotError('out-of-memory', 'the memory of the cpu device is full', {
    op,
    got: `${bytes} bytes`,
    wanted: `all buffers within ${most} bytes`,
  })

/** Only address space is reserved; where even that is scarce, less will do. */
function reserve(shared: boolean): { memory: WebAssembly.Memory; pages: number } {
  for (const pages of [MOST_PAGES, MOST_PAGES / 2, MOST_PAGES / 4, MOST_PAGES / 16]) {
    try {
      return { memory: new WebAssembly.Memory({ initial: FIRST_PAGES, maximum: pages, shared }), pages }
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause
    }
  }
  throw new IngotError('device-unavailable', 'no address space for a WebAssembly memory', { op: 'cpu' })
}
