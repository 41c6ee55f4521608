// One sequence of tokens on a device: its cache, its plans, and what is in the cache now. Feeds tokens through the model in chunks,
// then gives one token per step. Knows ids and logits only: no text, no options, no queue.
//
// A step of decoding is one submission. Where the device chooses the token (the best one, or one drawn from the best few), it writes
// the token and the next position itself, so the next step needs nothing from the host and may be submitted before the last one is
// read. The largest logit comes back with the token: where a model computes garbage, it is no number (kernel/select/float-order.ts),
// and that is an error.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Device } from '../device/device.ts'
import { type CacheType, cacheBytes } from '../kernel/attention/cache-type.ts'
import { DRAW_RULE, type DrawRule, ruleWords } from '../kernel/select/draw.ts'
import type { LanguageModel } from '../model/model.ts'
import type { LayerCache } from '../nn/cache.ts'
import { operandsFirst } from '../tensor/graph.ts'
import { type Plan, type PlanSpec, assignment, buildPlan } from '../tensor/plan.ts'
import { Storage } from '../tensor/storage.ts'
import { Tensor } from '../tensor/tensor.ts'
import { type SamplerInput, type SamplerNeeds, noNumber } from './sample.ts'

export interface EngineOptions {
  /** positions the cache holds */
  readonly capacity: number
  readonly cacheType: CacheType
  /** most tokens of one prefill submission */
  readonly chunk: number
}

/** Gets rows of results as they are computed, with the index of the first; the next are computed when it is done with them. */
export type OnRows = (rows: Float32Array, from: number) => void | Promise<void>

/** What a plan brings back: for the last token what a sampler needs, nothing, or a row for every token. */
type Output = SamplerNeeds | 'none' | 'all-logits' | 'hidden'

interface Inputs {
  /** [n] ids */
  readonly tokens: Tensor
  /** [n] */
  readonly positions: Tensor
  /** [1]: the row whose logits are wanted */
  readonly last: Tensor
  /** how tokens are drawn, where they are */
  readonly rule: Tensor
  readonly buffers: Readonly<Record<'tokens' | 'positions' | 'last' | 'rule', BufferHandle>>
}

interface PlanWithInputs {
  readonly plan: Plan
  readonly inputs: Inputs
}

/** Plans of this many different lengths are kept; a chat's prompts repeat few. */
const PLANS_KEPT = 24

/** A model, its cache and its plans on a device. One thing at a time: wait for each call before the next. */
export class Engine {
  readonly device: Device
  readonly options: EngineOptions
  #model: LanguageModel
  /** models that there are plans for, by number */
  readonly #numbers = new WeakMap<LanguageModel, number>()
  #counted = 0
  readonly #cache: readonly LayerCache[]
  readonly #owned: BufferHandle[] = []
  readonly #plans = new Map<string, Promise<PlanWithInputs>>()
  /** tokens whose keys and values lie in the cache, by position */
  #tokens: number[] = []

  constructor(device: Device, model: LanguageModel, options: EngineOptions) {
    this.device = device
    this.#model = model
    this.options = options
    this.#cache = this.#allocCache()
  }

  get model(): LanguageModel {
    return this.#model
  }
  /** Goes on with another model over the same weights: one with other adapters. What is in the cache is of no use to it. */
  use(model: LanguageModel): void {
    if (model === this.#model) return
    this.#model = model
    this.#tokens.length = 0
  }

  /** tokens in the cache */
  get length(): number {
    return this.#tokens.length
  }
  get cacheBytes(): number {
    return cacheBytesOf(this.model, this.options)
  }

  /** Keeps what the cache shares with `tokens` and forgets the rest; gives the number kept, at most one less than asked for. */
  rewind(tokens: readonly number[]): number {
    let shared = 0
    while (shared < tokens.length - 1 && shared < this.#tokens.length && this.#tokens[shared] === tokens[shared]) shared++
    this.#tokens.length = shared
    return shared
  }

  /** Makes the plans for feeding as many tokens as each of the counts says, so that the work itself need not wait for compilers. */
  async prepare(counts: readonly number[], needs: SamplerNeeds): Promise<void> {
    const { chunk } = this.options
    for (const count of counts) {
      if (count > chunk) await this.#plan(chunk, 'none')
      if (count > 0) await this.#plan(count % chunk || chunk, needs)
    }
  }

  /** Feeds tokens after those in the cache; gives what a sampler needs to choose the token after the last one. */
  async prefill(tokens: readonly number[], needs: SamplerNeeds, signal?: AbortSignal): Promise<SamplerInput> {
    this.#check(tokens)
    if (tokens.length === 0) throw new IngotError('bad-argument', 'nothing to feed', { op: 'prefill', got: 'no tokens' })
    const { chunk } = this.options
    const lastChunk = tokens.length - (tokens.length % chunk || chunk)
    for (let at = 0; at < lastChunk; at += chunk) {
      signal?.throwIfAborted()
      await this.#run(tokens.slice(at, at + chunk), 'none')
    }
    signal?.throwIfAborted()
    const results = await this.#run(tokens.slice(lastChunk), needs)
    return choosesOnDevice(needs) ? { kind: 'token', token: this.#chosen(results, needs) } : samplerInput(needs, only(results))
  }

  /** Feeds tokens and calls back with the logits of every position, chunk by chunk: [rows, vocabulary]. */
  async evaluate(tokens: readonly number[], onRows: OnRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, 'all-logits', onRows, signal)
  }

  /** Feeds tokens and calls back with the hidden states of every position: [rows, width]. */
  async embed(tokens: readonly number[], onRows: OnRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, 'hidden', onRows, signal)
  }

  /** Feeds one token; gives what a sampler needs to choose the next. */
  step(token: number, needs: SamplerNeeds): Promise<SamplerInput> {
    return this.prefill([token], needs)
  }

  /** Decoding after `token`: yields one token per step, at most `most`, each submitted before the one before it is read. */
  async *decode(token: number, needs: ChosenOnDevice, most = Infinity): AsyncGenerator<number, void, void> {
    this.#check([token])
    const { plan, inputs } = await this.#plan(1, needs)
    this.#write(inputs, [token], needs)
    this.#tokens.push(token)
    let running = plan.run()
    try {
      for (let given = 1; ; given++) {
        const room = given < most && this.#tokens.length < this.options.capacity
        const next = room ? plan.run() : undefined
        next?.catch(() => {}) // awaited below, or not at all if this generator is left
        const chosen = this.#chosen(await running, needs)
        yield chosen
        if (next === undefined) return
        this.#tokens.push(chosen)
        running = next
      }
    } finally {
      await this.device.sync().catch(() => {}) // the step ahead must not write into what comes next
    }
  }

  /** Labelled intermediate tensors of one pass over `tokens`, in order of computation. */
  async trace(tokens: readonly number[]): Promise<{ label: string; shape: readonly number[]; values: Float32Array }[]> {
    this.#check(tokens)
    const inputs = this.#inputs(tokens.length)
    let plan: Plan | undefined
    try {
      const logits = this.model.logits(this.model.forward({ tokens: inputs.tokens, positions: inputs.positions, cache: this.#cache }))
      const watched = labelled(logits)
      plan = await buildPlan(this.device, { reads: watched })
      this.#write(inputs, tokens, 'all-logits')
      const results = await plan.run()
      this.#tokens.push(...tokens)
      return watched.map((tensor, i) => ({
        label: tensor.node.label ?? tensor.node.op,
        shape: tensor.shape,
        values: readFloats(only(results.slice(i))),
      }))
    } finally {
      plan?.[Symbol.dispose]()
      this.#freeInputs(inputs)
    }
  }

  /** Waits for what is under way, and frees the cache and the plans; not the weights. */
  async close(): Promise<void> {
    await this.device.sync().catch(() => {})
    await Promise.all([...this.#plans.values()].map((building) => this.#discard(building)))
    this.#plans.clear()
    for (const buffer of this.#owned.splice(0)) this.device.free(buffer)
  }

  async #discard(building: Promise<PlanWithInputs>): Promise<void> {
    const built = await building.catch(() => undefined)
    if (built === undefined) return
    built.plan[Symbol.dispose]()
    this.#freeInputs(built.inputs)
  }

  #freeInputs({ buffers }: Inputs): void {
    for (const buffer of Object.values(buffers)) this.device.free(buffer)
  }

  async #feed(tokens: readonly number[], output: Output, onRows: OnRows, signal?: AbortSignal): Promise<void> {
    this.#check(tokens)
    for (let at = 0; at < tokens.length; at += this.options.chunk) {
      signal?.throwIfAborted()
      const results = await this.#run(tokens.slice(at, at + this.options.chunk), output)
      await onRows(readFloats(only(results)), at)
    }
  }

  async #run(tokens: readonly number[], output: Output): Promise<Uint8Array[]> {
    const { plan, inputs } = await this.#plan(tokens.length, output)
    this.#write(inputs, tokens, output)
    const results = await plan.run()
    this.#tokens.push(...tokens)
    return results
  }

  #plan(count: number, output: Output): Promise<PlanWithInputs> {
    const what = typeof output === 'object' ? `${output.rule === undefined ? 'top' : 'drawn from'} ${output.topK}` : output
    const key = `${this.#modelNumber()} ${count} ${what}`
    const known = this.#plans.get(key)
    if (known !== undefined) {
      this.#plans.delete(key) // to the end: the first key is the one longest unused
      this.#plans.set(key, known)
      return known
    }
    const building = this.#build(count, output)
    this.#plans.set(key, building)
    building.catch(() => this.#plans.delete(key))
    const [oldest] = this.#plans
    if (this.#plans.size > PLANS_KEPT && oldest !== undefined) {
      this.#plans.delete(oldest[0])
      void this.#discard(oldest[1])
    }
    return building
  }

  #modelNumber(): number {
    const number = this.#numbers.get(this.#model) ?? this.#counted++
    this.#numbers.set(this.#model, number)
    return number
  }

  async #build(count: number, output: Output): Promise<PlanWithInputs> {
    const inputs = this.#inputs(count)
    try {
      const hidden = this.model.forward({ tokens: inputs.tokens, positions: inputs.positions, cache: this.#cache })
      return { plan: await buildPlan(this.device, this.#spec(hidden, inputs, count, output)), inputs }
    } catch (error) {
      this.#freeInputs(inputs)
      throw error
    }
  }

  #spec(hidden: Tensor, inputs: Inputs, count: number, output: Output): PlanSpec {
    if (output === 'none') return { effects: [hidden] }
    if (output === 'hidden') return { reads: [hidden] }
    if (output === 'all-logits') return { reads: [this.model.logits(hidden)] }
    const logits = this.model.logits(count === 1 ? hidden : hidden.embedding(inputs.last)) // [1, vocabulary]
    if (output === 'logits') return { reads: [logits] }
    const best = typeof output === 'object' ? logits.candidates(output.topK) : undefined
    if (best !== undefined && !choosesOnDevice(output)) return { reads: [best] }
    const token = best?.draw(inputs.rule, inputs.positions) ?? logits.argmax()
    const reads = [token, best ?? logits.reshape(this.model.vocabulary, 1).embedding(token)]
    // After a single token the plan prepares its own next run.
    return count === 1
      ? { reads, effects: [assignment(inputs.positions, inputs.positions.add(1)), assignment(inputs.tokens, token)] }
      : { reads }
  }

  #inputs(count: number): Inputs {
    const alloc = (words: number): BufferHandle => this.device.alloc(4 * words)
    const buffers = { tokens: alloc(count), positions: alloc(count), last: alloc(1), rule: alloc(DRAW_RULE.words) }
    this.device.write(buffers.last, 0, new Uint8Array(Uint32Array.of(count - 1).buffer))
    return {
      tokens: Tensor.over(buffers.tokens, [count], 'u32', 'tokens'),
      positions: Tensor.over(buffers.positions, [count], 'u32', 'positions'),
      last: Tensor.over(buffers.last, [1], 'u32', 'last'),
      rule: Tensor.over(buffers.rule, [DRAW_RULE.words], 'u32', 'rule'),
      buffers,
    }
  }

  #write({ buffers }: Inputs, tokens: readonly number[], output: Output): void {
    const write = (buffer: BufferHandle, words: Uint32Array): void => this.device.write(buffer, 0, new Uint8Array(words.buffer))
    write(buffers.tokens, Uint32Array.from(tokens))
    write(
      buffers.positions,
      Uint32Array.from(tokens, (_, i) => this.#tokens.length + i),
    )
    if (typeof output === 'object' && output.rule !== undefined) write(buffers.rule, ruleWords(output.rule))
  }

  #check(tokens: readonly number[]): void {
    if (this.#tokens.length + tokens.length > this.options.capacity) {
      throw new IngotError('too-large', 'the tokens do not fit the context', {
        op: 'prefill',
        got: this.#tokens.length + tokens.length,
        wanted: `at most ${this.options.capacity}`,
        hint: 'load with a larger contextLength',
      })
    }
    const bad = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= this.model.vocabulary)
    if (bad !== undefined)
      throw new IngotError('bad-argument', 'no such token', { op: 'prefill', got: bad, wanted: `0 to ${this.model.vocabulary - 1}` })
  }

  /** The token that a plan chose. What led to one that is none is forgotten: its keys and values are garbage too. */
  #chosen([token, best]: readonly Uint8Array[], needs: ChosenOnDevice): number {
    const largest = needs === 'argmax' ? 0 : 4 * needs.topK // candidates are ids, then logits
    const [id, value] = [wordsOf(token).getUint32(0, true), wordsOf(best).getFloat32(largest, true)]
    if (id < this.model.vocabulary && Number.isFinite(value)) return id
    this.#tokens.length = 0
    throw noNumber(`logit ${id}`, value)
  }

  #allocCache(): LayerCache[] {
    const { layers, heads, dim } = this.model.cache
    const { capacity, cacheType } = this.options
    const alloc = (label: string): Tensor => {
      const buffer = this.device.alloc(cacheBytes(cacheType, heads * capacity * dim))
      this.#owned.push(buffer)
      return Tensor.cache(new Storage('cache', buffer), [heads, capacity, dim], cacheType, label)
    }
    try {
      return Array.from({ length: layers }, (_, i) => ({ keys: alloc(`keys ${i}`), values: alloc(`values ${i}`) }))
    } catch (error) {
      for (const buffer of this.#owned.splice(0)) this.device.free(buffer)
      throw error
    }
  }
}

/** What the cache of a model takes, keys and values of all layers. */
export function cacheBytesOf({ cache }: LanguageModel, { capacity, cacheType }: Pick<EngineOptions, 'capacity' | 'cacheType'>): number {
  return 2 * cache.layers * cacheBytes(cacheType, cache.heads * cache.dim * capacity)
}

/** What a device chooses without the host. */
export type ChosenOnDevice = 'argmax' | { readonly topK: number; readonly rule: DrawRule }

export function choosesOnDevice(output: Output): output is ChosenOnDevice {
  return output === 'argmax' || (typeof output === 'object' && output.rule !== undefined)
}

function samplerInput(needs: Exclude<SamplerNeeds, 'argmax'>, bytes: Uint8Array): SamplerInput {
  if (needs === 'logits') return { kind: 'logits', logits: readFloats(bytes) }
  // The k ids lie before their k logits.
  const { buffer } = bytes.slice()
  return { kind: 'candidates', ids: new Int32Array(buffer, 0, needs.topK), logits: new Float32Array(buffer, 4 * needs.topK, needs.topK) }
}

/** The first of the results that a run brought back; each plan that is asked for one has one. */
function only([bytes]: readonly Uint8Array[]): Uint8Array {
  if (bytes === undefined) throw new IngotError('device-failed', 'the device brought nothing back', { op: 'engine' })
  return bytes
}

function wordsOf(bytes: Uint8Array | undefined): DataView {
  const { buffer, byteOffset, byteLength } = only(bytes === undefined ? [] : [bytes])
  return new DataView(buffer, byteOffset, byteLength)
}

/** A copy: what a device gives may lie at any offset of memory that it uses again. */
function readFloats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer)
}

/** The tensors with labels below one, operands first. */
function labelled(root: Tensor): Tensor[] {
  return operandsFirst([root.node]).flatMap((node) => (node.op !== 'leaf' && node.label !== undefined ? [new Tensor(node)] : []))
}
