// One sequence of tokens on a device: its cache, its plans, and what is in the cache now. Feeds tokens through the model in chunks,
// then gives one token per step. Knows ids and logits only: no text, no options, no queue.
//
// A step of decoding is one submission. For greedy decoding the token just chosen and the next position are written on the device,
// so the next step needs nothing from the host and may be submitted before the last one is read.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Device } from '../device/device.ts'
import type { LanguageModel } from '../model/model.ts'
import type { LayerCache } from '../nn/cache.ts'
import { type Plan, type PlanSpec, buildPlan } from '../tensor/plan.ts'
import { Tensor } from '../tensor/tensor.ts'

export interface EngineOptions {
  /** positions the cache holds */
  readonly capacity: number
  readonly cacheType: 'f32' | 'f16'
  /** most tokens of one prefill submission */
  readonly chunk: number
}

/** What a step brings back: the best token, the k best with their logits, or all logits. */
export type Want = 'argmax' | { readonly topK: number } | 'logits'
export type Answer =
  | { readonly kind: 'token'; readonly token: number }
  | { readonly kind: 'candidates'; readonly ids: Uint32Array; readonly logits: Float32Array }
  | { readonly kind: 'logits'; readonly logits: Float32Array }

/** Gets rows of results as they are computed, with the index of the first; the next are computed when it is done with them. */
export type EachRows = (rows: Float32Array, from: number) => void | Promise<void>

type Output = Want | 'none' | 'all-logits' | 'hidden'

interface Inputs {
  readonly tokens: Tensor
  readonly positions: Tensor
  readonly last: Tensor
  readonly buffers: readonly BufferHandle[]
}

/** Plans of this many different lengths are kept; a chat's prompts repeat few. */
const PLANS_KEPT = 24

export class Engine {
  readonly device: Device
  readonly model: LanguageModel
  readonly options: EngineOptions
  readonly #cache: readonly LayerCache[]
  readonly #owned: BufferHandle[] = []
  readonly #plans = new Map<string, Promise<{ plan: Plan; inputs: Inputs }>>()
  /** tokens whose keys and values lie in the cache, by position */
  #tokens: number[] = []

  constructor(device: Device, model: LanguageModel, options: EngineOptions) {
    this.device = device
    this.model = model
    this.options = options
    this.#cache = this.#allocCache()
  }

  get length(): number {
    return this.#tokens.length
  }
  get cacheBytes(): number {
    const { layers, heads, dim } = this.model.cache
    return 2 * layers * heads * dim * this.options.capacity * (this.options.cacheType === 'f16' ? 2 : 4)
  }

  /** Keeps what the cache shares with `tokens` and forgets the rest; gives the number kept, at most one less than asked for. */
  rewind(tokens: readonly number[]): number {
    let shared = 0
    while (shared < tokens.length - 1 && shared < this.#tokens.length && this.#tokens[shared] === tokens[shared]) shared++
    this.#tokens.length = shared
    return shared
  }

  /** Makes the plans for feeding so many tokens, for each of the counts, so that the work itself need not wait for compilers. */
  async prepare(counts: readonly number[], want: Want): Promise<void> {
    const { chunk } = this.options
    for (const count of counts) {
      if (count > chunk) await this.#plan(chunk, 'none')
      if (count > 0) await this.#plan(count % chunk || chunk, want)
    }
  }

  /** Feeds tokens after those in the cache and answers for the last one. */
  async prefill(tokens: readonly number[], want: Want, signal?: AbortSignal): Promise<Answer> {
    this.#check(tokens)
    let answer: Answer | undefined
    for (let at = 0; at < tokens.length; at += this.options.chunk) {
      signal?.throwIfAborted()
      const part = tokens.slice(at, at + this.options.chunk)
      const isLast = at + part.length === tokens.length
      const bytes = await this.#run(part, isLast ? want : 'none')
      if (isLast && bytes !== undefined) answer = answerOf(want, bytes)
    }
    if (answer === undefined) throw new IngotError('bad-argument', 'nothing to feed', { op: 'prefill', got: 'no tokens' })
    return answer
  }

  /** Feeds tokens and calls back with the logits of every position, chunk by chunk: [rows, vocabulary]. */
  async evaluate(tokens: readonly number[], each: EachRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, 'all-logits', each, signal)
  }

  /** Feeds tokens and calls back with the hidden states of every position: [rows, width]. */
  async embed(tokens: readonly number[], each: EachRows, signal?: AbortSignal): Promise<void> {
    await this.#feed(tokens, 'hidden', each, signal)
  }

  /** Feeds one token and answers for it. */
  step(token: number, want: Want): Promise<Answer> {
    return this.prefill([token], want)
  }

  /** Greedy decoding after `token`: yields one token per step, at most `most`, each submitted before the one before it is read. */
  async *greedy(token: number, most = Infinity): AsyncGenerator<number, void, void> {
    this.#check([token])
    const { plan, inputs } = await this.#plan(1, 'argmax')
    this.#write(inputs, [token])
    this.#tokens.push(token)
    let running = plan.run()
    try {
      for (let given = 1; ; given++) {
        const room = given < most && this.#tokens.length < this.options.capacity
        const next = room ? plan.run() : undefined
        next?.catch(() => {}) // awaited below, or not at all if this generator is left
        const chosen = integers(await running)[0] as number
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
    const logits = this.model.logits(this.model.forward({ tokens: inputs.tokens, positions: inputs.positions, cache: this.#cache }))
    const watched = labelled(logits)
    const plan = await buildPlan(this.device, { reads: watched })
    try {
      this.#write(inputs, tokens)
      const bytes = await plan.run()
      this.#tokens.push(...tokens)
      return watched.map((tensor, i) => ({
        label: tensor.label ?? tensor.op,
        shape: tensor.shape,
        values: floats([bytes[i] as Uint8Array]),
      }))
    } finally {
      plan[Symbol.dispose]()
      for (const buffer of inputs.buffers) this.device.free(buffer)
    }
  }

  async close(): Promise<void> {
    await this.device.sync().catch(() => {})
    await Promise.all([...this.#plans.values()].map((made) => this.#discard(made)))
    this.#plans.clear()
    for (const buffer of this.#owned.splice(0)) this.device.free(buffer)
  }

  async #discard(made: Promise<{ plan: Plan; inputs: Inputs }>): Promise<void> {
    const done = await made.catch(() => undefined)
    done?.plan[Symbol.dispose]()
    for (const buffer of done?.inputs.buffers ?? []) this.device.free(buffer)
  }

  async #feed(tokens: readonly number[], output: Output, each: EachRows, signal?: AbortSignal): Promise<void> {
    this.#check(tokens)
    for (let at = 0; at < tokens.length; at += this.options.chunk) {
      signal?.throwIfAborted()
      const bytes = await this.#run(tokens.slice(at, at + this.options.chunk), output)
      if (bytes !== undefined) await each(floats([bytes]), at)
    }
  }

  async #run(tokens: readonly number[], output: Output): Promise<Uint8Array | undefined> {
    const { plan, inputs } = await this.#plan(tokens.length, output)
    this.#write(inputs, tokens)
    const [bytes] = await plan.run()
    this.#tokens.push(...tokens)
    return bytes
  }

  #plan(count: number, output: Output): Promise<{ plan: Plan; inputs: Inputs }> {
    const key = `${count} ${JSON.stringify(output)}`
    const known = this.#plans.get(key)
    if (known !== undefined) {
      this.#plans.delete(key) // to the end: the first key is the one longest unused
      this.#plans.set(key, known)
      return known
    }
    const made = this.#build(count, output)
    this.#plans.set(key, made)
    made.catch(() => this.#plans.delete(key))
    const [oldest] = this.#plans
    if (this.#plans.size > PLANS_KEPT && oldest !== undefined) {
      this.#plans.delete(oldest[0])
      void this.#discard(oldest[1])
    }
    return made
  }

  async #build(count: number, output: Output): Promise<{ plan: Plan; inputs: Inputs }> {
    const inputs = this.#inputs(count)
    const hidden = this.model.forward({ tokens: inputs.tokens, positions: inputs.positions, cache: this.#cache })
    return { plan: await buildPlan(this.device, this.#spec(hidden, inputs, count, output)), inputs }
  }

  #spec(hidden: Tensor, inputs: Inputs, count: number, output: Output): PlanSpec {
    if (output === 'none') return { effects: [hidden] }
    if (output === 'hidden') return { reads: [hidden] }
    if (output === 'all-logits') return { reads: [this.model.logits(hidden)] }
    const logits = this.model.logits(count === 1 ? hidden : hidden.gather(inputs.last)) // [1, vocabulary]
    if (output === 'logits') return { reads: [logits] }
    if (typeof output === 'object') return { reads: [logits.topk(output.topK)] }
    const token = logits.argmax()
    // After a single token the plan prepares its own next run.
    return count === 1 ? { reads: [token], effects: [inputs.positions.advance(1)], assigns: [[inputs.tokens, token]] } : { reads: [token] }
  }

  #inputs(count: number): Inputs {
    const buffers = [this.device.alloc(4 * count), this.device.alloc(4 * count), this.device.alloc(4)] as const
    this.device.write(buffers[2], 0, new Uint8Array(Uint32Array.of(count - 1).buffer))
    return {
      tokens: Tensor.integers(buffers[0], [count], 'tokens'),
      positions: Tensor.integers(buffers[1], [count], 'positions'),
      last: Tensor.integers(buffers[2], [1], 'last'),
      buffers,
    }
  }

  #write({ buffers }: Inputs, tokens: readonly number[]): void {
    const [ids, positions] = buffers as [BufferHandle, BufferHandle]
    this.device.write(ids, 0, new Uint8Array(Uint32Array.from(tokens).buffer))
    this.device.write(positions, 0, new Uint8Array(Uint32Array.from(tokens, (_, i) => this.#tokens.length + i).buffer))
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

  #allocCache(): LayerCache[] {
    const { layers, heads, dim } = this.model.cache
    const { capacity, cacheType } = this.options
    const one = (label: string): Tensor => {
      const buffer = this.device.alloc(heads * capacity * dim * (cacheType === 'f16' ? 2 : 4))
      this.#owned.push(buffer)
      return Tensor.leaf(buffer, [heads, capacity, dim], cacheType, { label })
    }
    return Array.from({ length: layers }, (_, i) => ({ keys: one(`keys ${i}`), values: one(`values ${i}`) }))
  }
}

function answerOf(want: Want, bytes: Uint8Array): Answer {
  if (want === 'argmax') return { kind: 'token', token: integers([bytes])[0] as number }
  if (want === 'logits') return { kind: 'logits', logits: floats([bytes]) }
  const all = integers([bytes])
  return { kind: 'candidates', ids: all.slice(0, want.topK), logits: new Float32Array(all.slice(want.topK).buffer) }
}

function integers([bytes]: readonly Uint8Array[]): Uint32Array {
  return new Uint32Array((bytes as Uint8Array).slice().buffer)
}

function floats([bytes]: readonly Uint8Array[]): Float32Array {
  return new Float32Array((bytes as Uint8Array).slice().buffer)
}

/** The tensors with labels below a node, operands first. */
function labelled(root: Tensor): Tensor[] {
  const found: Tensor[] = []
  const seen = new Set<Tensor>()
  const visit = (tensor: Tensor): void => {
    if (seen.has(tensor)) return
    seen.add(tensor)
    tensor.src.forEach(visit)
    if (tensor.op !== 'leaf' && tensor.label !== undefined) found.push(tensor)
  }
  visit(root)
  return found
}
