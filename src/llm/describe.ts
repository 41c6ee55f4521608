// What a model file is and what it needs, from its header alone: nothing is loaded. Knows nothing of this machine.

import { ARCHITECTURES } from '../model/index.ts'
import { FORMATS } from '../quant/index.ts'
import type { GgmlType } from '../quant/type.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { GgufTensor } from '../weights/gguf/header.ts'
import { DEFAULT_CHUNK, DEFAULT_CONTEXT } from './default.ts'

export interface ModelFacts {
  readonly name: string
  readonly parameters: number
  readonly architecture: { readonly name: string; readonly supported: boolean; readonly known: readonly string[] }
  readonly tokenizer: { readonly kind: string | null; readonly pre: string | null; readonly tokens: number }
  readonly chatTemplate: boolean
  readonly contextTrained: number | null
  /** by bytes, most first */
  readonly formats: readonly FormatShare[]
  /** null where the file does not say how large its layers are: a vocabulary alone */
  readonly memory: MemoryNeed | null
}

export interface FormatShare {
  readonly type: GgmlType
  readonly tensors: number
  readonly parameters: number
  readonly bytes: number
  /** Ingot computes with it */
  readonly supported: boolean
}

export interface MemoryNeed {
  readonly contextLength: number
  readonly weightBytes: number
  /** keys and values, f16 */
  readonly cacheBytes: number
  /** an estimate */
  readonly scratchBytes: number
  readonly totalBytes: number
  readonly notes: readonly string[]
}

const KINDS: Readonly<Record<string, string>> = { llama: 'SentencePiece', gpt2: 'BPE', bert: 'WordPiece' }
/** What WebAssembly can address. */
const WASM_BYTES = 2 ** 32

export function describeModel(gguf: Gguf, contextLength?: number): ModelFacts {
  const text = (key: string): string | null => {
    const meta = gguf.metadata.get(key)
    return meta?.type === 'string' ? meta.value : null
  }
  const architecture = text('general.architecture') ?? 'unknown'
  const known = ARCHITECTURES.flatMap(({ names }) => names)
  const tokens = gguf.metadata.get('tokenizer.ggml.tokens')
  const kind = text('tokenizer.ggml.model')
  const contextTrained = numberOf(gguf, `${architecture}.context_length`) ?? null
  return {
    name: text('general.name') ?? architecture,
    parameters: sum([...gguf.tensors.values()].map(({ elements }) => elements)),
    architecture: { name: architecture, supported: known.includes(architecture), known },
    tokenizer: {
      kind: kind === null || kind === 'none' || kind === 'test' ? null : (KINDS[kind] ?? `${kind}, not supported`),
      pre: text('tokenizer.ggml.pre'),
      tokens: tokens?.type === 'array' ? tokens.value.length : 0,
    },
    chatTemplate: text('tokenizer.chat_template') !== null,
    contextTrained,
    formats: formatShares(gguf),
    memory:
      gguf.tensors.size === 0
        ? null
        : memoryNeed(gguf, architecture, contextLength ?? Math.min(contextTrained ?? DEFAULT_CONTEXT, DEFAULT_CONTEXT)),
  }
}

function formatShares(gguf: Gguf): FormatShare[] {
  const byType = new Map<GgmlType, GgufTensor[]>()
  for (const tensor of gguf.tensors.values()) byType.set(tensor.type, [...(byType.get(tensor.type) ?? []), tensor])
  return [...byType]
    .map(([type, tensors]) => ({
      type,
      tensors: tensors.length,
      parameters: sum(tensors.map(({ elements }) => elements)),
      bytes: sum(tensors.map(({ bytes }) => bytes)),
      supported: FORMATS.some(({ name }) => name === type),
    }))
    .toSorted((a, b) => b.bytes - a.bytes)
}

function memoryNeed(gguf: Gguf, architecture: string, contextLength: number): MemoryNeed | null {
  const number = (key: string): number | undefined => numberOf(gguf, `${architecture}.${key}`)
  const [width, layers, heads] = [number('embedding_length'), number('block_count'), number('attention.head_count')]
  if (width === undefined || layers === undefined || heads === undefined) return null
  const kvHeads = number('attention.head_count_kv') ?? heads
  const keys = number('attention.key_length') ?? width / heads
  const values = number('attention.value_length') ?? width / heads
  const hidden = number('feed_forward_length') ?? 4 * width
  const vocabulary = gguf.tensors.get('token_embd.weight')?.dims[1] ?? 0
  const weightBytes = sum([...gguf.tensors.values()].map(({ bytes }) => bytes))
  const cacheBytes = layers * kvHeads * (keys + values) * contextLength * 2
  // A chunk of the prompt at the widest place of a layer, and the logits.
  const scratchBytes = 4 * (DEFAULT_CHUNK * (4 * width + 2 * heads * keys + 3 * hidden) + vocabulary)
  const totalBytes = weightBytes + cacheBytes + scratchBytes
  const notes = totalBytes > WASM_BYTES ? ['more than 4.3 GB: the cpu device cannot hold it as WebAssembly'] : []
  return { contextLength, weightBytes, cacheBytes, scratchBytes, totalBytes, notes }
}

/** A number of the metadata; where there is one per layer, the largest. */
function numberOf(gguf: Gguf, key: string): number | undefined {
  const meta = gguf.metadata.get(key)
  if (typeof meta?.value === 'number') return meta.value
  if (meta?.type !== 'array' || meta.of === 'string' || meta.of === 'bool' || meta.of === 'array') return undefined
  return largest(meta.value)
}

function largest(values: Iterable<number | bigint>): number {
  let most = -Infinity
  for (const value of values) most = Math.max(most, Number(value))
  return most
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
