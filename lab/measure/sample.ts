// Times entries in turns with the limits of the machine: limits, entry, limits, entry, limits. Each sample of an entry is compared with the
// limits just before and after it, and the median of these shares counts: what memory can do varies by half from minute to minute
// on shared machines, and hardly within a tenth of a second.

import { encodeElements, isElementType } from '../../src/base/element.ts'
import type { BufferHandle, Command, Device, Range } from '../../src/device/device.ts'
import { repeatLongEnough } from '../../src/bench/repeat.ts'
import { median, quantile } from '../../src/bench/statistics.ts'
import { packUniforms } from '../../src/ir/kernel.ts'
import { type Arrays, type BufferShape, boundBuffers } from '../../src/kernel/family.ts'
import { peakLimit, readLimit } from '../../src/kernel/limit/limit.ts'
import { type Arithmetic, type Entry, bytesOf, limitEntry } from './entry.ts'

export interface Row {
  readonly kernel: string
  readonly shape: string
  /** of one run, the median; and how far the middle half is spread, as a share of it */
  readonly seconds: number
  readonly noise: number
  readonly bytes: number
  readonly operations: number
  readonly arithmetic: Arithmetic
  /** shares of the limits */
  readonly ofReads: number
  readonly ofPeak: number | undefined
}

/** The byte everywhere: no NaN and nothing subnormal, whether seen as floats, halves or scales of any format. */
const FILLING = 0x3c
/** An entry with memory, ready to be run. */
interface Ready {
  /** seconds of one run, taken over some */
  sample(): Promise<number>
  free(): void
}

/** Units per second of the limits, seen in the samples of one entry. */
export interface Seen {
  readonly read: number
  readonly peak: number | undefined
  readonly arithmetic: Arithmetic
}

export class Sampler {
  readonly #device: Device
  /** memory much larger than the caches, which the limit and everything cold is read from */
  readonly #arena: Range & { readonly bytes: number }
  readonly #read: Entry
  readonly #limits = new Map<string, Ready>()
  readonly seen: Seen[] = []

  private constructor(device: Device, arena: Range & { readonly bytes: number }) {
    this.#device = device
    this.#arena = arena
    this.#read = limitEntry(readLimit(arena.bytes))
  }

  static async open(device: Device, bytes: number): Promise<Sampler> {
    const size = Math.min(bytes, device.caps.bindingBytes, device.caps.bufferBytes)
    const buffer = device.alloc(size)
    await device.submit([{ kind: 'fill', to: { buffer }, bytes: size, value: FILLING }])
    return new Sampler(device, { buffer, bytes: size })
  }

  /** Undefined where the device has no such kernel, or too little memory for it. */
  async measure(entry: Entry, rounds: number): Promise<Row | undefined> {
    const ready = await this.#prepare(entry)
    if (ready === undefined) return undefined
    const peakEntry = limitEntry(peakLimit(entry.arithmetic, this.#device.caps))
    const [read, peak] = [await this.#limit(this.#read), await this.#limit(peakEntry)]
    const takeLimits = async () => ({
      read: this.#read.bytes / (await read!.sample()),
      peak: peak && peakEntry.operations / (await peak.sample()),
    })
    const limits = [await takeLimits()]
    const times: number[] = []
    for (let round = 0; round < rounds; round++) {
      times.push(await ready.sample())
      limits.push(await takeLimits())
    }
    ready.free()
    const share = (rate: number, of: (at: number) => number): number =>
      median(times.map((time, i) => rate / time / ((of(i) + of(i + 1)) / 2)))
    this.seen.push({
      read: median(limits.map((each) => each.read)),
      peak: peak && median(limits.map((each) => each.peak!)),
      arithmetic: entry.arithmetic,
    })
    const { kernel, shape, bytes, operations, arithmetic } = entry
    return {
      kernel,
      shape,
      bytes,
      operations,
      arithmetic,
      seconds: median(times),
      noise: (quantile(times, 0.75) - quantile(times, 0.25)) / median(times),
      ofReads: share(bytes, (i) => limits[i]!.read),
      ofPeak: peak && share(operations, (i) => limits[i]!.peak!),
    }
  }

  async #limit(entry: Entry): Promise<Ready | undefined> {
    const known = this.#limits.get(entry.kernel) ?? (await this.#prepare(entry))
    if (known !== undefined) this.#limits.set(entry.kernel, known)
    return known
  }

  /** Gives it memory and finds out how often to run it for a sample. */
  async #prepare(entry: Entry): Promise<Ready | undefined> {
    const work = entry.work(this.#device.caps)
    const isCold = (shape: BufferShape): boolean => shape.cold === true
    const { alignment } = this.#device.caps
    const align = (bytes: number): number => Math.ceil(bytes / alignment) * alignment
    const stride = entry.buffers.filter(isCold).reduce((sum, shape) => sum + align(bytesOf(shape)), 0)
    if (work === undefined || stride > this.#arena.bytes) return undefined
    const hot = new Map<string, Range>()
    const inputs = entry.inputs?.() ?? {}
    for (const shape of entry.buffers)
      if (!isCold(shape)) hot.set(shape.name, { buffer: await this.#place(bytesOf(shape), inputOf(inputs, shape)) })
    for (const [name, bytes] of Object.entries(work.scratch ?? {})) hot.set(name, { buffer: await this.#place(bytes) })
    const programs = await Promise.all(work.launches.map(({ kernel }) => this.#device.compile(kernel)))
    /** Every run reads its cold buffers elsewhere, until the arena ends. */
    const commandsOf = (run: number): Command[] => {
      const ranges = new Map(hot)
      let offset = stride === 0 ? 0 : (run % Math.floor(this.#arena.bytes / stride)) * stride
      for (const shape of entry.buffers) {
        if (!isCold(shape)) continue
        ranges.set(shape.name, { buffer: this.#arena.buffer, offset, bytes: Math.ceil(bytesOf(shape) / 4) * 4 })
        offset += align(bytesOf(shape))
      }
      return work.launches.map((launch, i) => ({
        kind: 'dispatch',
        program: programs[i]!,
        grid: launch.grid,
        uniforms: packUniforms(launch.kernel, launch.uniforms),
        buffers: boundBuffers(launch).map((name) => ranges.get(name)!),
      }))
    }
    const { sample, dispose } = await repeatLongEnough(this.#device, commandsOf)
    return {
      sample,
      free: () => {
        dispose()
        for (const { buffer } of hot.values()) this.#device.free(buffer)
      },
    }
  }

  async #place(bytes: number, values?: Uint8Array): Promise<BufferHandle> {
    const size = Math.ceil(Math.max(bytes, 1) / 16) * 16
    const buffer = this.#device.alloc(size)
    await this.#device.submit([{ kind: 'fill', to: { buffer }, bytes: size, value: FILLING }])
    if (values !== undefined) this.#device.write(buffer, 0, values)
    return buffer
  }
}

/** What a buffer holds, where that matters. */
function inputOf(inputs: Arrays, { name, type }: BufferShape): Uint8Array | undefined {
  const values = inputs[name]
  return values === undefined || !isElementType(type) ? undefined : encodeElements(type, values)
}
