// Launches as messages to a compute encoder. Skips what is set already; a dispatch costs three to five messages. Knows no
// handles and no promises.

import type { Id, Objc } from './objc.ts'
import type { Launch } from './launch.ts'
import type { Region } from './region.ts'

const SLOTS = 31
const SCOPE_BUFFERS = 1

/** One encoder of one command buffer, while it is open. */
export class Encoding {
  readonly #messages: Objc['messages']['MTLComputeCommandEncoder']
  readonly #encoder: Id
  /** where read-backs go */
  readonly #reader: Region | undefined
  readonly #barriers: boolean
  readonly #ids = new BigUint64Array(SLOTS)
  readonly #offsets = new BigUint64Array(SLOTS)
  #pipeline: Id | undefined

  /** `barriers` is false where the encoder runs one dispatch after another. */
  constructor(objc: Objc, encoder: Id, reader: Region | undefined, barriers: boolean) {
    this.#messages = objc.messages.MTLComputeCommandEncoder
    this.#encoder = encoder
    this.#reader = reader
    this.#barriers = barriers
  }

  /** Everything after it waits for everything before it. */
  barrier(): void {
    if (this.#barriers) this.#messages['memoryBarrierWithScope:'](this.#encoder, SCOPE_BUFFERS)
  }

  launch({ program, buffers, uniforms, grid, waits }: Launch): void {
    const messages = this.#messages
    const encoder = this.#encoder
    if (waits) this.barrier()
    if (this.#pipeline !== program.pipeline) {
      messages['setComputePipelineState:'](encoder, program.pipeline)
      this.#pipeline = program.pipeline
    }
    buffers.forEach(({ region = this.#reader, offset }, index) => {
      this.#ids[index] = region?.id ?? 0n
      this.#offsets[index] = BigInt(offset)
    })
    if (buffers.length > 0)
      messages['setBuffers:offsets:withRange:'](encoder, this.#ids, this.#offsets, { location: 0, length: buffers.length })
    if (program.uniforms !== undefined) messages['setBytes:length:atIndex:'](encoder, uniforms, uniforms.length, program.uniforms)
    messages['dispatchThreadgroups:threadsPerThreadgroup:'](encoder, grid, program.workgroup)
  }

  /** Tells Metal of buffers that only indirect commands name. */
  use(ids: BigUint64Array, usage: number): void {
    if (ids.length > 0) this.#messages['useResources:count:usage:'](this.#encoder, ids, ids.length, usage)
  }

  execute(commands: Id, from: number, count: number): void {
    this.#messages['executeCommandsInBuffer:withRange:'](this.#encoder, commands, { location: from, length: count })
  }

  /** Makes a pipeline known to the GPU without running it. */
  touch(pipeline: Id): void {
    const nothing = { width: 0, height: 0, depth: 0 }
    this.#messages['setComputePipelineState:'](this.#encoder, pipeline)
    this.#messages['dispatchThreadgroups:threadsPerThreadgroup:'](this.#encoder, nothing, nothing)
    this.#pipeline = pipeline
  }
}
