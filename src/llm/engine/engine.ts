// A model at work on a device: its memory, its steps, and those who use them. Requests that come at the same time share steps
// (scheduler.ts). Beside that, one sequence can be driven by hand, for those who evaluate, measure or debug: while nothing else runs. Knows
// ids and logits only: no text, no options of users.

import { IngotError } from '../../base/error.ts'
import type { Device } from '../../device/device.ts'
import type { CacheType } from '../../kernel/attention/cache-type.ts'
import { PAGE, pagesFor } from '../../kernel/attention/pages.ts'
import type { LanguageModel } from '../../model/model.ts'
import type { SamplerInput, SamplerNeeds } from '../sample.ts'
import { type ChosenOnDevice, chosenToken, outputFor, ruleOf, samplerInput } from './choice.ts'
import { sharedShape } from './compose.ts'
import { PagePool } from './page-pool.ts'
import { PrefixStore } from './prefix-store.ts'
import { type Output, type Row, Runner, type Step, choicesOf, floatsOf } from './runner.ts'
import { Scheduler } from './scheduler.ts'
import { Sequence } from './sequence.ts'
import { DeviceState, stateBytes } from './state.ts'

export interface EngineOptions {
  /** tokens a sequence may have */
  readonly capacity: number
  readonly cacheType: CacheType
  /** most tokens of prompts in one submission */
  readonly chunk: number
  /** tokens that the caches hold, of all sequences together (default: `capacity`; where that is little, as much as several need) */
  readonly cacheTokens?: number
  /** sequences that are computed together at the most (default 8) */
  readonly parallel?: number
}

/** Sequences of a step, where nobody says how many. */
const DEFAULT_PARALLEL = 8
/** Tokens for all of them, where nobody says how many and one sequence cannot have so many: short contexts need not wait for each other. */
const LEAST_TOKENS = 4096

/** Gets rows of results as they are computed, with the index of the first; the next are computed when it is done with them. */
export type OnRows = (rows: Float32Array, from: number) => void | Promise<void>

/** The pages that an engine with these options has: whole ones, and one that fills up steps. */
function pagesOf({ capacity, cacheTokens, parallel = DEFAULT_PARALLEL }: EngineOptions): number {
  const wanted = cacheTokens ?? Math.min(LEAST_TOKENS, parallel * PAGE * pagesFor(capacity))
  return pagesFor(Math.max(capacity, wanted)) + 1
}

/** What the caches of a model take. */
export function cacheBytesOf({ state }: LanguageModel, options: EngineOptions): number {
  return stateBytes(state, { pages: pagesOf(options), cacheType: options.cacheType })
}

/** A model, its caches and its plans on a device. What is driven by hand is one thing at a time: wait for each call before the next. */
export class Engine {
  readonly device: Device
  readonly options: EngineOptions
  readonly scheduler: Scheduler
  #model: LanguageModel
  readonly #state: DeviceState
  readonly #runner: Runner
  readonly #prefixes = new PrefixStore()
  /** the sequence that is driven by hand, and its slot */
  readonly #sequence: Sequence
  readonly #slot: number

  constructor(device: Device, model: LanguageModel, options: EngineOptions) {
    const { capacity, cacheType, chunk, parallel = DEFAULT_PARALLEL } = options
    this.device = device
    this.options = options
    this.#model = model
    this.#slot = parallel + 1
    const pages = pagesOf(options)
    this.#state = new DeviceState(device, model.state, { context: capacity, pages, slots: parallel + 1, cacheType })
    this.#runner = new Runner(device, this.#state)
    const pool = new PagePool(pages)
    this.#sequence = new Sequence(pool)
    const spare = (): boolean => {
      const had = this.#sequence.pages.length > 0
      this.#sequence.release()
      return had
    }
    this.scheduler = new Scheduler({ runner: this.#runner, pool, prefixes: this.#prefixes, context: capacity, chunk, parallel, spare })
  }

  get model(): LanguageModel {
    return this.#model
  }
  /** From now on, requests and what is driven by hand have another model over the same weights: one with other adapters. */
  use(model: LanguageModel): void {
    if (model === this.#model) return
    this.#model = model
    this.#sequence.release()
  }

  /** tokens of the sequence that is driven by hand */
  get length(): number {
    return this.#sequence.length
  }
  get cacheBytes(): number {
    return cacheBytesOf(this.model, this.options)
  }

  /** Keeps what the sequence shares with `tokens` and forgets the rest; gives the number kept, at most one less than asked for. */
  rewind(tokens: readonly number[]): number {
    this.#sequence.rewind(this.#sequence.sharedWith(tokens.slice(0, -1)))
    return this.#sequence.length
  }

  /**
   * Makes the plans for feeding as many tokens as each of the counts says, so that the work itself need not wait for compilers; `beside`:
   * while so many other sequences go on.
   */
  async prepare(counts: readonly number[], needs: SamplerNeeds, beside = 0): Promise<void> {
    const { chunk } = this.options
    if (beside > 0) {
      for (const count of counts) await this.#runner.prepare(this.#model, sharedShape(Math.min(count, chunk), beside, needs))
      return
    }
    const plan = (rows: number, output: Output): Promise<void> =>
      this.#runner.prepare(this.#model, { rows, apart: rows === 1 ? 1 : 0, output, chosen: output.kind === 'choose' ? 1 : 0 })
    for (const count of counts) {
      if (count > chunk) await plan(chunk, { kind: 'none' })
      if (count > 0) await plan(count % chunk || chunk, outputFor([needs]))
    }
  }

  /** Feeds tokens after those in the cache; gives what a sampler needs to choose the token after the last one. */
  async prefill(tokens: readonly number[], needs: SamplerNeeds, signal?: AbortSignal): Promise<SamplerInput> {
    await this.#make(tokens)
    if (tokens.length === 0) throw new IngotError('bad-argument', 'nothing to feed', { op: 'prefill', got: 'no tokens' })
    const { chunk } = this.options
    const lastChunk = tokens.length - (tokens.length % chunk || chunk)
    for (let at = 0; at < lastChunk; at += chunk) {
      signal?.throwIfAborted()
      await this.#run(tokens.slice(at, at + chunk), { kind: 'none' })
    }
    signal?.throwIfAborted()
    const step = this.#step(tokens.slice(lastChunk), outputFor([needs]), needs)
    const [choice] = choicesOf(await this.#runner.run(this.#model, step), step)
    this.#sequence.push(...tokens.slice(lastChunk))
    return this.#orForget(() => samplerInput(needs, choice, this.#model.vocabulary))
  }

  /** Feeds tokens and calls back with the logits of every position, chunk by chunk: [rows, vocabulary]. */
  async evaluate(tokens: readonly number[], onRows: OnRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, { kind: 'all-logits' }, onRows, signal)
  }

  /** Feeds tokens and calls back with the hidden states of every position: [rows, width]. */
  async embed(tokens: readonly number[], onRows: OnRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, { kind: 'hidden' }, onRows, signal)
  }

  /** Feeds one token; gives what a sampler needs to choose the next. */
  step(token: number, needs: SamplerNeeds): Promise<SamplerInput> {
    return this.prefill([token], needs)
  }

  /** Decoding after `token`: yields one token per step, at most `most`, each submitted before the one before it is read. */
  async *decode(token: number, needs: ChosenOnDevice, most = Infinity): AsyncGenerator<number, void, void> {
    await this.#make([token])
    const step = this.#step([token], outputFor([needs]), needs)
    const submit = await this.#runner.begin(this.#model, step)
    this.#sequence.push(token)
    let running = submit()
    try {
      for (let given = 1; ; given++) {
        const room = given < most && this.#sequence.length < this.options.capacity
        if (room) await this.#reserve(this.#sequence.length + 1)
        const next = room ? submit() : undefined
        next?.catch(() => {}) // awaited below, or not at all if this generator is left
        const [choice] = choicesOf(await running, step)
        const chosen = this.#orForget(() => chosenToken(choice, this.#model.vocabulary))
        yield chosen
        if (next === undefined) return
        this.#sequence.push(chosen)
        running = next
      }
    } finally {
      await this.device.sync().catch(() => {}) // the step ahead must not write into what comes next
    }
  }

  /** Labelled intermediate tensors of one pass over `tokens`, in order of computation. */
  async trace(tokens: readonly number[]): ReturnType<Runner['trace']> {
    await this.#make(tokens)
    const traced = await this.#runner.trace(this.#model, this.#rows(tokens))
    this.#sequence.push(...tokens)
    return traced
  }

  /** Waits for what is under way, and frees the caches and the plans; not the weights. */
  async close(): Promise<void> {
    await this.#runner.close()
    this.#state.close()
  }

  async #feed(tokens: readonly number[], output: Output, onRows: OnRows, signal?: AbortSignal): Promise<void> {
    await this.#make(tokens)
    for (let at = 0; at < tokens.length; at += this.options.chunk) {
      signal?.throwIfAborted()
      const [rows] = await this.#run(tokens.slice(at, at + this.options.chunk), output)
      await onRows(floatsOf(rows), at)
    }
  }

  async #run(tokens: readonly number[], output: Output): Promise<Uint8Array[]> {
    const results = await this.#runner.run(this.#model, this.#step(tokens, output))
    this.#sequence.push(...tokens)
    return results
  }

  #step(tokens: readonly number[], output: Output, needs?: SamplerNeeds): Step {
    const chosen = needs === undefined ? [] : [{ row: tokens.length - 1, rule: ruleOf(needs) }]
    return { rows: this.#rows(tokens), apart: tokens.length === 1 ? 1 : 0, output, chosen }
  }

  #rows(tokens: readonly number[]): Row[] {
    return Array.from(tokens, (token, i) => ({ token, position: this.#sequence.length + i, slot: this.#slot }))
  }

  /** Checks tokens, and makes room for them. */
  async #make(tokens: readonly number[]): Promise<void> {
    const { capacity } = this.options
    checkTokens(tokens, this.#model.vocabulary)
    if (this.#sequence.length + tokens.length > capacity) throw tooLong(this.#sequence.length + tokens.length, capacity)
    await this.#reserve(this.#sequence.length + tokens.length)
  }

  async #reserve(length: number): Promise<void> {
    const copies = this.scheduler.reserve(this.#sequence, length)
    if (copies === undefined) throw new IngotError('too-large', 'other sequences have the cache', { op: 'prefill', got: length })
    await this.#state.copy(copies)
    this.#state.setPages(this.#slot, this.#sequence.pages)
  }

  /** What led to garbage is forgotten: its keys and values are garbage too. */
  #orForget<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      void this.#state.clear(this.#sequence.pages).catch(() => {})
      this.#sequence.release()
      throw error
    }
  }
}

/** Throws `bad-argument` for what are no tokens. */
export function checkTokens(tokens: readonly number[], vocabulary: number): void {
  const bad = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= vocabulary)
  if (bad !== undefined)
    throw new IngotError('bad-argument', 'no such token', { op: 'prefill', got: bad, wanted: `0 to ${vocabulary - 1}` })
}

/** What is said of more tokens than a sequence may have. */
export function tooLong(got: number, capacity: number): IngotError {
  return new IngotError('too-large', 'the tokens do not fit the context', {
    op: 'prefill',
    got,
    wanted: `at most ${capacity}`,
    hint: 'load with a larger contextLength',
  })
}
