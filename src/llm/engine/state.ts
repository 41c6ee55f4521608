// The memory of sequences on a device: the caches of all layers, and the table that says which pages the sequences of a step have. Moves
// bytes; what is in them is the matter of plans.

import type { BufferHandle, Command, Device } from '../../device/device.ts'
import { CACHE_BLOCK, type CacheType, cacheBytes } from '../../kernel/attention/cache-type.ts'
import { PAGE, pagesFor } from '../../kernel/attention/pages.ts'
import type { CacheShape, LayerCache, StateShape } from '../../nn/cache.ts'
import { Storage } from '../../tensor/storage.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { PageCopy } from './sequence.ts'

export interface StateOptions {
  /** tokens that a sequence may have */
  readonly context: number
  /** pages of the caches, the one that nobody has included */
  readonly pages: number
  /** sequences of a step */
  readonly slots: number
  readonly cacheType: CacheType
}

/** What the caches of a model take. */
export function stateBytes({ caches }: StateShape, { pages, cacheType }: Pick<StateOptions, 'pages' | 'cacheType'>): number {
  return caches.reduce((sum, { heads, dim }) => sum + 2 * cacheBytes(cacheType, heads * pages * PAGE * dim), 0)
}

interface Part {
  readonly buffer: BufferHandle
  readonly offset: number
  readonly bytes: number
}

export class DeviceState {
  readonly layers: readonly LayerCache[]
  /** [slots + 1, pages of a sequence]: the first row is that of rows that only fill up a step */
  readonly table: Tensor
  readonly #device: Device
  readonly #options: StateOptions
  readonly #shape: StateShape
  readonly #table: BufferHandle
  /** keys and values of each layer, by turns */
  readonly #caches: BufferHandle[] = []
  /** the pages that the device was last told of, by slot */
  readonly #told: (readonly number[])[] = []

  constructor(device: Device, shape: StateShape, options: StateOptions) {
    this.#device = device
    this.#shape = shape
    this.#options = options
    const { slots, context, pages, cacheType } = options
    const perSlot = pagesFor(context)
    try {
      this.#table = device.alloc(4 * (slots + 1) * perSlot)
      this.table = Tensor.over(this.#table, [slots + 1, perSlot], 'u32', 'pages')
      this.layers = shape.caches.map(({ heads, dim }, layer) => {
        const alloc = (label: string): Tensor => {
          const buffer = device.alloc(this.#bytesOf(this.#caches.length))
          this.#caches.push(buffer)
          return Tensor.cache(new Storage('cache', buffer), [heads, pages * PAGE, dim], cacheType, `${label} ${layer}`)
        }
        return { keys: alloc('keys'), values: alloc('values') }
      })
      device.write(this.#table, 0, new Uint8Array(4 * (slots + 1) * perSlot))
      // Before everything else that is submitted; a device that cannot do that will say so then.
      void this.#fill(this.#caches.map((buffer, i) => ({ buffer, offset: 0, bytes: this.#bytesOf(i) }))).catch(() => {})
    } catch (error) {
      for (const buffer of this.#caches) device.free(buffer)
      throw error
    }
  }

  /** Tells the device which pages a slot has, from 1 on. */
  setPages(slot: number, pages: readonly number[]): void {
    const told = this.#told[slot] ?? []
    const from = pages.findIndex((page, i) => page !== told[i])
    if (from < 0) return
    this.#told[slot] = [...pages]
    const words = Uint32Array.from(pages.slice(from))
    this.#device.write(this.#table, 4 * (slot * pagesFor(this.#options.context) + from), new Uint8Array(words.buffer))
  }

  /** Copies pages, in all layers. */
  async copy(copies: readonly PageCopy[]): Promise<void> {
    const commands = copies.flatMap(({ from, to }) =>
      this.#partsOf(from).map((part, i): Command => {
        const target = this.#partsOf(to)[i] ?? part
        return { kind: 'copy', from: part, to: target, bytes: part.bytes }
      }),
    )
    if (commands.length > 0) await this.#device.submit(commands)
  }

  /** Sets pages to zeros: what is no number must not lie where others may be written beside it (kernel/attention/tiles.ts). */
  async clear(pages: readonly number[]): Promise<void> {
    await this.#fill(pages.flatMap((page) => this.#partsOf(page)))
  }

  async #fill(parts: readonly Part[]): Promise<void> {
    if (parts.length > 0) await this.#device.submit(parts.map((to): Command => ({ kind: 'fill', to, bytes: to.bytes, value: 0 })))
  }

  /** Frees the caches. */
  close(): void {
    for (const buffer of [this.#table, ...this.#caches.splice(0)]) this.#device.free(buffer)
  }

  #shapeOf(cache: number): CacheShape {
    return this.#shape.caches[Math.floor(cache / 2)] ?? { heads: 0, dim: 0 }
  }

  #bytesOf(cache: number): number {
    const { heads, dim } = this.#shapeOf(cache)
    return cacheBytes(this.#options.cacheType, heads * this.#options.pages * PAGE * dim)
  }

  /** Where a page lies: a stretch of every head of every cache, and of its scales where it has some. */
  #partsOf(page: number): Part[] {
    const { pages, cacheType } = this.#options
    const stretch = (elements: number): number => (cacheType === 'q8_0' ? elements : cacheBytes(cacheType, elements))
    return this.#caches.flatMap((buffer, i) => {
      const { heads, dim } = this.#shapeOf(i)
      const [all, own] = [heads * pages * PAGE * dim, PAGE * dim]
      return Array.from({ length: heads }, (_, head) => (head * pages + page) * own).flatMap((at) => {
        const elements = { buffer, offset: stretch(at), bytes: stretch(own) }
        if (cacheType !== 'q8_0') return [elements]
        return [elements, { buffer, offset: all + 4 * (at / CACHE_BLOCK), bytes: 4 * (own / CACHE_BLOCK) }]
      })
    })
  }
}
