// The command queue: commits command buffers in order, waits for them on another thread, tells what became of them. Keeps the
// clock by which memory is released. Knows nothing of what is encoded.
//
// Command buffers do not retain what they name: Ingot keeps buffers, pipelines and indirect commands alive until the work is
// done, by its own count. One wait runs at a time, for the oldest; the queue completes in the order of commits.

import { type ErrorCode, IngotError } from '../../base/error.ts'
import { type Id, type Objc, type Owned, required } from './objc.ts'
import type { Clock } from './region.ts'

interface InFlight {
  readonly number: number
  readonly buffer: Owned
  resolve(seconds: number): void
  reject(error: IngotError): void
}

const FAILED = 5
/** MTLCommandBufferError: access revoked, out of memory, device removed. */
const CODES: Readonly<Record<number, ErrorCode>> = { 4: 'device-lost', 8: 'out-of-memory', 11: 'device-lost' }
const SERIAL = 0
const CONCURRENT = 1

export class CommandQueue {
  readonly id: Owned
  readonly clock: Readonly<Clock>
  readonly #clock: Clock = { committed: 0, completed: 0 }
  readonly #objc: Objc
  readonly #dispatchType: number
  readonly #inFlight: InFlight[] = []
  #waiting: Promise<void> | undefined
  #seconds = 0

  constructor(objc: Objc, device: Id, concurrent: boolean) {
    this.#objc = objc
    this.clock = this.#clock
    this.#dispatchType = concurrent ? CONCURRENT : SERIAL
    this.id = required(objc.messages.MTLDevice.newCommandQueue(device), 'a command queue')
  }

  /** Seconds the GPU has worked. */
  get seconds(): number {
    return this.#seconds
  }

  /** Commits one command buffer with what `encode` puts into its encoder; resolves, when it is done, with its GPU seconds. */
  submit(encode: (encoder: Id) => void): Promise<number> {
    const objc = this.#objc
    const { MTLCommandQueue, MTLCommandBuffer, MTLComputeCommandEncoder } = objc.messages
    return objc.pooled(() => {
      const buffer = required(MTLCommandQueue.commandBufferWithUnretainedReferences(this.id), 'a command buffer')
      const encoder = required(MTLCommandBuffer['computeCommandEncoderWithDispatchType:'](buffer, this.#dispatchType), 'an encoder')
      try {
        encode(encoder)
      } finally {
        MTLComputeCommandEncoder.endEncoding(encoder)
      }
      MTLCommandBuffer.commit(buffer)
      return this.#track(objc.retain(buffer))
    })
  }

  /** Resolves when everything that was committed is done. */
  async idle(): Promise<void> {
    while (this.#waiting !== undefined) await this.#waiting
  }

  /** After `idle`. */
  close(): void {
    this.#objc.release(this.id)
  }

  #track(buffer: Owned): Promise<number> {
    const number = ++this.#clock.committed
    return new Promise((resolve, reject) => {
      this.#inFlight.push({ number, buffer, resolve, reject })
      this.#waiting ??= this.#wait()
    })
  }

  async #wait(): Promise<void> {
    const { waitUntilCompleted } = this.#objc.messages.MTLCommandBuffer
    for (let next = this.#inFlight[0]; next !== undefined; next = this.#inFlight[0]) {
      const { buffer } = next
      await waitUntilCompleted.later(buffer).catch(() => waitUntilCompleted(buffer)) // no thread was free
      this.#inFlight.shift()
      this.#clock.completed = next.number
      this.#finish(next)
    }
    this.#waiting = undefined
  }

  #finish({ buffer, resolve, reject }: InFlight): void {
    const objc = this.#objc
    const { MTLCommandBuffer } = objc.messages
    objc.pooled(() => {
      const seconds = MTLCommandBuffer.GPUEndTime(buffer) - MTLCommandBuffer.GPUStartTime(buffer)
      this.#seconds += seconds
      if (MTLCommandBuffer.status(buffer) === FAILED) reject(this.#explain(MTLCommandBuffer.error(buffer)))
      else resolve(seconds)
      objc.release(buffer)
    })
  }

  #explain(error: Id | null): IngotError {
    const code = (error === null ? undefined : CODES[this.#objc.messages.NSError.code(error)]) ?? 'device-failed'
    const said = this.#objc.describe(error)
    const what = said === '' ? 'the GPU gave up without a reason' : said
    return new IngotError(code, what, { op: 'metal', ...(code === 'device-lost' ? { hint: 'open the device again' } : {}) })
  }
}
