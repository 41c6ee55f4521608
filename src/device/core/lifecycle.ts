// Whether a device can be used: open, lost or closed; and what is under way on it. Shared by a device and its backend.

import { IngotError } from '../../base/error.ts'

export class Lifecycle {
  /** of the device, for messages */
  readonly name: string
  readonly #pending = new Set<Promise<unknown>>()
  #lost: IngotError | undefined
  #closed = false
  #closing: Promise<void> | undefined

  constructor(name: string) {
    this.name = name
  }

  get closed(): boolean {
    return this.#closed
  }
  /** why nothing works any more, if so */
  get lost(): IngotError | undefined {
    return this.#lost
  }

  /** Throws once the device is closed or lost. */
  assertUsable(op: string): void {
    if (this.#closed) throw new IngotError('closed', `the ${this.name} device was closed`, { op })
    if (this.#lost !== undefined) throw this.#lost
  }

  /** From now on every call throws this; the first reason stays. */
  lose(reason: IngotError): void {
    this.#lost ??= reason
  }

  /** Notes something that is under way: `settled` and `close` wait for it. */
  track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise)
    const forget = (): void => {
      this.#pending.delete(promise)
    }
    promise.then(forget, forget)
    return promise
  }

  /** Resolves when all that is under way now is over, well or badly. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending)
  }

  /** Refuses everything from now on, waits for what is under way, then lets `release` give things back. All calls share one end. */
  close(release: () => Promise<void>): Promise<void> {
    this.#closed = true
    this.#closing ??= this.#end(release)
    return this.#closing
  }

  async #end(release: () => Promise<void>): Promise<void> {
    while (this.#pending.size > 0) await this.settled()
    await release()
  }
}
