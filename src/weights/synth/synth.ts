// A llama model with random weights as a GGUF file: nothing it says makes sense, but it is complete, so that other programs load it
// too, and it costs what a real one of its shape costs. For benchmarks and tests.

import { IngotError } from '../../base/error.ts'
import { GGML_TYPES, type GgmlType, tensorBytes } from '../../quant/type.ts'
import type { MetaValue } from '../gguf/meta.ts'
import { type TensorToWrite, type WriteOptions, writeGguf } from '../gguf/write.ts'
import type { ByteSink } from '../sink.ts'
import { RandomWords, fillRandom } from './block.ts'
import { type LlamaShape, checkLlama, llamaMetadata, llamaTensors } from './llama.ts'

/** By name: TinyLlama 1.1B and LLaMA-160M. */
export const SHAPES: Readonly<Record<string, LlamaShape>> = {
  '1b': { width: 2048, layers: 22, heads: 32, kvHeads: 4, hidden: 5632, vocabulary: 32000 },
  '160m': { width: 768, layers: 12, heads: 12, kvHeads: 12, hidden: 3072, vocabulary: 32000 },
}

export interface SynthOptions extends WriteOptions {
  readonly shape: LlamaShape
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
  const tensors = llamaTensors(shape).map(([name, dims], index): TensorToWrite => {
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

/** Refuses sizes that make no model, and vocabularies without room for the bytes. */
export function checkShape(shape: LlamaShape): void {
  checkLlama(shape, 'synth')
  if (shape.vocabulary >= LEAST_VOCABULARY) return
  throw new IngotError('bad-argument', 'the vocabulary is too small', {
    op: 'synth',
    got: shape.vocabulary,
    wanted: `at least ${LEAST_VOCABULARY}: the bytes and three more`,
  })
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
    ...llamaMetadata(shape, { name, contextLength, type }),
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
