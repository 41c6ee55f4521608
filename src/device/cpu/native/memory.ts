// Memory for the native cpu device beside the heap: large buffers, and files that are mapped instead of read. Gives out places:
// offsets in the heap, or addresses of the process (layout.ts).
//
// Invariant: an address that was given out stays valid until it was given back as often as it was given out.

import { statSync } from 'node:fs'
import { IngotError } from '../../../base/error.ts'
import type { ByteRange } from '../../device.ts'
import type { Heap } from '../heap.ts'
import { FIRST_ADDRESS } from './layout.ts'
import type { Native } from './library.ts'

/**
 * Buffers from this size on do not use up the address space of WebAssembly. Below it are tensors of 16 M floats: kernels that the library
 * lacks reach them where they lie.
 */
const LARGE = 128 * 2 ** 20
/** Kernels read whole words. */
const WORD = 4

interface Mapping {
  readonly key: string
  readonly at: number
  readonly bytes: number
  ranges: number
}
interface Mapped {
  readonly mapping: Mapping
  readonly bytes: number
  users: number
}

export class NativeMemory {
  readonly #native: Native
  readonly #heap: Heap
  readonly #base: number
  /** sizes of large buffers, by address */
  readonly #large = new Map<number, number>()
  readonly #mappings = new Map<string, Mapping>()
  readonly #mapped = new Map<number, Mapped>()

  constructor(native: Native, heap: Heap) {
    this.#native = native
    this.#heap = heap
    this.#base = native.addressOf(heap.memory.buffer)
    native.huge(this.#base, heap.mostBytes)
  }

  /** Where a place is in the process. The heap does not move when it grows. */
  addressOf(place: number): number {
    return place < FIRST_ADDRESS ? this.#base + place : place
  }

  alloc(bytes: number, op: string): number {
    if (bytes < LARGE) {
      try {
        return this.#heap.alloc(bytes, op)
      } catch {
        // full: native memory has room, as long as the machine has
      }
    }
    const at = this.#native.alloc(bytes)
    if (at < FIRST_ADDRESS) throw new IngotError('out-of-memory', 'no memory for a buffer', { op, got: `${bytes} bytes` })
    this.#large.set(at, bytes)
    return at
  }

  free(place: number): void {
    if (place < FIRST_ADDRESS) return this.#heap.free(place)
    const bytes = this.#large.get(place)
    if (bytes === undefined) return this.#unmap(place)
    this.#large.delete(place)
    this.#native.free(place, bytes)
  }

  read(place: number, bytes: number): Uint8Array<ArrayBuffer> {
    return place < FIRST_ADDRESS ? this.#heap.copy(place, bytes) : this.#native.peek(place, bytes)
  }

  write(place: number, bytes: Uint8Array): void {
    if (place < FIRST_ADDRESS) this.#heap.bytes.set(bytes, place)
    else this.#native.poke(place, bytes)
  }

  /** The address of a range of a file, or undefined if it has to be read: it is no file, or kernels could not read it in place. */
  async map({ path, offset = 0, bytes }: ByteRange): Promise<number | undefined> {
    if (path === undefined || offset % WORD !== 0) return undefined
    const { size, ino, mtimeMs } = look(path)
    if (Math.ceil((offset + bytes) / WORD) * WORD > size) return undefined
    const key = `${path} ${ino} ${mtimeMs} ${size}` // another file may have come in its place
    const mapping = this.#mappings.get(key) ?? this.#open(key, path, size)
    if (mapping === undefined) return undefined
    const at = mapping.at + offset
    const known = this.#mapped.get(at)
    mapping.ranges++
    // the same start may be given out twice, also with different sizes: the last to go takes the larger one along
    this.#mapped.set(at, { mapping, bytes: Math.max(bytes, known?.bytes ?? 0), users: (known?.users ?? 0) + 1 })
    this.#native.advise(at, bytes, true)
    return at
  }

  close(): void {
    for (const [at, bytes] of this.#large) this.#native.free(at, bytes)
    for (const { at, bytes } of this.#mappings.values()) this.#native.unmap(at, bytes)
    this.#large.clear()
    this.#mappings.clear()
    this.#mapped.clear()
  }

  #open(key: string, path: string, bytes: number): Mapping | undefined {
    const at = this.#native.map(path, bytes)
    if (at < FIRST_ADDRESS) return undefined
    const mapping = { key, at, bytes, ranges: 0 }
    this.#mappings.set(key, mapping)
    return mapping
  }

  #unmap(at: number): void {
    const mapped = this.#mapped.get(at)
    if (mapped === undefined) throw new IngotError('double-free', 'no such memory', { op: 'free', got: at })
    const { mapping, bytes } = mapped
    if (--mapped.users === 0) {
      this.#mapped.delete(at)
      this.#native.advise(at, bytes, false)
    }
    if (--mapping.ranges > 0) return
    this.#mappings.delete(mapping.key)
    this.#native.unmap(mapping.at, mapping.bytes)
  }
}

/** Asked for every tensor, so without a promise, which would take ten times as long. */
function look(path: string): { readonly size: number; readonly ino: number; readonly mtimeMs: number } {
  try {
    return statSync(path)
  } catch {
    return { size: 0, ino: 0, mtimeMs: 0 }
  }
}
