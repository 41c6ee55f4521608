// Heap memory in the place of native memory, for kernels that run as WebAssembly: they reach nothing else. What can be written is
// copied there before and back after; what cannot is copied once and kept. Knows nothing of when work runs.

import type { BoundRange, CheckedDispatch, CheckedTransfer } from '../../core/checked-command.ts'
import type { LiveBuffer } from '../../core/buffer-table.ts'
import type { BufferHandle, Program } from '../../device.ts'
import type { Heap } from '../heap.ts'
import { isBlank } from '../opening.ts'
import { FIRST_ADDRESS } from './layout.ts'
import type { Native } from './library.ts'
import type { NativeMemory } from './memory.ts'

/** Dispatches on heap memory only, with the copies that must be done before and after them. */
export interface Staged<P extends Program> {
  readonly before: CheckedTransfer<number>[]
  readonly inside: CheckedDispatch<number, P>[]
  readonly after: CheckedTransfer<number>[]
}

export class StandIns {
  readonly #native: Native
  readonly #heap: Heap
  readonly #memory: NativeMemory
  /** copies of read-only native memory, by buffer */
  readonly #copies = new Map<BufferHandle, { readonly at: number; readonly of: number }>()

  constructor(native: Native, heap: Heap, memory: NativeMemory) {
    this.#native = native
    this.#heap = heap
    this.#memory = memory
  }

  /** Adds the memory that it takes to `taken`; whoever runs the result gives it back. */
  stage<P extends Program>(dispatches: readonly CheckedDispatch<number, P>[], taken: number[]): Staged<P> {
    const moved = new Map<BufferHandle, LiveBuffer<number>>()
    const [before, after]: [CheckedTransfer<number>[], CheckedTransfer<number>[]] = [[], []]
    const standFor = (buffer: LiveBuffer<number>): LiveBuffer<number> => {
      if (buffer.memory < FIRST_ADDRESS || isBlank(buffer.memory)) return buffer // what fills a blank is looked at then
      const known = moved.get(buffer.handle)
      if (known !== undefined) return known
      const inHeap = { ...buffer, memory: buffer.writable ? this.#heap.alloc(buffer.capacity, 'submit') : this.#copyOf(buffer) }
      moved.set(buffer.handle, inHeap)
      if (buffer.writable) {
        taken.push(inHeap.memory)
        before.push(copyOf(buffer, inHeap))
        after.push(copyOf(inHeap, buffer))
      }
      return inHeap
    }
    const inside = dispatches.map((dispatch) => ({
      ...dispatch,
      buffers: dispatch.buffers.map((range) => ({ ...range, buffer: standFor(range.buffer) })),
    }))
    return { before, inside, after }
  }

  /** Gives up the copy of native memory that is freed. */
  forget(place: number): void {
    for (const [handle, { at, of }] of this.#copies) {
      if (of !== place) continue
      this.#copies.delete(handle)
      this.#heap.free(at)
    }
  }

  /** Made once, since nothing writes to it. */
  #copyOf({ handle, memory, bytes }: LiveBuffer<number>): number {
    const known = this.#copies.get(handle)
    if (known !== undefined) return known.at
    const at = this.#heap.alloc(bytes, 'submit')
    this.#native.copy(this.#memory.addressOf(at), memory, bytes)
    this.#copies.set(handle, { at, of: memory })
    return at
  }
}

/** Copies all that a buffer holds into another that holds as much. */
function copyOf(from: LiveBuffer<number>, to: LiveBuffer<number>): CheckedTransfer<number> {
  const source = wholeOf(from, false)
  return { kind: 'copy', from: source, to: wholeOf(to, true), bytes: source.bytes }
}

function wholeOf(buffer: LiveBuffer<number>, written: boolean): BoundRange<number> {
  return { buffer, offset: 0, bytes: Math.ceil(buffer.bytes / 4) * 4, written }
}
