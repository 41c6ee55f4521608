// One answer being written: awaited whole or iterated as it comes. The work starts when somebody first asks for it; leaving the loop
// or aborting the signal stops it. Knows tokens and text of one generation; the model gives it its turn.

import { IngotError } from '../base/error.ts'
import type { Answer, Engine } from './engine.ts'
import { type SampleOptions, createSampler, samplerNeeds } from './sample.ts'
import { createStopMatcher } from './stop.ts'
import type { StreamDecoder } from './tokenizer/stream.ts'
import type { Tokenizer } from './tokenizer/tokenizer.ts'

export interface GenerateOptions extends SampleOptions {
  /** at most this many tokens (default: until the context is full) */
  readonly maxTokens?: number
  /** text that ends the answer and is not part of it */
  readonly stop?: string | readonly string[]
  /** go on past the model's own end of text */
  readonly ignoreEos?: boolean
  readonly signal?: AbortSignal
}

export type FinishReason = 'stop' | 'length' | 'cancelled'

export interface GenerationStats {
  readonly promptTokens: number
  /** of these, how many were in the cache already */
  readonly cachedTokens: number
  /** making plans and compiling kernels, the first time a prompt of this length comes; not part of the other times */
  readonly prepareMs: number
  readonly prefillMs: number
  readonly prefillTokensPerSecond: number
  readonly generatedTokens: number
  readonly decodeMs: number
  readonly decodeTokensPerSecond: number
  /** per generated token after the first */
  readonly submissionsPerToken: number
  readonly dispatchesPerToken: number
  /** weights and cache are read besides; this is what crossed between host and device */
  readonly bytesPerToken: number
  /** messages to the GPU's framework, on devices that count them */
  readonly messagesPerToken?: number
}

export interface GenerationResult {
  readonly text: string
  readonly tokens: readonly number[]
  readonly finishReason: FinishReason
  /** the stop string that ended it, if one did */
  readonly stopped?: string
  readonly stats: GenerationStats
}

/** What a generation needs from its model. */
export interface Host {
  readonly engine: Engine
  readonly tokenizer: Tokenizer | undefined
  /** Runs `work` when the model is free. */
  exclusively<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
}

export class Generation implements AsyncIterable<string>, PromiseLike<GenerationResult> {
  readonly #host: Host
  readonly #prompt: readonly number[]
  readonly #options: GenerateOptions
  readonly #cancel = new AbortController()
  #pieces: string[] = []
  #wake: (() => void) | undefined
  #result: Promise<GenerationResult> | undefined
  #over = false

  /** Options are checked here, at once, not when the work starts. */
  constructor(host: Host, prompt: readonly number[], options: GenerateOptions) {
    this.#host = host
    this.#prompt = prompt
    this.#options = options
    samplerNeeds(options)
    createStopMatcher(stopsOf(options))
    const { maxTokens } = options
    if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens >= 0)) {
      throw new IngotError('bad-argument', 'maxTokens must be a whole number', { op: 'generate', got: maxTokens })
    }
    if (prompt.length === 0)
      throw new IngotError('bad-argument', 'the prompt is empty', { op: 'generate', hint: 'give at least one token' })
  }

  // oxlint-disable-next-line unicorn/no-thenable -- awaiting it is the point
  then<A = GenerationResult, B = never>(
    resolved?: ((value: GenerationResult) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#start().then(resolved, rejected)
  }

  /** Pieces of text as they are certain. Leaving the loop cancels. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, void> {
    const result = this.#start()
    result.catch(() => this.#wake?.())
    try {
      for (;;) {
        const pieces = this.#pieces.splice(0)
        yield* pieces
        if (pieces.length > 0) continue
        if (this.#over) break
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      await result
    } finally {
      this.cancel()
      await result.catch(() => {})
    }
  }

  /** Stops after the token being computed; what was written so far is the result. */
  cancel(): void {
    this.#cancel.abort()
  }

  #start(): Promise<GenerationResult> {
    this.#result ??= this.#host
      .exclusively(() => this.#run(), this.#options.signal)
      .finally(() => {
        this.#over = true
        this.#wake?.()
      })
    return this.#result
  }

  async #run(): Promise<GenerationResult> {
    const { engine, tokenizer } = this.#host
    const { signal, maxTokens = Infinity, ignoreEos = false } = this.#options
    signal?.throwIfAborted()
    // After special tokens only, a text begins: SPM's first word then loses its space, as it does in a text that is decoded whole.
    const continuation = this.#prompt.some((token) => tokenizer?.isSpecial(token) === false)
    const text = new TextOut(tokenizer?.stream({ continuation }), stopsOf(this.#options), (piece) => this.#emit(piece))
    const tokens: number[] = []
    const cachedTokens = engine.rewind(this.#prompt)
    const time: Times = { begun: performance.now(), prepared: undefined, decodeFrom: undefined }
    let before = { ...engine.device.stats }
    let finishReason: FinishReason = 'length'
    const source = this.#tokens(cachedTokens, maxTokens, {
      prepared: () => {
        time.prepared = performance.now()
      },
      first: () => {
        time.decodeFrom = performance.now()
        before = { ...engine.device.stats }
      },
    })
    for await (const token of untilCancelled(source, this.#cancel.signal)) {
      signal?.throwIfAborted()
      const ends = !ignoreEos && tokenizer?.isEndOfGeneration(token) === true
      if (ends) {
        finishReason = 'stop'
        break
      }
      tokens.push(token)
      if (text.push(token)) {
        finishReason = 'stop'
        break
      }
      if (this.#cancel.signal.aborted) {
        finishReason = 'cancelled'
        break
      }
      if (tokens.length >= maxTokens) break
    }
    if (this.#cancel.signal.aborted && finishReason === 'length' && tokens.length < maxTokens) finishReason = 'cancelled'
    text.flush()
    return {
      text: text.all,
      tokens,
      finishReason,
      ...(text.stopped === undefined ? {} : { stopped: text.stopped }),
      stats: measure(this.#prompt.length, cachedTokens, tokens.length, time, before, engine.device.stats),
    }
  }

  /** Tokens one by one, by the cheapest way the sampler allows. */
  async *#tokens(cached: number, most: number, on: { prepared(): void; first(): void }): AsyncGenerator<number, void, void> {
    const { engine } = this.#host
    const { signal: outer } = this.#options
    const signal = outer === undefined ? this.#cancel.signal : AbortSignal.any([outer, this.#cancel.signal])
    if (most === 0) return
    const needs = samplerNeeds(this.#options)
    const want = typeof needs === 'object' ? { topK: Math.min(needs.topK, engine.model.vocabulary) } : needs
    const sampler = createSampler(this.#options)
    const history = [...this.#prompt]
    const choose = (answer: Answer): number => {
      if (answer.kind === 'token') return answer.token
      return answer.kind === 'logits'
        ? sampler(answer.logits, history)
        : sampler.fromCandidates({ ids: Int32Array.from(answer.ids), logits: answer.logits })
    }
    signal.throwIfAborted()
    const rest = this.#prompt.slice(cached)
    await engine.prepare(most > 1 ? [rest.length, 1] : [rest.length], want)
    on.prepared()
    let token = choose(await engine.prefill(rest, want, signal))
    on.first()
    yield token
    if (want === 'argmax') {
      if (most > 1 && engine.length < engine.options.capacity) yield* engine.greedy(token, most - 1)
      return
    }
    while (engine.length < engine.options.capacity) {
      history.push(token)
      token = choose(await engine.step(token, want))
      yield token
    }
  }

  #emit(piece: string): void {
    if (piece === '') return
    this.#pieces.push(piece)
    this.#wake?.()
  }
}

/** Text of the tokens so far, held back where a stop string might be beginning. */
class TextOut {
  all = ''
  stopped: string | undefined
  readonly #decoder
  readonly #matcher
  readonly #emit: (piece: string) => void

  constructor(decoder: StreamDecoder | undefined, stops: readonly string[], emit: (piece: string) => void) {
    this.#decoder = decoder
    this.#matcher = createStopMatcher(stops)
    this.#emit = emit
  }

  /** True when a stop string is complete. */
  push(token: number): boolean {
    const { emit, stopped } = this.#matcher.push(this.#decoder?.push(token) ?? '')
    this.#add(emit)
    this.stopped = stopped
    return stopped !== undefined
  }

  flush(): void {
    if (this.stopped !== undefined) return
    const { emit, stopped } = this.#matcher.push(this.#decoder?.flush() ?? '')
    this.#add(emit)
    this.stopped = stopped
    this.#add(this.#matcher.flush())
  }

  #add(piece: string): void {
    this.all += piece
    this.#emit(piece)
  }
}

/** The tokens, and a quiet end where the prompt's work is broken off by a cancel. */
async function* untilCancelled(tokens: AsyncGenerator<number, void, void>, cancel: AbortSignal): AsyncGenerator<number, void, void> {
  try {
    yield* tokens
  } catch (error) {
    if (!cancel.aborted || error !== cancel.reason) throw error
  }
}

function stopsOf({ stop = [] }: GenerateOptions): readonly string[] {
  return typeof stop === 'string' ? [stop] : stop
}

/** Moments, in milliseconds; what was not reached is undefined. */
interface Times {
  readonly begun: number
  prepared: number | undefined
  decodeFrom: number | undefined
}

function measure(
  promptTokens: number,
  cachedTokens: number,
  generatedTokens: number,
  time: Times,
  before: Engine['device']['stats'],
  after: Engine['device']['stats'],
): GenerationStats {
  const ended = performance.now()
  const { begun, prepared = ended, decodeFrom = ended } = time
  const [prepareMs, prefillMs, decodeMs] = [prepared - begun, decodeFrom - prepared, ended - decodeFrom]
  const steps = Math.max(0, generatedTokens - 1)
  const per = (count: number): number => (steps === 0 ? 0 : count / steps)
  return {
    promptTokens,
    cachedTokens,
    prepareMs,
    prefillMs,
    generatedTokens,
    decodeMs,
    prefillTokensPerSecond: prefillMs > 0 ? ((promptTokens - cachedTokens) / prefillMs) * 1000 : 0,
    decodeTokensPerSecond: decodeMs > 0 ? (steps / decodeMs) * 1000 : 0,
    submissionsPerToken: per(after.submissions - before.submissions),
    dispatchesPerToken: per(after.dispatches - before.dispatches),
    bytesPerToken: per(after.bytesWritten + after.bytesRead - before.bytesWritten - before.bytesRead),
    ...(after.messages === undefined ? {} : { messagesPerToken: per(after.messages - (before.messages ?? 0)) }),
  }
}
