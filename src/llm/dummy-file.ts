// Model files that exist only as headers: every architecture in small, with zeros for weights. For whoever must know what a model
// does without having one: the list of kernels.

import { type GgmlType, tensorBytes, tensorElements } from '../quant/type.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { GgufTensor } from '../weights/gguf/header.ts'
import type { MetaValue } from '../weights/gguf/meta.ts'
import type { ByteSource } from '../weights/source.ts'

/** The sizes of a dummy model. Widths are multiples of 256, so that rows hold whole blocks of every format. */
export interface DummySizes {
  readonly width: number
  readonly heads: number
  readonly kvHeads: number
  readonly dim: number
  readonly hidden: number
  readonly vocabulary: number
}

export const SMALL: DummySizes = { width: 256, heads: 4, kvHeads: 2, dim: 64, hidden: 512, vocabulary: 512 }

/** What varies between files. */
export interface DummyOptions {
  readonly sizes: DummySizes
  /** of the matrices */
  readonly format: GgmlType
  /** with biases */
  readonly bias: boolean
  /** several matrices in one, as some files have them */
  readonly fused: boolean
}

const LAYERS = 2 // one of each kind where an architecture alternates
const CONTEXT = 64

export function createDummyFile(architecture: string, { sizes, format, bias, fused }: DummyOptions): Gguf {
  const numbers = {
    embedding_length: sizes.width,
    block_count: LAYERS,
    feed_forward_length: sizes.hidden,
    context_length: CONTEXT,
    'attention.head_count': sizes.heads,
    'attention.head_count_kv': sizes.kvHeads,
    'attention.key_length': sizes.dim,
    'attention.value_length': sizes.dim,
    'attention.layer_norm_rms_epsilon': 1 / sizes.width,
    'attention.sliding_window': sizes.dim,
    'attention.sliding_window_pattern': 2,
  }
  const metadata = new Map<string, MetaValue>([['general.architecture', { type: 'string', value: architecture }]])
  for (const [key, value] of Object.entries(numbers)) metadata.set(`${architecture}.${key}`, { type: 'f64', value })
  const file: ByteSource = {
    size: Infinity,
    name: 'dummy',
    read: async (_offset, length) => new Uint8Array(length),
    close: async () => {},
  }
  const tensors = new Map<string, GgufTensor>()
  const add = (name: string, dims: readonly number[], type: GgmlType): void => {
    tensors.set(name, { name, type, dims, elements: tensorElements(dims), bytes: tensorBytes(type, dims), file, offset: 0 })
  }
  for (const [name, [rows, cols]] of Object.entries(matrices(sizes, fused))) {
    add(`${name}.weight`, [cols, rows], format)
    if (bias && name.startsWith('blk')) add(`${name}.bias`, [rows], 'f32')
  }
  for (const [name, length] of Object.entries(norms(sizes))) add(`${name}.weight`, [length], 'f32')
  const close = async (): Promise<void> => {}
  return { version: 3, metadata, tensors, alignment: 32, files: [file], close, [Symbol.asyncDispose]: close }
}

/** [rows, columns] of every matrix that an architecture may ask for. */
function matrices(
  { width, heads, kvHeads, dim, hidden, vocabulary }: DummySizes,
  fused: boolean,
): Record<string, readonly [number, number]> {
  const layer = {
    attn_q: [heads * dim, width],
    attn_k: [kvHeads * dim, width],
    attn_v: [kvHeads * dim, width],
    attn_output: [width, heads * dim],
    ...(fused ? { attn_qkv: [(heads + 2 * kvHeads) * dim, width] } : {}),
    ffn_gate: [hidden, width],
    ffn_up: [fused ? 2 * hidden : hidden, width],
    ffn_down: [width, hidden],
  } as const
  return { token_embd: [vocabulary, width], output: [vocabulary, width], ...inLayers(layer) }
}

function norms({ width, dim }: DummySizes): Record<string, number> {
  return {
    output_norm: width,
    ...inLayers({
      attn_norm: width,
      ffn_norm: width,
      attn_q_norm: dim,
      attn_k_norm: dim,
      post_attention_norm: width,
      post_ffw_norm: width,
    }),
  }
}

function inLayers<T>(layer: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(
    Array.from({ length: LAYERS }, (_, i) => Object.entries(layer).map(([name, value]) => [`blk.${i}.${name}`, value] as const)).flat(),
  )
}
