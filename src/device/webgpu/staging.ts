// Small buffers around the real ones: where read-backs are mapped, where uniforms lie, what fills and copies go through. The
// queue runs everything in order, so a buffer that was used by an earlier submission may be written to again at once; only
// mapped buffers must wait until their reader is done.

import { COPY_DST, COPY_SRC, MAP_READ, UNIFORM } from './usage.ts'

/** Offsets of uniforms; the smallest that every adapter takes. */
export const UNIFORM_SLOT = 256
const PATTERN_BYTES = 256 * 1024
const SCRATCH_BYTES = 1024 * 1024
const KEPT_READERS = 8

export class Staging {
  readonly #device: GPUDevice
  readonly #idle: GPUBuffer[] = []
  readonly #patterns = new Map<number, GPUBuffer>()
  #scratch: GPUBuffer | undefined
  #uniforms: GPUBuffer | undefined

  constructor(device: GPUDevice) {
    this.#device = device
  }

  /** A buffer to copy read-backs into and map. */
  reader(bytes: number): GPUBuffer {
    const at = this.#idle.findIndex(({ size }) => size >= bytes && size <= 4 * Math.max(bytes, 1024))
    const [found] = at < 0 ? [] : this.#idle.splice(at, 1)
    if (found !== undefined) return found
    const size = 2 ** Math.ceil(Math.log2(Math.max(bytes, 256)))
    // Past 64 MB, powers of two waste too much.
    return this.#device.createBuffer({ label: 'read', size: bytes > 2 ** 26 ? bytes : size, usage: MAP_READ | COPY_DST })
  }

  /** Takes back a reader that is not mapped. */
  release(reader: GPUBuffer): void {
    this.#idle.push(reader)
    if (this.#idle.length > KEPT_READERS) this.#idle.shift()?.destroy()
  }

  /** The uniforms of plain submissions: one buffer, written before each of them. */
  uniforms(bytes: number): GPUBuffer {
    if (this.#uniforms === undefined || this.#uniforms.size < bytes) {
      this.#uniforms?.destroy()
      this.#uniforms = createUniforms(this.#device, 2 ** Math.ceil(Math.log2(Math.max(bytes, 4096))))
    }
    return this.#uniforms
  }

  /** A buffer full of one byte, to copy from. */
  pattern(value: number): GPUBuffer {
    let pattern = this.#patterns.get(value)
    if (pattern === undefined) {
      pattern = this.#device.createBuffer({ label: 'pattern', size: PATTERN_BYTES, usage: COPY_SRC | COPY_DST })
      this.#device.queue.writeBuffer(pattern, 0, new Uint8Array(PATTERN_BYTES).fill(value))
      this.#patterns.set(value, pattern)
    }
    return pattern
  }

  /** Where copies within one buffer go through: WebGPU allows no others. */
  scratch(): GPUBuffer {
    this.#scratch ??= this.#device.createBuffer({ label: 'scratch', size: SCRATCH_BYTES, usage: COPY_SRC | COPY_DST })
    return this.#scratch
  }
}

export function createUniforms(device: GPUDevice, bytes: number): GPUBuffer {
  return device.createBuffer({ label: 'uniforms', size: bytes, usage: UNIFORM | COPY_DST })
}
