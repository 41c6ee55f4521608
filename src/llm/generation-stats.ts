// Numbers of one generation: how long its phases took, and what the device was asked to do per token. Knows clocks and the
// device's counters; nothing of tokens or text.

import type { Device, Stats } from '../device/device.ts'

/** What a generation took. Times are in milliseconds; rates are 0 where there was nothing to measure. */
export interface GenerationStats {
  /** tokens of the prompt, those in the cache included */
  readonly promptTokens: number
  /** of these, how many were in the cache already, left by the generation before */
  readonly cachedTokens: number
  /** making plans and compiling kernels, the first time a prompt of this length comes; not part of the other times */
  readonly prepareMs: number
  /** from the first prompt token that was computed to the first generated token */
  readonly prefillMs: number
  /** prompt tokens that were not in the cache, per second of `prefillMs` */
  readonly prefillTokensPerSecond: number
  /** tokens of the result */
  readonly generatedTokens: number
  /** from the first generated token to the end */
  readonly decodeMs: number
  /** generated tokens after the first, per second of `decodeMs` */
  readonly decodeTokensPerSecond: number
  /** calls of the device's `submit`, per generated token after the first; so are the next three */
  readonly submissionsPerToken: number
  /** kernels that ran */
  readonly dispatchesPerToken: number
  /** bytes that crossed between host and device; weights and cache are read besides */
  readonly bytesPerToken: number
  /** what else the device counts, by its names for it */
  readonly extrasPerToken: Readonly<Record<string, number>>
}

/** Takes the time of each phase of a generation, and counts. A phase that was not reached took no time. */
export class StatsRecorder {
  readonly #device: Device
  readonly #promptTokens: number
  readonly #cachedTokens: number
  readonly #begun = performance.now()
  #prepared: number | undefined
  #decodeFrom: number | undefined
  #before: Stats

  constructor(device: Device, promptTokens: number, cachedTokens: number) {
    this.#device = device
    this.#promptTokens = promptTokens
    this.#cachedTokens = cachedTokens
    this.#before = { ...device.stats }
  }

  /** All plans are made; the prompt comes next. */
  prepared(): void {
    this.#prepared = performance.now()
  }

  /** The first token is there. */
  prefilled(): void {
    this.#decodeFrom = performance.now()
    this.#before = { ...this.#device.stats }
  }

  finish(generatedTokens: number): GenerationStats {
    const ended = performance.now()
    const prepared = this.#prepared ?? ended
    const decodeFrom = this.#decodeFrom ?? ended
    const [prefillMs, decodeMs] = [decodeFrom - prepared, ended - decodeFrom]
    const decoded = Math.max(0, generatedTokens - 1)
    const perToken = (count: number): number => (decoded === 0 ? 0 : count / decoded)
    const [before, after] = [this.#before, this.#device.stats]
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      prepareMs: prepared - this.#begun,
      prefillMs,
      generatedTokens,
      decodeMs,
      prefillTokensPerSecond: prefillMs > 0 ? ((this.#promptTokens - this.#cachedTokens) / prefillMs) * 1000 : 0,
      decodeTokensPerSecond: decodeMs > 0 ? (decoded / decodeMs) * 1000 : 0,
      submissionsPerToken: perToken(after.submissions - before.submissions),
      dispatchesPerToken: perToken(after.dispatches - before.dispatches),
      bytesPerToken: perToken(after.bytesWritten + after.bytesRead - before.bytesWritten - before.bytesRead),
      extrasPerToken: Object.fromEntries(
        Object.entries(after.extras).map(([name, count]) => [name, perToken(count - (before.extras[name] ?? 0))]),
      ),
    }
  }
}
