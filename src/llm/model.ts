// A loaded model as users hold it: text in, text out. Generations that overlap are computed together; each finds in the cache what it
// shares with others. Close it (or `await using`) to free its memory.

import { IngotError, isIngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import { type OpenDeviceOptions, open } from '../device/open/open.ts'
import { CACHE_TYPES, type CacheType } from '../kernel/attention/cache-type.ts'
import { architectureOf } from '../model/index.ts'
import { replacedOperations } from '../tensor/lowering.ts'
import { type Gguf, openGguf } from '../weights/gguf/gguf.ts'
import { metaString } from '../weights/gguf/meta.ts'
import type { ByteSource } from '../weights/source.ts'
import { type AdapterChoice, AdaptedModels } from './adapter/adapted.ts'
import { checkAdapters, checkChat, checkEmbed, checkEvaluate, checkGenerate, checkLoad, checkText, checkTokens } from './check-argument.ts'
import { DEFAULT_CHUNK, DEFAULT_CONTEXT, MOST_CACHE, MOST_CACHE_SHARE, defaultModelPath } from './default.ts'
import { Engine, type EngineOptions, type OnRows, cacheBytesOf } from './engine/engine.ts'
import { type GenerateOptions, Generation, type ModelAccess } from './generation.ts'
import { readCount } from './model-source.ts'
import { findBest, noNumber } from './sample.ts'
import type { ChatMessage, RenderOptions, Template } from './template.ts'
import { type EncodeOptions, type Tokenizer, createTokenizer } from './tokenizer/tokenizer.ts'
import { type LoadProgress, type LoadedModel, loadModel } from './weights.ts'

/** How to load a model: where to compute, and how much memory to take. */
export interface LoadOptions extends Pick<OpenDeviceOptions, 'log' | 'onWarning' | 'threads'> {
  /** a name (`auto`, `metal`, `webgpu`, `cpu`, `reference`; default `auto`), or a device that stays yours to close */
  readonly device?: string | Device
  /** tokens a sequence may have, prompt included (default: what the model was trained for, at most 4096) */
  readonly contextLength?: number
  /** element type of the key and value cache (default `f16`) */
  readonly cacheType?: CacheType
  /** most prompt tokens of one submission (default 128) */
  readonly chunk?: number
  /** generations that are computed together at the most; more wait for their turn (default 8) */
  readonly parallel?: number
  /** tokens that the cache holds, of all sequences together (default: `contextLength`, or 4096 for eight with less) */
  readonly cacheTokens?: number
  /**
   * false: read the weights into memory instead of mapping the file (default true, where the device can). A mapped file that is cut
   * short while a model uses it ends the process (SIGBUS); replacing it by another of the same name is safe.
   */
  readonly mmap?: boolean
  /** adapters to begin with; `setAdapters` changes them */
  readonly adapters?: readonly AdapterChoice[]
  /** called after each tensor that was loaded */
  readonly onProgress?: (progress: LoadProgress) => void
  /** aborting it rejects `load` with its reason */
  readonly signal?: AbortSignal
}

/** How to generate, and what else the chat template may read. */
export interface ChatOptions extends GenerateOptions, Pick<RenderOptions, 'tools' | 'now' | 'variables'> {}

/**
 * Loads a GGUF file from a path, or from any source of bytes; without one, the small model that the package carries, and `log` is told
 * so. Of a split model, any part opens them all. Rejects with an IngotError:
 * `bad-file` where the file cannot be read or is malformed, `unsupported` where Ingot does not know its architecture or a format,
 * `unknown-name` and `device-unavailable` where there is no such device, `bad-argument` for options that make no sense. A rejected
 * load leaves nothing open.
 */
export async function load(file?: string | ByteSource, options: LoadOptions = {}): Promise<Model> {
  checkLoad(file, options)
  const begun = performance.now()
  const templates = import('./template.ts') // with its parser: comes while the weights do, since nothing but a chat needs it
  templates.catch(() => {}) // told below
  if (file === undefined) options.log?.('no model was named: loading the default one')
  const gguf = await openGguf(file ?? (await defaultModelPath()))
  const warnings: string[] = []
  const warn = (line: string): void => {
    warnings.push(line)
    options.onWarning?.(line)
  }
  let device: Device | undefined
  let loaded: LoadedModel | undefined
  let engine: Engine | undefined
  const ownsDevice = typeof options.device !== 'object'
  try {
    const architecture = architectureOf(metaString(gguf, 'general.architecture'))
    const contextLength = contextFor(gguf, options.contextLength)
    const cacheType = cacheTypeOf(options)
    const tokenizer = readTokenizer(gguf, warn)
    const opened =
      typeof options.device === 'object'
        ? { device: options.device, tried: [] }
        : await open(options.device, { ...options, onWarning: warn })
    device = opened.device
    const { onProgress, signal, mmap = true } = options
    loaded = await loadModel(device, gguf, architecture, {
      contextLength,
      mmap,
      ...(onProgress === undefined ? {} : { onProgress }),
      ...(signal === undefined ? {} : { signal }),
    })
    checkVocabulary(tokenizer, loaded.model.vocabulary)
    const { parallel, cacheTokens } = options
    const engineOptions = {
      capacity: contextLength,
      cacheType,
      chunk: options.chunk ?? DEFAULT_CHUNK,
      ...(parallel === undefined ? {} : { parallel }),
      ...(cacheTokens === undefined ? {} : { cacheTokens }),
    }
    if (options.contextLength === undefined) checkCache(loaded, engineOptions)
    engine = new Engine(device, loaded.model, engineOptions)
    const loadMs = performance.now() - begun
    const fallbacks = opened.tried.length
    const resources = { gguf, device, ownsDevice, loaded, engine, tokenizer, templates: await templates, loadMs, warn, warnings, fallbacks }
    const model = new Model(resources)
    await model.setAdapters(options.adapters ?? [])
    return model
  } catch (error) {
    await engine?.close()
    loaded?.free()
    if (ownsDevice) await device?.close().catch(() => {})
    await gguf.close().catch(() => {})
    throw error
  }
}

function cacheTypeOf({ cacheType = 'f16' }: LoadOptions): CacheType {
  if (CACHE_TYPES.includes(cacheType)) return cacheType
  throw new IngotError('bad-argument', 'no such cacheType', { op: 'load', got: cacheType, wanted: CACHE_TYPES })
}

/** What a model consists of; it owns all of it, but for a device that was handed in. */
interface ModelResources {
  readonly gguf: Gguf
  readonly device: Device
  readonly ownsDevice: boolean
  readonly loaded: LoadedModel
  readonly engine: Engine
  /** or why there is none */
  readonly tokenizer: Tokenizer | IngotError
  readonly templates: typeof import('./template.ts')
  readonly loadMs: number
  readonly warn: (line: string) => void
  readonly warnings: readonly string[]
  /** devices tried before this one */
  readonly fallbacks: number
}

/**
 * A loaded model: generates text, embeds it, evaluates it. Made by `load`. Generations that overlap share steps of the device; what else
 * is asked for meanwhile comes between two steps. Methods throw `closed` after `close`, and `unsupported` where they need a tokenizer and
 * the file has none.
 */
export class Model implements AsyncDisposable {
  readonly #resources: ModelResources
  readonly #access: ModelAccess
  #template: Template | undefined
  #adapters: readonly AdapterChoice[] = []
  readonly #adapted: AdaptedModels
  #closing: Promise<void> | undefined

  /** Use `load`. */
  constructor(resources: ModelResources) {
    this.#resources = resources
    const { engine, loaded, gguf, device } = resources
    this.#adapted = new AdaptedModels(loaded, gguf, device)
    const tokenizer = resources.tokenizer instanceof IngotError ? undefined : resources.tokenizer
    this.#access = { engine, tokenizer, check: () => this.#check() }
  }

  /** the device that it computes on */
  get device(): Device {
    return this.#resources.device
  }
  /** tokens and logits without text or turns: for those who measure or debug; do not use it while the model generates */
  get engine(): Engine {
    return this.#resources.engine
  }
  /** tokens a sequence may have, prompt included */
  get contextLength(): number {
    return this.#resources.engine.options.capacity
  }
  /** milliseconds that `load` took, opening the device included */
  get loadMs(): number {
    return this.#resources.loadMs
  }
  /** how often something slower had to serve: devices tried before this one, and fused operations that run as their definitions */
  get fallbacks(): number {
    return this.#resources.fallbacks + replacedOperations(this.#resources.device).length
  }
  /** as the file calls itself; else its architecture */
  get name(): string {
    return metaString(this.#resources.gguf, 'general.name', metaString(this.#resources.gguf, 'general.architecture'))
  }
  /** how many different tokens there are: ids run from 0 to one less */
  get vocabulary(): number {
    return this.#resources.loaded.model.vocabulary
  }
  /** bytes of weights and of the cache */
  get memory(): { readonly weights: number; readonly cache: number } {
    return { weights: this.#resources.loaded.weightBytes, cache: this.#resources.engine.cacheBytes }
  }
  /** what is not as it should be, a line each: a device that fails, a tokenizer or a template that had to be guessed */
  get warnings(): readonly string[] {
    return [...this.#resources.warnings]
  }
  /** false for files that carry none, or one of a kind that Ingot does not know: they run on token ids */
  get hasTokenizer(): boolean {
    return this.#access.tokenizer !== undefined
  }
  /** the tokenizer of the file; throws `unsupported` where it has none that Ingot knows */
  get tokenizer(): Tokenizer {
    const { tokenizer } = this.#resources
    if (tokenizer instanceof IngotError) throw tokenizer
    return tokenizer
  }

  /** the adapters in use */
  get adapters(): readonly AdapterChoice[] {
    return this.#adapters
  }
  /**
   * From the next request on, the model has these adapters and no others; an empty list: none. The weights stay as they are, so that this
   * takes no longer than reading the adapters; those used lately are not read again, unless their files changed. Generations that have
   * begun keep theirs. Rejects with `bad-file` for an adapter of another model, with the first tensor that does not fit; nothing has
   * changed then.
   */
  setAdapters(adapters: readonly AdapterChoice[]): Promise<void> {
    this.#check()
    checkAdapters(adapters)
    return this.#exclusively(async () => {
      const { engine, loaded } = this.#resources
      engine.use(adapters.length === 0 ? loaded.model : await this.#adapted.with(adapters))
      this.#adapters = adapters.map((choice) => ({ ...choice }))
    })
  }

  /**
   * Continues a prompt: text, which gets BOS and EOS as the file says and may contain special tokens written out, or token ids, which
   * are fed as they are. Throws `bad-argument` at once for an empty prompt and for options out of range.
   */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    this.#check()
    checkGenerate(prompt, options)
    return new Generation(
      this.#access,
      typeof prompt === 'string' ? this.tokenize(prompt, { addSpecial: true, parseSpecial: true }) : prompt,
      options,
    )
  }

  /**
   * Writes the next message of a conversation, which the model's own chat template turns into a prompt (ChatML, with a warning, where
   * the file has none). Throws at once: `bad-argument` where the template refuses the messages or options are out of range, `bad-file`
   * or `unsupported` where the template cannot be parsed or run.
   */
  chat(messages: readonly ChatMessage[], options: ChatOptions = {}): Generation {
    this.#check()
    checkChat(messages, options)
    return new Generation(this.#access, this.renderChat(messages, options), options)
  }

  /** The token ids that `chat` feeds for these messages, the opening of the reply included. */
  renderChat(messages: readonly ChatMessage[], options: Pick<ChatOptions, 'tools' | 'now' | 'variables'> = {}): number[] {
    checkChat(messages, options)
    const { tools, now, variables } = options
    const { tokenizer } = this
    this.#template ??= this.#resources.templates.readTemplate(this.#resources.gguf, tokenizer, this.#resources.warn)
    const text = this.#template.render(messages, {
      ...(tools === undefined ? {} : { tools }),
      ...(now === undefined ? {} : { now }),
      ...(variables === undefined ? {} : { variables }),
    })
    return tokenizer.encode(text, this.#resources.templates.chatEncoding(text, tokenizer))
  }

  /** Text to token ids; without options, no BOS or EOS is added and special tokens written out are plain text. */
  tokenize(text: string, options: EncodeOptions = {}): number[] {
    checkText('tokenize', text, options)
    return this.tokenizer.encode(text, options)
  }
  /** Token ids to text, without special tokens. Throws `out-of-range` for ids that do not exist. */
  detokenize(tokens: readonly number[]): string {
    checkTokens('detokenize', tokens)
    return this.tokenizer.decode(tokens)
  }

  /** The mean of the last hidden states over a text or token ids, as a unit vector. Rejects with `too-large` past the context. */
  embed(text: string | readonly number[], options: { signal?: AbortSignal } = {}): Promise<Float32Array> {
    this.#check()
    checkEmbed(text, options)
    const { signal } = options
    const tokens = typeof text === 'string' ? this.tokenize(text, { addSpecial: true }) : text
    if (tokens.length === 0) throw new IngotError('bad-argument', 'there is nothing to embed', { op: 'embed', got: 'no tokens' })
    return this.#exclusively(async () => {
      const { engine, loaded } = this.#resources
      const { width } = loaded.model
      const sum = new Float64Array(width)
      engine.rewind([])
      const addRows = (hidden: Float32Array): void =>
        hidden.forEach((value, i) => {
          sum[i % width] = value + (sum[i % width] ?? 0)
        })
      await engine.embed(tokens, addRows, signal)
      const odd = sum.findIndex((value) => !Number.isFinite(value))
      if (odd >= 0) throw noNumber(`element ${odd} of the embedding`, sum[odd] ?? NaN)
      const length = Math.sqrt(sum.reduce((total, value) => total + value * value, 0)) || 1
      return Float32Array.from(sum, (value) => value / length)
    }, signal)
  }

  /**
   * Computes the logits of every position: calls back with some rows at a time, [rows, vocabulary], and the position of the first.
   * The row of a position predicts the token after it. Rows are the caller's to keep. Rejects with `bad-argument` where the model
   * computed what is no number.
   */
  evaluate(tokens: readonly number[], onRows: OnRows, options: { signal?: AbortSignal } = {}): Promise<void> {
    this.#check()
    checkEvaluate(tokens, onRows, options)
    const { signal } = options
    return this.#exclusively(() => {
      const { engine } = this.#resources
      engine.rewind([])
      const onChecked: OnRows = (rows, from) => {
        for (let at = 0; at < rows.length; at += this.vocabulary) findBest(rows.subarray(at, at + this.vocabulary))
        return onRows(rows, from)
      }
      return engine.evaluate(tokens, onChecked, signal)
    }, signal)
  }

  /**
   * Waits for what is under way, then frees everything; what still waits for its turn rejects with `closed`. Closing twice is fine:
   * both wait for the same.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    const { engine, loaded, device, ownsDevice, gguf } = this.#resources
    engine.scheduler.refuse(closed())
    await engine.scheduler.idle()
    await engine.close()
    this.#adapted.free()
    loaded.free()
    if (ownsDevice) await device.close()
    await gguf.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Does something between two steps; who does not want it any more before it begins need not wait for it. */
  #exclusively<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    let begun = false
    const { scheduler } = this.#resources.engine
    const turn = scheduler.exclusively(async () => {
      signal?.throwIfAborted()
      begun = true
      return work()
    })
    if (signal === undefined) return turn
    return new Promise<T>((resolve, reject) => {
      const leave = (): void => {
        if (!begun) reject(signal.reason)
      }
      if (signal.aborted) leave()
      signal.addEventListener('abort', leave)
      const settled = (): void => signal.removeEventListener('abort', leave)
      turn.then(resolve, reject).then(settled, settled)
    })
  }

  #check(): void {
    if (this.#closing !== undefined) throw closed()
  }
}

function closed(): IngotError {
  return new IngotError('closed', 'the model was closed', { op: 'model' })
}

function contextFor(gguf: Gguf, wanted: number | undefined): number {
  if (wanted !== undefined && !(Number.isInteger(wanted) && wanted > 0)) {
    throw new IngotError('bad-argument', 'contextLength must be a positive whole number', { op: 'load', got: wanted })
  }
  const trained = readCount(gguf, `${metaString(gguf, 'general.architecture')}.context_length`, { otherwise: DEFAULT_CONTEXT })
  return wanted ?? Math.min(trained, DEFAULT_CONTEXT)
}

/** Nobody asked for this context, so that a file of a few megabytes must not fill the memory with its cache. */
function checkCache({ model, weightBytes }: LoadedModel, options: EngineOptions): void {
  const bytes = cacheBytesOf(model, options)
  const most = Math.max(MOST_CACHE_SHARE * weightBytes, MOST_CACHE)
  if (bytes <= most) return
  throw new IngotError('too-large', `the cache of ${options.capacity} positions would be many times the model`, {
    op: 'load',
    got: `${bytes} bytes`,
    wanted: `at most ${most}`,
    hint: 'load with a smaller contextLength, or name this one to have it all the same',
  })
}

/** A token without text could be generated and not be written; one without a row of the embedding could be written and not be read. */
function checkVocabulary(tokenizer: Tokenizer | IngotError, rows: number): void {
  if (tokenizer instanceof IngotError || tokenizer.vocabSize === rows) return
  throw new IngotError('bad-file', 'tokenizer.ggml.tokens does not fit the rows of token_embd.weight', {
    op: 'load',
    got: `${tokenizer.vocabSize} tokens`,
    wanted: rows,
  })
}

/** Or why there is none: the file says so, or Ingot does not know its kind. Then the model runs on token ids. */
function readTokenizer(gguf: Gguf, warn: (line: string) => void): Tokenizer | IngotError {
  const kind = metaString(gguf, 'tokenizer.ggml.model', 'none')
  if (kind === 'none' || kind === 'test')
    return new IngotError('unsupported', 'this file carries no tokenizer', { op: 'model', hint: 'give token ids instead of text' })
  try {
    return createTokenizer(gguf.metadata, { warn })
  } catch (error) {
    if (!isIngotError(error, 'unsupported')) throw error
    return error
  }
}
