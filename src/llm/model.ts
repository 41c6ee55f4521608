// A loaded model as users hold it: text in, text out. Generations on one model take turns; each keeps what it shares with the last
// one's cache. Close it (or `await using`) to free its memory.

import { IngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import { type OpenDeviceOptions, open } from '../device/open.ts'
import { architectureOf } from '../model/index.ts'
import { replacedOperations } from '../tensor/plan.ts'
import { type Gguf, openGguf } from '../weights/gguf.ts'
import { metaNumber, metaString } from '../weights/gguf-meta.ts'
import type { ByteSource } from '../weights/source.ts'
import { type EachRows, Engine } from './engine.ts'
import { type GenerateOptions, Generation, type Host } from './generation.ts'
import { type ChatMessage, type RenderOptions, type Template, createTemplate } from './template.ts'
import { type EncodeOptions, type Tokenizer, createTokenizer } from './tokenizer/tokenizer.ts'
import { type LoadProgress, type LoadedModel, loadModel } from './weights.ts'

export interface LoadOptions extends Pick<OpenDeviceOptions, 'log' | 'threads'> {
  /** a name (`auto`, `metal`, `webgpu`, `cpu`, `reference`), or a device that stays yours to close */
  readonly device?: string | Device
  /** tokens a sequence may have (default: what the model was trained for, at most 4096) */
  readonly contextLength?: number
  /** of the key and value cache (default f16) */
  readonly cacheType?: 'f32' | 'f16'
  /** most prompt tokens of one submission (default 128) */
  readonly chunk?: number
  readonly onProgress?: (progress: LoadProgress) => void
  readonly signal?: AbortSignal
}

export interface ChatOptions extends GenerateOptions, Pick<RenderOptions, 'tools' | 'now' | 'variables'> {}

const USUAL_CONTEXT = 4096

/** Loads a GGUF file from a path, or from any source of bytes. */
export async function load(file: string | ByteSource, options: LoadOptions = {}): Promise<Model> {
  const begun = performance.now()
  const gguf = await openGguf(file)
  let device: Device | undefined
  const ownsDevice = typeof options.device !== 'object'
  try {
    const architecture = architectureOf(metaString(gguf, 'general.architecture'))
    const contextLength = contextFor(gguf, options.contextLength)
    const opened = typeof options.device === 'object' ? { device: options.device, tried: [] } : await open(options.device, options)
    device = opened.device
    const { onProgress, signal } = options
    const loaded = await loadModel(device, gguf, architecture, {
      contextLength,
      ...(onProgress === undefined ? {} : { onProgress }),
      ...(signal === undefined ? {} : { signal }),
    })
    const engine = new Engine(device, loaded.model, {
      capacity: contextLength,
      cacheType: options.cacheType ?? 'f16',
      chunk: options.chunk ?? 128,
    })
    return new Model({ gguf, device, ownsDevice, loaded, engine, loadMs: performance.now() - begun, fallbacks: opened.tried.length })
  } catch (error) {
    if (ownsDevice) await device?.close().catch(() => {})
    await gguf.close().catch(() => {})
    throw error
  }
}

interface Parts {
  readonly gguf: Gguf
  readonly device: Device
  readonly ownsDevice: boolean
  readonly loaded: LoadedModel
  readonly engine: Engine
  readonly loadMs: number
  readonly fallbacks: number
}

export class Model implements AsyncDisposable {
  readonly #parts: Parts
  readonly #host: Host
  #tokenizer: Tokenizer | undefined
  #template: Template | undefined
  #queue: Promise<unknown> = Promise.resolve()
  #closed = false

  /** Use `load`. */
  constructor(parts: Parts) {
    this.#parts = parts
    const kind = metaString(parts.gguf, 'tokenizer.ggml.model', 'none')
    if (kind !== 'none' && kind !== 'test') this.#tokenizer = createTokenizer(plainMetadata(parts.gguf))
    this.#host = { engine: parts.engine, tokenizer: this.#tokenizer, exclusively: (work, signal) => this.#exclusively(work, signal) }
  }

  get device(): Device {
    return this.#parts.device
  }
  get engine(): Engine {
    return this.#parts.engine
  }
  get contextLength(): number {
    return this.#parts.engine.options.capacity
  }
  get loadMs(): number {
    return this.#parts.loadMs
  }
  /** devices tried before this one that did not serve, and fused operations that run as their definitions */
  get fallbacks(): number {
    return this.#parts.fallbacks + replacedOperations(this.#parts.device).length
  }
  get name(): string {
    return metaString(this.#parts.gguf, 'general.name', metaString(this.#parts.gguf, 'general.architecture'))
  }
  get vocabulary(): number {
    return this.#parts.loaded.model.vocabulary
  }
  /** bytes of weights and of the cache */
  get memory(): { readonly weights: number; readonly cache: number } {
    return { weights: this.#parts.loaded.weightBytes, cache: this.#parts.engine.cacheBytes }
  }
  /** false for files that carry none: they run on token ids */
  get hasTokenizer(): boolean {
    return this.#tokenizer !== undefined
  }
  get tokenizer(): Tokenizer {
    if (this.#tokenizer !== undefined) return this.#tokenizer
    throw new IngotError('unsupported', 'this file carries no tokenizer', { op: 'model', hint: 'give token ids instead of text' })
  }

  /** Goes on after a prompt: text, or token ids. */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    this.#check()
    return new Generation(
      this.#host,
      typeof prompt === 'string' ? this.tokenize(prompt, { addSpecial: true, parseSpecial: true }) : prompt,
      options,
    )
  }

  /** Answers a conversation, written out by the model's own template. */
  chat(messages: readonly ChatMessage[], options: ChatOptions = {}): Generation {
    this.#check()
    return new Generation(this.#host, this.renderChat(messages, options), options)
  }

  /** The token ids that `chat` feeds. */
  renderChat(messages: readonly ChatMessage[], { tools, now, variables }: Pick<ChatOptions, 'tools' | 'now' | 'variables'> = {}): number[] {
    const { tokenizer } = this
    const tokenText = (id: number | undefined): string => (id === undefined ? '' : tokenizer.tokenText(id))
    const bosToken = tokenText(tokenizer.bos)
    this.#template ??= createTemplate(metaString(this.#parts.gguf, 'tokenizer.chat_template', ''), {
      bosToken,
      eosToken: tokenText(tokenizer.eos),
    })
    const text = this.#template.render(messages, {
      ...(tools === undefined ? {} : { tools }),
      ...(now === undefined ? {} : { now }),
      ...(variables === undefined ? {} : { variables }),
    })
    return tokenizer.encode(text, { addSpecial: bosToken === '' || !text.startsWith(bosToken), parseSpecial: true })
  }

  tokenize(text: string, options: EncodeOptions = {}): number[] {
    return this.tokenizer.encode(text, options)
  }
  detokenize(tokens: readonly number[]): string {
    return this.tokenizer.decode(tokens)
  }

  /** The mean of the hidden states over the text, as a unit vector. */
  embed(text: string | readonly number[], { signal }: { signal?: AbortSignal } = {}): Promise<Float32Array> {
    this.#check()
    const tokens = typeof text === 'string' ? this.tokenize(text, { addSpecial: true }) : text
    return this.#exclusively(async () => {
      const {
        engine,
        loaded: {
          model: { width },
        },
      } = this.#parts
      const sum = new Float64Array(width)
      engine.rewind([])
      await engine.embed(
        tokens,
        (hidden) =>
          hidden.forEach((value, i) => {
            sum[i % width]! += value
          }),
        signal,
      )
      const length = Math.hypot(...sum) || 1
      return Float32Array.from(sum, (value) => value / length)
    }, signal)
  }

  /** Logits of every position, row by row. */
  evaluate(tokens: readonly number[], each: EachRows, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    this.#check()
    return this.#exclusively(() => {
      this.#parts.engine.rewind([])
      return this.#parts.engine.evaluate(tokens, each, signal)
    }, signal)
  }

  /** Waits for the generation under way, then frees everything. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#queue.catch(() => {})
    const { engine, loaded, device, ownsDevice, gguf } = this.#parts
    await engine.close()
    loaded.free()
    if (ownsDevice) await device.close()
    await gguf.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #exclusively<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const turn = this.#queue.then(async () => {
      signal?.throwIfAborted()
      this.#check()
      return work()
    })
    this.#queue = turn.catch(() => {})
    return turn
  }

  #check(): void {
    if (this.#closed) throw new IngotError('closed', 'the model was closed', { op: 'model' })
  }
}

function contextFor(gguf: Gguf, wanted: number | undefined): number {
  if (wanted !== undefined && !(Number.isInteger(wanted) && wanted > 0)) {
    throw new IngotError('bad-argument', 'contextLength must be a positive whole number', { op: 'load', got: wanted })
  }
  const trained = metaNumber(gguf, `${metaString(gguf, 'general.architecture')}.context_length`, USUAL_CONTEXT)
  return wanted ?? Math.min(trained, USUAL_CONTEXT)
}

function plainMetadata(gguf: Gguf): Map<string, unknown> {
  return new Map([...gguf.metadata].map(([key, { value }]) => [key, value]))
}
