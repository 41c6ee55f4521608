// The limits of a device, as the kernels of kernel/limit find them: what operations are printed as shares of.

import type { BufferHandle, Command, Device, Range } from '../../device/device.ts'
import { packUniforms } from '../../ir/kernel.ts'
import { boundBuffers } from '../../kernel/family.ts'
import { type LimitParams, limit, peakLimit, readLimit } from '../../kernel/limit/limit.ts'
import { type Repeated, repeatLongEnough } from '../repeat.ts'
import type { Limits } from './protocol.ts'

/** Bytes that are read: several times the caches of any processor. */
const ARENA = 128 * 2 ** 20
/** The byte everywhere: no NaN and nothing subnormal, seen as floats. */
const FILLING = 0x3c

export class MachineLimits {
  readonly #read: Ready
  readonly #peak: Ready

  private constructor(read: Ready, peak: Ready) {
    this.#read = read
    this.#peak = peak
  }

  static async open(device: Device): Promise<MachineLimits> {
    const { bindingBytes, bufferBytes } = device.caps
    const read = await prepare(device, readLimit(Math.min(ARENA, bindingBytes, bufferBytes)))
    return new MachineLimits(read, await preparePeak(device))
  }

  async sample(): Promise<Limits> {
    const read = this.#read.bytes / (await this.#read.repeated.sample())
    return { read, peak: this.#peak.operations / (await this.#peak.repeated.sample()) }
  }

  dispose(): void {
    this.#read.free()
    this.#peak.free()
  }
}

/** The peak alone, which needs next to no memory: f32 operations of a second. */
export async function openPeak(device: Device): Promise<{ sample(): Promise<number>; dispose(): void }> {
  const { operations, repeated, free } = await preparePeak(device)
  return { sample: async () => operations / (await repeated.sample()), dispose: free }
}

const preparePeak = (device: Device): Promise<Ready> => prepare(device, peakLimit('f32', device.caps))

interface Ready {
  readonly repeated: Repeated
  readonly bytes: number
  readonly operations: number
  free(): void
}

/** A limit with memory, recorded so often that a sample lasts. */
async function prepare(device: Device, params: LimitParams): Promise<Ready> {
  const buffers = new Map<string, BufferHandle>()
  let bytes = 0
  for (const { name, elements } of limit.buffers(params)) {
    const size = 4 * elements
    const buffer = device.alloc(size)
    await device.submit([{ kind: 'fill', to: { buffer }, bytes: size, value: FILLING }])
    buffers.set(name, buffer)
    bytes += size
  }
  const rangeOf = (name: string): Range[] => {
    const buffer = buffers.get(name)
    return buffer === undefined ? [] : [{ buffer }]
  }
  const commands = await Promise.all(
    limit.work(device.caps, params).launches.map(async (launch): Promise<Command> => ({
      kind: 'dispatch',
      program: await device.compile(launch.kernel),
      grid: launch.grid,
      uniforms: packUniforms(launch.kernel, launch.uniforms),
      buffers: boundBuffers(launch).flatMap(rangeOf),
    })),
  )
  const repeated = await repeatLongEnough(device, () => commands)
  const free = (): void => {
    repeated.dispose()
    for (const buffer of buffers.values()) device.free(buffer)
  }
  return { repeated, bytes, operations: limit.cost(params).operations, free }
}
