// A llama of two layers with random weights and a small SPM vocabulary, as the bytes of a GGUF file: what tests of everything above
// the devices run on. The same seed gives the same bytes.

import { encodeElements } from '../../src/base/element.ts'
import { type GgmlType, tensorBytes } from '../../src/quant/type.ts'
import type { MetaValue } from '../../src/weights/gguf/meta.ts'
import { type TensorToWrite, writeGguf } from '../../src/weights/gguf/write.ts'
import type { ByteSink } from '../../src/weights/sink.ts'
import { type ByteSource, fromBytes } from '../../src/weights/source.ts'
import { spmMetadata } from './vocabulary-fixture.ts'

export interface TinyOptions {
  readonly seed?: number
  readonly contextLength?: number
  readonly type?: 'f32' | 'f16'
  /** query heads (default 4), two to a key head */
  readonly heads?: number
  readonly template?: string
  /** changes what is written: settings, shapes, weights */
  readonly change?: (file: TinyFile) => void
}

/** A file before it is written. */
export interface TinyFile {
  readonly metadata: Map<string, MetaValue>
  readonly tensors: Map<string, TensorToWrite>
}

export const [BOS, EOS] = [1, 2] as const
const SHAPE = { width: 64, layers: 2, hidden: 96 }
const TEMPLATE =
  "{% for m in messages %}{{ m.role[0] + '!' + m.content + ' ' }}{% endfor %}{% if add_generation_prompt %}{{ 'a!' }}{% endif %}"

/** The bytes of the file. */
export async function tinyBytes(options: TinyOptions = {}): Promise<Uint8Array> {
  const { contextLength = 128, type = 'f32', template = TEMPLATE, seed = 1, heads = 4, change } = options
  const tokenizer = spmMetadata()
  const vocabulary = (tokenizer.get('tokenizer.ggml.tokens') as readonly string[]).length
  const { width, layers, hidden } = SHAPE
  const kvHeads = heads / 2
  const number = (name: string, value: number, kind: 'u32' | 'f32' = 'u32'): [string, MetaValue] => [`llama.${name}`, { type: kind, value }]
  const metadata: [string, MetaValue][] = [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['general.name', { type: 'string', value: 'tiny' }],
    number('context_length', contextLength),
    number('embedding_length', width),
    number('block_count', layers),
    number('feed_forward_length', hidden),
    number('attention.head_count', heads),
    number('attention.head_count_kv', kvHeads),
    number('attention.layer_norm_rms_epsilon', 1e-5, 'f32'),
    number('rope.freq_base', 10000, 'f32'),
    number('vocab_size', vocabulary),
    ...[...tokenizer].map(([key, value]): [string, MetaValue] => [key, metaOf(value)]),
    ['tokenizer.ggml.bos_token_id', { type: 'u32', value: BOS }],
    ['tokenizer.ggml.eos_token_id', { type: 'u32', value: EOS }],
    ['tokenizer.chat_template', { type: 'string', value: template }],
  ]
  const random = randomFrom(seed)
  const matrix = (name: string, columns: number, rows: number): TensorToWrite => ({
    name,
    type,
    dims: [columns, rows],
    data: () => encode(type, columns * rows, () => (random() * 2 - 1) * Math.sqrt(6 / columns)),
  })
  const norm = (name: string): TensorToWrite => ({
    name,
    type: 'f32',
    dims: [width],
    data: () => encode('f32', width, () => 0.75 + random() / 2),
  })
  const kvWidth = (width / heads) * kvHeads
  const tensors = [
    matrix('token_embd.weight', width, vocabulary),
    norm('output_norm.weight'),
    matrix('output.weight', width, vocabulary),
    ...Array.from({ length: layers }, (_, i) => [
      norm(`blk.${i}.attn_norm.weight`),
      matrix(`blk.${i}.attn_q.weight`, width, width),
      matrix(`blk.${i}.attn_k.weight`, width, kvWidth),
      matrix(`blk.${i}.attn_v.weight`, width, kvWidth),
      matrix(`blk.${i}.attn_output.weight`, width, width),
      norm(`blk.${i}.ffn_norm.weight`),
      matrix(`blk.${i}.ffn_gate.weight`, width, hidden),
      matrix(`blk.${i}.ffn_up.weight`, width, hidden),
      matrix(`blk.${i}.ffn_down.weight`, hidden, width),
    ]).flat(),
  ]
  const parts: Uint8Array[] = []
  const sink: ByteSink = {
    async write(bytes) {
      parts.push(bytes.slice())
    },
  }
  const file: TinyFile = { metadata: new Map(metadata), tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])) }
  change?.(file)
  await writeGguf(sink, { metadata: file.metadata, tensors: [...file.tensors.values()] })
  return new Uint8Array(Buffer.concat(parts))
}

/** A tensor of these dimensions, all zeros. */
export function plainTensor(name: string, dims: readonly number[], type: GgmlType = 'f32'): TensorToWrite {
  return { name, type, dims, data: () => new Uint8Array(tensorBytes(type, dims)) }
}

/** The file as a source that `load` takes. */
export async function tinyModel(options?: TinyOptions): Promise<ByteSource> {
  return fromBytes(await tinyBytes(options), 'tiny.gguf')
}

function metaOf(value: unknown): MetaValue {
  if (value instanceof Int32Array) return { type: 'array', of: 'i32', value }
  if (value instanceof Float32Array) return { type: 'array', of: 'f32', value }
  if (Array.isArray(value)) return { type: 'array', of: 'string', value: value as string[] }
  return { type: 'string', value: String(value) }
}

function encode(type: 'f32' | 'f16', count: number, next: () => number): Uint8Array {
  return encodeElements(type, Array.from({ length: count }, next))
}

/** Numbers from 0 to 1 (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
