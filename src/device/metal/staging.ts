// Small regions around the real ones: where read-backs land, and where bytes wait that were written while the GPU was busy.
// They are taken for one submission and given back when it is done.

import type { Region, Regions } from './region.ts'

const SMALLEST = 4096
const KEPT = 8
/** Past 64 MB, powers of two waste too much. */
const LARGE = 2 ** 26

export class Staging {
  readonly #regions: Regions
  readonly #idle: Region[] = []

  constructor(regions: Regions) {
    this.#regions = regions
  }

  take(bytes: number): Region {
    const at = this.#idle.findIndex((region) => region.bytes >= bytes && region.bytes <= 4 * Math.max(bytes, SMALLEST))
    const [found] = at < 0 ? [] : this.#idle.splice(at, 1)
    return found ?? this.#regions.create(bytes > LARGE ? bytes : 2 ** Math.ceil(Math.log2(Math.max(bytes, SMALLEST))), 'submit')
  }

  /** Takes back a region that no submission uses any more. */
  give(region: Region): void {
    this.#idle.push(region)
    for (const spare of this.#idle.splice(0, this.#idle.length - KEPT)) this.#regions.retire(spare)
  }

  close(): void {
    for (const region of this.#idle.splice(0)) this.#regions.retire(region)
  }
}
