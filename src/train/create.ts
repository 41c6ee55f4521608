// A new model, before it has learnt anything: a Llama of a given shape with random weights and a vocabulary of its own, as a GGUF file.
//
// What each layer adds to the stream is small at first, and smaller the more layers there are: the embedding must not drown in it, or no
// layer can tell which word to repeat, and a model learns to copy names late or never.

import { IngotError } from '../base/error.ts'
import { type TrainedTokenizer, tokenizerMetadata } from '../llm/tokenizer/train.ts'
import { tensorElements } from '../quant/type.ts'
import type { MetaValue } from '../weights/gguf/meta.ts'
import { writeGguf } from '../weights/gguf/write.ts'
import type { ByteSink } from '../weights/sink.ts'
import { RandomWords, fillRandom } from '../weights/synth/block.ts'
import { type LlamaShape, checkLlama, llamaMetadata, llamaTensors } from '../weights/synth/llama.ts'

/** The sizes of a new model. Its vocabulary is that of its tokenizer. */
export interface NewShape extends Omit<LlamaShape, 'vocabulary'> {
  /** tokens a sequence may have */
  readonly context: number
}

/** By name; parameters are counted with a vocabulary of 2,048. */
export const NEW_SHAPES = {
  /** 0.4 M parameters, for tests */
  nano: { width: 96, layers: 2, heads: 3, kvHeads: 3, hidden: 256, tied: true, context: 256 },
  /** 3.1 M parameters: the default model */
  tiny: { width: 256, layers: 4, heads: 8, kvHeads: 8, hidden: 512, tied: true, context: 512 },
  /** 13 M parameters */
  small: { width: 384, layers: 8, heads: 6, kvHeads: 3, hidden: 1024, tied: true, context: 512 },
} as const satisfies Record<string, NewShape>

/** What people write, to what it is called here. */
const SIZES = { dim: 'width', layers: 'layers', heads: 'heads', kv: 'kvHeads', hidden: 'hidden', context: 'context' } as const

/** Reads `tiny`, or `dim=256,layers=4,heads=8,kv=8,hidden=512,context=512,untied`; what is not said is as in `tiny`. */
export function readShape(text: string): NewShape {
  const wrong = (got: string): IngotError =>
    new IngotError('bad-argument', 'no such shape', {
      op: 'readShape',
      got,
      wanted: `${Object.keys(NEW_SHAPES).join(', ')}, or sizes: ${Object.keys(SIZES).join('=N,')}=N,untied`,
    })
  const named = Object.entries(NEW_SHAPES).find(([name]) => name === text.toLowerCase())
  if (named !== undefined) return named[1]
  const given: { -readonly [K in keyof NewShape]?: NewShape[K] } = {}
  for (const part of text.split(',').map((each) => each.trim())) {
    const [, key = '', digits = ''] = /^(\w+)=(\d+)$/.exec(part) ?? []
    if (part === 'tied' || part === 'untied') given.tied = part === 'tied'
    else if (key in SIZES) given[SIZES[key as keyof typeof SIZES]] = Number(digits)
    else throw wrong(part)
  }
  // Heads of one kind, unless both are said.
  if (given.heads !== undefined) given.kvHeads ??= given.heads
  return { ...NEW_SHAPES.tiny, ...given }
}

export interface CreateOptions {
  readonly shape: NewShape
  readonly tokenizer: TrainedTokenizer
  /** the same seed gives the same file (default 1) */
  readonly seed?: number
  /** as the file calls itself */
  readonly name?: string
  /** Jinja (default: turns between the marks of the tokenizer) */
  readonly chatTemplate?: string
}

/** Turns as `<|user|>Hello!<|end|>`; a system message has no mark of its own, and is left out. */
export const CHAT_TEMPLATE =
  "{{ bos_token }}{% for message in messages %}{% if message['role'] != 'system' %}" +
  "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

/** Writes the model, in f32; gives the bytes and the parameters. */
export async function createModel(to: string | ByteSink, options: CreateOptions): Promise<{ bytes: number; parameters: number }> {
  const { shape, tokenizer, seed = 1, name = 'new', chatTemplate = CHAT_TEMPLATE } = options
  const sizes: LlamaShape = { ...shape, vocabulary: tokenizer.tokens.length }
  checkLlama(sizes, 'createModel')
  const { context } = shape
  if (!Number.isSafeInteger(context) || context < 1)
    throw new IngotError('bad-argument', 'no such context', { op: 'createModel', got: context, wanted: 'a whole number from 1' })
  const tensors = llamaTensors(sizes)
  const metadata: [string, MetaValue][] = [
    ...llamaMetadata(sizes, { name, contextLength: context, type: 'f32' }),
    ...tokenizerMetadata(tokenizer),
    ['tokenizer.chat_template', { type: 'string', value: chatTemplate }],
  ]
  const bytes = await writeGguf(to, {
    metadata,
    tensors: tensors.map(([tensor, dims], index) => ({
      name: tensor,
      type: 'f32',
      dims,
      data: () => firstValues(tensor, dims, shape.layers, new RandomWords(Math.imul(seed, 0x01000193) ^ index)),
    })),
  })
  return { bytes, parameters: tensors.reduce((sum, [, dims]) => sum + tensorElements(dims), 0) }
}

/**
 * Standard deviations: of the embedding, and of matrices whose inputs have size 1 and outputs this. With an embedding as large as this the
 * first guess is the token just read, and what comes again is learnt sooner than from an even guess.
 */
const [EMBEDDING_SPREAD, OUTPUT_SPREAD] = [0.1, 0.4]

function firstValues(name: string, dims: readonly number[], layers: number, random: RandomWords): Uint8Array {
  const [columns = 1, ...rest] = dims
  if (rest.length === 0) return new Uint8Array(new Float32Array(columns).fill(1).buffer)
  const out = new Uint8Array(4 * tensorElements(dims))
  const joins = /attn_output|ffn_down/.test(name)
  const spread = OUTPUT_SPREAD / Math.sqrt(columns)
  fillRandom('f32', out, name.startsWith('token_embd') ? EMBEDDING_SPREAD : joins ? spread / Math.sqrt(2 * layers) : spread, random)
  return out
}
