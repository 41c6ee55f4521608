// What a GGUF file of a Llama holds, by its shape: its tensors, and the keys that describe them. Knows neither weights nor vocabularies.

import { IngotError } from '../../base/error.ts'
import type { GgmlType } from '../../quant/type.ts'
import { QUANTIZATION_VERSION, fileTypeOf } from '../gguf/file-type.ts'
import type { MetaValue } from '../gguf/meta.ts'

export interface LlamaShape {
  readonly width: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly hidden: number
  readonly vocabulary: number
  /** the embedding is the output layer, too */
  readonly tied?: boolean
}

/** Refuses sizes that make no model. */
export function checkLlama({ width, layers, heads, kvHeads, hidden, vocabulary }: LlamaShape, op: string): void {
  const wrong = (what: string, got: unknown, wanted: string): IngotError => new IngotError('bad-argument', what, { op, got, wanted })
  for (const size of [width, layers, heads, kvHeads, hidden, vocabulary]) {
    if (!Number.isSafeInteger(size) || size < 1) throw wrong('bad size', size, 'whole numbers from 1')
  }
  if (width % (2 * heads) !== 0)
    throw wrong('the width must be an even multiple of the heads', `${width} with ${heads} heads`, 'heads of an even size')
  if (heads % kvHeads !== 0) throw wrong('the key and value heads must divide the heads', kvHeads, `a divisor of ${heads}`)
}

/** Names and sizes, in the order of files: columns first. */
export function llamaTensors(shape: LlamaShape): (readonly [string, readonly number[]])[] {
  const { width, layers, heads, kvHeads, hidden, vocabulary, tied = false } = shape
  const kv = (width / heads) * kvHeads
  const blocks = Array.from({ length: layers }, (_, i) =>
    (
      [
        ['attn_norm', [width]],
        ['attn_q', [width, width]],
        ['attn_k', [width, kv]],
        ['attn_v', [width, kv]],
        ['attn_output', [width, width]],
        ['ffn_norm', [width]],
        ['ffn_gate', [width, hidden]],
        ['ffn_up', [width, hidden]],
        ['ffn_down', [hidden, width]],
      ] as const
    ).map(([name, dims]) => [`blk.${i}.${name}.weight`, dims] as const),
  )
  return [
    ['token_embd.weight', [width, vocabulary]],
    ['output_norm.weight', [width]],
    ...(tied ? [] : [['output.weight', [width, vocabulary]] as const]),
    ...blocks.flat(),
  ]
}

export function llamaMetadata(
  shape: LlamaShape,
  { name, contextLength, type }: { readonly name: string; readonly contextLength: number; readonly type: GgmlType },
): [string, MetaValue][] {
  const u32 = (value: number): MetaValue => ({ type: 'u32', value })
  const f32 = (value: number): MetaValue => ({ type: 'f32', value })
  return [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['general.name', { type: 'string', value: name }],
    ['general.file_type', u32(fileTypeOf(type))],
    ['general.quantization_version', u32(QUANTIZATION_VERSION)],
    ['llama.vocab_size', u32(shape.vocabulary)],
    ['llama.context_length', u32(contextLength)],
    ['llama.embedding_length', u32(shape.width)],
    ['llama.block_count', u32(shape.layers)],
    ['llama.feed_forward_length', u32(shape.hidden)],
    ['llama.rope.dimension_count', u32(shape.width / shape.heads)],
    ['llama.rope.freq_base', f32(10000)],
    ['llama.attention.head_count', u32(shape.heads)],
    ['llama.attention.head_count_kv', u32(shape.kvHeads)],
    ['llama.attention.layer_norm_rms_epsilon', f32(1e-5)],
  ]
}
