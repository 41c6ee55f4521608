// A generation: text that a model writes after a prompt, awaited whole or iterated as it comes. The work starts when somebody first
// asks for it; leaving the loop or aborting the signal stops it. Knows the way of a token from the engine to the reader; what is computed
// together with what is the scheduler's matter.

import { IngotError } from '../base/error.ts'
import { MOST_CHOSEN } from '../kernel/select/topk.ts'
import { type Engine, checkTokens, tooLong } from './engine/engine.ts'
import { type FinishReason, GenerationOutput } from './generation-output.ts'
import { type GenerationStats, StatsRecorder } from './generation-stats.ts'
import { type SampleOptions, type Sampler, type SamplerInput, type SamplerNeeds, createSampler } from './sample.ts'
import { createStopMatcher } from './stop.ts'
import type { Tokenizer } from './tokenizer/tokenizer.ts'

/** How to generate: when to stop, and how to choose tokens. */
export interface GenerateOptions extends SampleOptions {
  /** at most this many tokens (default: until the context is full) */
  readonly maxTokens?: number
  /** text that ends the generation and is not part of it; not empty */
  readonly stop?: string | readonly string[]
  /** true: continue after tokens with which the model ends its text (default false) */
  readonly ignoreEos?: boolean
  /**
   * true: computed alone and from the first token on, so that no bit depends on what else the model does (default false: generations that
   * overlap share steps, whose sums may be rounded otherwise in the last bits)
   */
  readonly deterministic?: boolean
  /** aborting it rejects the result with its reason; to keep what was written so far, call `cancel` instead */
  readonly signal?: AbortSignal
}

/** A finished generation. */
export interface GenerationResult {
  /** without the prompt, special tokens and the stop string; empty for models without a tokenizer */
  readonly text: string
  /** without the prompt and the token that ended it; the text of the last ones may be part of the stop string */
  readonly tokens: readonly number[]
  readonly finishReason: FinishReason
  /** the stop string that ended it, if one did */
  readonly stopped?: string
  readonly stats: GenerationStats
}

/** What a generation needs from its model. */
export interface ModelAccess {
  readonly engine: Engine
  readonly tokenizer: Tokenizer | undefined
  /** Throws `closed` where it is. */
  check(): void
}

/**
 * Text being generated, from `model.generate` or `model.chat`. Awaiting it gives the whole result; iterating it gives pieces of text
 * as they are certain, for one loop. Both may be done, and neither starts the work twice. Nothing happens before one of them is asked
 * for. Awaiting rejects with an IngotError where the prompt cannot be computed (`too-large`, `bad-argument`, or what the device
 * throws), and with the signal's reason where the signal is aborted; the loop throws the same.
 */
export class Generation implements AsyncIterable<string>, PromiseLike<GenerationResult> {
  readonly #access: ModelAccess
  readonly #prompt: readonly number[]
  readonly #options: GenerateOptions
  readonly #cancel = new AbortController()
  /** text that nobody has read yet */
  #pieces: string[] = []
  #wake: (() => void) | undefined
  #result: Promise<GenerationResult> | undefined
  #over = false

  /** Use `model.generate`. Options are checked here, at once, not when the work starts: throws `bad-argument`. */
  constructor(access: ModelAccess, prompt: readonly number[], options: GenerateOptions) {
    this.#access = access
    this.#prompt = prompt
    this.#options = options
    createSampler(options)
    createStopMatcher(stopsOf(options))
    const { maxTokens } = options
    if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens >= 0)) {
      throw new IngotError('bad-argument', 'maxTokens must be a whole number', { op: 'generate', got: maxTokens })
    }
    if (prompt.length === 0)
      throw new IngotError('bad-argument', 'the prompt is empty', { op: 'generate', hint: 'give at least one token' })
  }

  /** Starts the work unless it is under way; settles when the generation has ended. */
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

  /** Stops after the token being computed; what was written so far is the result, with the finish reason `cancelled`. */
  cancel(): void {
    this.#cancel.abort()
  }

  #start(): Promise<GenerationResult> {
    this.#result ??= this.#run().finally(() => {
      this.#over = true
      this.#wake?.()
    })
    return this.#result
  }

  async #run(): Promise<GenerationResult> {
    const { engine, check } = this.#access
    const { signal: outer, maxTokens = Infinity } = this.#options
    const cancel = this.#cancel.signal
    check()
    outer?.throwIfAborted()
    checkTokens(this.#prompt, engine.model.vocabulary)
    if (this.#prompt.length > engine.options.capacity) throw tooLong(this.#prompt.length, engine.options.capacity)
    const output = this.#output()
    let recorder = new StatsRecorder(engine.device, this.#prompt.length, 0)
    if (maxTokens > 0 && !cancel.aborted) {
      const sampler = createSampler(this.#options)
      const history = [...this.#prompt]
      const choose = createChooser(sampler, history)
      await engine.scheduler.run({
        model: engine.model,
        prompt: this.#prompt,
        needs: deviceNeeds(sampler.needs(this.#prompt.length - 1), engine.model.vocabulary),
        maxTokens,
        deterministic: this.#options.deterministic === true,
        signal: outer === undefined ? cancel : AbortSignal.any([outer, cancel]),
        begun: (cachedTokens) => {
          recorder = new StatsRecorder(engine.device, this.#prompt.length, cachedTokens)
        },
        prepared: () => recorder.prepared(),
        take: (input) => {
          const token = choose(input)
          if (outer?.aborted === true) return { token, more: false }
          if (output.tokens.length === 0) recorder.prefilled()
          history.push(token)
          return { token, more: output.push(token) }
        },
      })
      outer?.throwIfAborted()
    }
    return this.#conclude(output, recorder)
  }

  #conclude(output: GenerationOutput, recorder: StatsRecorder): GenerationResult {
    output.flush()
    const { text, tokens, finishReason, stopString } = output
    return {
      text,
      tokens,
      finishReason,
      ...(stopString === undefined ? {} : { stopped: stopString }),
      stats: recorder.finish(tokens.length),
    }
  }

  #output(): GenerationOutput {
    const { tokenizer } = this.#access
    const { maxTokens = Infinity, ignoreEos = false } = this.#options
    // After special tokens only, a text begins: SPM's first word then loses its space, as it does in a text that is decoded whole.
    const continuation = this.#prompt.some((token) => tokenizer?.isSpecial(token) === false)
    return new GenerationOutput({
      decoder: tokenizer?.stream({ continuation }),
      stops: stopsOf(this.#options),
      maxTokens,
      isEnd: (token) => !ignoreEos && tokenizer?.isEndOfGeneration(token) === true,
      cancel: this.#cancel.signal,
      emit: (piece) => {
        this.#pieces.push(piece)
        this.#wake?.()
      },
    })
  }
}

/** A function that chooses the next token from what the device brought back; `history` may grow between calls. */
function createChooser(sampler: Sampler, history: readonly number[]): (input: SamplerInput) => number {
  return (input) => {
    if (input.kind === 'token') return input.token
    return input.kind === 'logits' ? sampler(input.logits, history) : sampler.fromCandidates(input)
  }
}

/** What to read back: where a sampler wants more candidates than devices select, all logits. */
function deviceNeeds(needs: SamplerNeeds, vocabulary: number): SamplerNeeds {
  if (typeof needs !== 'object') return needs
  const topK = Math.min(needs.topK, vocabulary)
  return topK > MOST_CHOSEN ? 'logits' : { ...needs, topK }
}

function stopsOf({ stop = [] }: GenerateOptions): readonly string[] {
  return typeof stop === 'string' ? [stop] : stop
}
