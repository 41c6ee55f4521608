// A llama model with random weights as a GGUF file: nothing it says makes sense, but it is complete, so that other programs load it
// too, and it costs what a real one of its shape costs. For benchmarks and tests.

import { IngotError } from '../../base/error.ts'
import { GGML_TYPES, type GgmlType, tensorBytes } from '../../quant/type.ts'
import { QUANTIZATION_VERSION, fileTypeOf } from '../gguf/file-type.ts'
import type { MetaValue } from '../gguf/meta.ts'
import { type TensorToWrite, type WriteOptions, writeGguf } from '../gguf/write.ts'
import type { ByteSink } from '../sink.ts'
import { RandomWords, fillRandom } from './block.ts'

export interface SynthShape {
  readonly width: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly hidden: number
  readonly vocabulary: number
}

/** By name: TinyLlama 1.1B and LLaMA-160M. */
export const SHAPES: Readonly<Record<string, SynthShape>> = {
  '1b': { width: 2048, layers: 22, heads: 32, kvHeads: 4, hidden: 5632, vocabulary: 32000 },
  '160m': { width: 768, layers: 12, heads: 12, kvHeads: 12, hidden: 3072, vocabulary: 32000 },
}

export interface SynthOptions extends WriteOptions {
  readonly shape: SynthShape
  readonly type: GgmlType
  readonly name?: string
  /** the same seed gives the same file (default 1) */
  readonly seed?: number
  /** the context length that the file states (default 2048) */
  readonly contextLength?: number
  /** how far the weights of queries and keys spread, as a multiple of the others (default 5, see below) */
  readonly scoreSpread?: number
}

/** `<unk>`, `<s>`, `</s>` and the bytes */
const SPECIAL = ['<unk>', '<s>', '</s>'] as const
export const LEAST_VOCABULARY = SPECIAL.length + 256
/** Bytes of one piece. */
const PIECE = 8 << 20

/** Writes the model; gives the bytes and the parameters. */
export async function synthesize(to: string | ByteSink, options: SynthOptions): Promise<{ bytes: number; parameters: number }> {
  const { shape, type, seed = 1, scoreSpread = SCORE_SPREAD } = options
  checkShape(shape)
  const tensors = tensorsOf(shape).map(([name, dims], index): TensorToWrite => {
    const own = fittingType(type, dims)
    return {
      name,
      type: own,
      dims,
      data: () => randomData(own, dims, /attn_[qk]\./.test(name) ? scoreSpread : 1, new RandomWords(Math.imul(seed, 0x01000193) ^ index)),
    }
  })
  const bytes = await writeGguf(to, { metadata: metadataOf(options), tensors }, options)
  return { bytes, parameters: tensors.reduce((sum, { dims }) => sum + dims.reduce((product, dim) => product * dim, 1), 0) }
}

export function checkShape({ width, layers, heads, kvHeads, hidden, vocabulary }: SynthShape): void {
  const wrong = (what: string, got: unknown, wanted: string): IngotError =>
    new IngotError('bad-argument', what, { op: 'synth', got, wanted })
  for (const size of [width, layers, heads, kvHeads, hidden, vocabulary]) {
    if (!Number.isSafeInteger(size) || size < 1) throw wrong('bad size', size, 'whole numbers from 1')
  }
  if (width % (2 * heads) !== 0)
    throw wrong('the width must be an even multiple of the heads', `${width} with ${heads} heads`, 'heads of an even size')
  if (heads % kvHeads !== 0) throw wrong('the key and value heads must divide the heads', kvHeads, `a divisor of ${heads}`)
  if (vocabulary < LEAST_VOCABULARY)
    throw wrong('the vocabulary is too small', vocabulary, `at least ${LEAST_VOCABULARY}: the bytes and three more`)
}

function tensorsOf({ width, layers, heads, kvHeads, hidden, vocabulary }: SynthShape): (readonly [string, readonly number[]])[] {
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
    ['output.weight', [width, vocabulary]],
    ...blocks.flat(),
  ]
}

function fittingType(type: GgmlType, [row = 1, ...rest]: readonly number[]): GgmlType {
  if (rest.length === 0) return 'f32'
  return [type, 'q8_0' as const].find((each) => row % GGML_TYPES[each].block === 0) ?? 'f16'
}

/**
 * Weights spread so that a layer keeps the size of what goes through it, but for those of queries and keys: scores of real models
 * differ by tens, so that most weights of a softmax are tiny, and many subnormal. Those cost some processors dearly.
 */
const SCORE_SPREAD = 5

/** Norms are ones. */
function* randomData(type: GgmlType, dims: readonly number[], spread: number, random: RandomWords): Generator<Uint8Array> {
  const [row = 1, ...rest] = dims
  if (rest.length === 0) {
    yield new Uint8Array(new Float32Array(row).fill(1).buffer)
    return
  }
  const total = tensorBytes(type, dims)
  const { bytes } = GGML_TYPES[type]
  const buffer = new Uint8Array(Math.min(total, Math.floor(PIECE / bytes) * bytes))
  for (let at = 0; at < total; at += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, total - at))
    fillRandom(type, piece, spread / Math.sqrt(row), random)
    yield piece
  }
}

function metadataOf({ shape, type, name = 'synth', contextLength = 2048 }: SynthOptions): [string, MetaValue][] {
  const u32 = (value: number): MetaValue => ({ type: 'u32', value })
  const text = (value: string): MetaValue => ({ type: 'string', value })
  const { tokens, scores, types } = vocabularyOf(shape.vocabulary)
  return [
    ['general.architecture', text('llama')],
    ['general.name', text(name)],
    ['general.file_type', u32(fileTypeOf(type))],
    ['general.quantization_version', u32(QUANTIZATION_VERSION)],
    ['llama.vocab_size', u32(shape.vocabulary)],
    ['llama.context_length', u32(contextLength)],
    ['llama.embedding_length', u32(shape.width)],
    ['llama.block_count', u32(shape.layers)],
    ['llama.feed_forward_length', u32(shape.hidden)],
    ['llama.rope.dimension_count', u32(shape.width / shape.heads)],
    ['llama.rope.freq_base', { type: 'f32', value: 10000 }],
    ['llama.attention.head_count', u32(shape.heads)],
    ['llama.attention.head_count_kv', u32(shape.kvHeads)],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'f32', value: 1e-5 }],
    ['tokenizer.ggml.model', text('llama')],
    ['tokenizer.ggml.pre', text('default')],
    ['tokenizer.ggml.tokens', { type: 'array', of: 'string', value: tokens }],
    ['tokenizer.ggml.scores', { type: 'array', of: 'f32', value: scores }],
    ['tokenizer.ggml.token_type', { type: 'array', of: 'i32', value: types }],
    ['tokenizer.ggml.bos_token_id', u32(1)],
    ['tokenizer.ggml.eos_token_id', u32(2)],
    ['tokenizer.ggml.unknown_token_id', u32(0)],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
    ['tokenizer.ggml.add_eos_token', { type: 'bool', value: false }],
  ]
}

/** SentencePiece as llama has it: specials, bytes, then characters and words `w0`, `w1`... whose every beginning is a token, too. */
function vocabularyOf(count: number): { tokens: string[]; scores: Float32Array; types: Int32Array } {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const characters = ['▁', ...Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)), '▁w']
  const fixed = [...SPECIAL, ...bytes, ...characters].slice(0, count)
  const tokens = [...fixed, ...Array.from({ length: count - fixed.length }, (_, i) => `▁w${i}`)]
  const types = Int32Array.from(tokens, (_, i) => (i === 0 ? 2 : i < SPECIAL.length ? 3 : i < LEAST_VOCABULARY ? 6 : 1))
  return { tokens, scores: Float32Array.from(tokens, (_, i) => (i < LEAST_VOCABULARY ? 0 : LEAST_VOCABULARY - i)), types }
}
