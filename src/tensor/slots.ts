// The memory of results on the way, for plans that run one after the other: slot number i of each of them is the same buffer, as large as
// the largest asks for. Whoever finds that buffers were replaced by larger ones records its commands anew.

import type { BufferHandle, Device } from '../device/device.ts'

/** How large the slots are that serve all of several plans, each of which has a list of its own, largest first. */
export function joinSlots(lists: readonly (readonly number[])[]): number[] {
  const count = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: count }, (_, slot) => Math.max(...lists.map((list) => list[slot] ?? 0)))
}

/** Buffers that some plans share. They are there as long as one of the plans is. */
export class Slots {
  readonly #device: Device
  #buffers: readonly BufferHandle[] = []
  #bytes: readonly number[] = []
  #plans = 0

  constructor(device: Device) {
    this.#device = device
  }

  /** bytes of all */
  get bytes(): number {
    return this.#bytes.reduce((sum, bytes) => sum + bytes, 0)
  }

  /** The buffers as they are now: another list whenever one of them was replaced. */
  get buffers(): readonly BufferHandle[] {
    return this.#buffers
  }

  /** Makes room for another plan, which leaves even where there is no memory for it; the others can go on then. */
  join(slotBytes: readonly number[]): void {
    this.#plans++
    for (const [slot, bytes] of slotBytes.entries()) {
      if (bytes <= (this.#bytes[slot] ?? 0)) continue
      const [buffer, before] = [this.#device.alloc(bytes), this.#buffers[slot]]
      this.#buffers = this.#buffers.toSpliced(slot, 1, buffer)
      this.#bytes = this.#bytes.toSpliced(slot, 1, bytes)
      if (before !== undefined) this.#device.free(before)
    }
  }

  /** One of the plans is gone. */
  leave(): void {
    this.#plans--
    if (this.#plans > 0) return
    for (const buffer of this.#buffers) this.#device.free(buffer)
    ;[this.#buffers, this.#bytes] = [[], []]
  }
}
