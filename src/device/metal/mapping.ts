// Files as memory of the GPU: mapped once, wrapped without a copy, and shared by all tensors in them. A file larger than the
// largest buffer, or than indirect commands can reach, is seen through windows that overlap, so that a tensor lies whole in
// one. Knows nothing of formats.
//
// Offsets in a window are kept to 16 bytes, which every type of a kernel is content with (GGUF aligns to 32); a range that lies
// otherwise is not mapped, nor is anything where the system refuses. The caller then reads it.

import { IngotError } from '../../base/error.ts'
import type { Address, Ffi, Foreign } from './ffi.ts'
import type { Region, Regions } from './region.ts'

interface File {
  readonly address: Address
  /** whole pages */
  readonly length: number
  readonly size: number
  /** by where they start and end */
  readonly windows: Map<string, Region>
  /** tensors that live in it */
  users: number
  /** windows that Metal still holds */
  held: number
}

/** A range of a file, in memory. */
export interface Mapped {
  readonly region: Region
  /** of the range in the region */
  readonly base: number
  /** To be called once, when the range is not used any more. */
  release(): void
}

const ALIGNMENT = 16
/** Offsets in indirect commands have 32 bits. */
const MOST_WINDOW = 2 ** 32
/** Of a window, what the next one does not see: what is not larger than the rest lies whole in one. */
const STEP = 3 / 4
const PROT_READ = 1
const MAP_SHARED = 1
const MAP_FAILED = 2n ** 64n - 1n

export class Mappings {
  readonly #regions: Regions
  readonly #bufferBytes: number
  readonly #windowBytes: number
  readonly #page: number
  readonly #mmap: Foreign<['pointer', 'u64', 'i32', 'i32', 'i32', 'i64'], 'pointer'>
  readonly #munmap: Foreign<['pointer', 'u64'], 'i32'>
  readonly #files = new Map<string, Promise<File | undefined>>()

  /** `bufferBytes` is the most that Metal takes as one. */
  constructor(ffi: Ffi, regions: Regions, bufferBytes: number) {
    const system = ffi.open(null)
    this.#regions = regions
    this.#bufferBytes = bufferBytes
    this.#mmap = system.declare('mmap', ['pointer', 'u64', 'i32', 'i32', 'i32', 'i64'], 'pointer')
    this.#munmap = system.declare('munmap', ['pointer', 'u64'], 'i32')
    this.#page = system.declare('getpagesize', [], 'i32')()
    this.#windowBytes = Math.floor(Math.min(bufferBytes, MOST_WINDOW) / this.#page) * this.#page
  }

  /** The range in memory, or nothing if it has to be read. Throws `bad-file` if the file ends before it. */
  async map(path: string, offset: number, bytes: number): Promise<Mapped | undefined> {
    if (offset % ALIGNMENT !== 0) return undefined
    const file = await this.#enter(path)
    if (file === undefined) return undefined
    try {
      if (offset + bytes > file.size)
        throw new IngotError('bad-file', 'the file ends before the range', { op: path, got: `${file.size} bytes`, wanted: offset + bytes })
      const window = this.#window(file, offset, bytes)
      if (window !== undefined) return { region: window.region, base: offset - window.start, release: () => this.#leave(path, file) }
      this.#leave(path, file)
      return undefined
    } catch (error) {
      this.#leave(path, file)
      throw error
    }
  }

  /** A window of the usual raster, or one of its own for a tensor that none of those holds whole; nothing if none can. */
  #window(file: File, offset: number, bytes: number): { region: Region; start: number } | undefined {
    const pages = (at: number): number => Math.floor(at / this.#page) * this.#page
    const step = Math.max(pages(this.#windowBytes * STEP), this.#page)
    let start = file.length <= this.#windowBytes ? 0 : Math.floor(offset / step) * step
    if (offset + bytes > start + this.#windowBytes) start = pages(offset)
    const end = Math.min(file.length, Math.max(start + this.#windowBytes, pages(offset + bytes + this.#page - 1)))
    if (end - start > this.#bufferBytes) return undefined
    const key = `${start} ${end}`
    let region = file.windows.get(key)
    if (region === undefined) {
      region = this.#regions.wrap(file.address + BigInt(start), end - start, 'load', () => this.#released(file))
      file.held++
      file.windows.set(key, region)
    }
    return { region, start }
  }

  /** The file with one more user. */
  async #enter(path: string): Promise<File | undefined> {
    for (;;) {
      const opening = this.#open(path)
      const file = await opening
      if (file === undefined) return undefined
      if (this.#files.get(path) !== opening) continue // its last user left meanwhile
      file.users++
      return file
    }
  }

  #open(path: string): Promise<File | undefined> {
    const known = this.#files.get(path)
    if (known !== undefined) return known
    const opening = this.#mapFile(path)
    this.#files.set(path, opening)
    opening.then(
      (file) => file ?? this.#files.delete(path),
      () => this.#files.delete(path),
    )
    return opening
  }

  async #mapFile(path: string): Promise<File | undefined> {
    const { open } = await import('node:fs/promises')
    const handle = await open(path, 'r')
    try {
      const { size } = await handle.stat()
      if (size === 0) return undefined
      const length = Math.ceil(size / this.#page) * this.#page
      this.#regions.admit(length, 'load')
      const address = this.#mmap(null, length, PROT_READ, MAP_SHARED, handle.fd, 0)
      if (address === null || address === MAP_FAILED) return undefined
      this.#regions.count(length)
      return { address, length, size, windows: new Map(), users: 0, held: 0 }
    } finally {
      await handle.close()
    }
  }

  #leave(path: string, file: File): void {
    if (--file.users > 0) return
    this.#files.delete(path)
    this.#regions.count(-file.length)
    if (file.held === 0) this.#munmap(file.address, file.length)
    for (const region of file.windows.values()) this.#regions.retire(region)
  }

  #released(file: File): void {
    if (--file.held === 0 && file.users === 0) this.#munmap(file.address, file.length)
  }
}
