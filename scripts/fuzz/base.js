// The files that the fuzzer changes: small ones of its own, every architecture in several formats and with both kinds of vocabulary, and
// real ones where they are at hand. Each is whole and runs; what is wrong with a case is what was changed.

import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createDummyFile } from '../../dist/llm/dummy-file.js'
import { ARCHITECTURES } from '../../dist/model/index.js'
import { GGML_TYPES, tensorBytes } from '../../dist/quant/type.js'
import { RandomWords, fillRandom } from '../../dist/weights/synth/block.js'
import { takeApart } from './parts.js'

/** @typedef {import('./parts.js').Parts} Parts */

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const REAL = [join(ROOT, '../shared/data/models'), join(ROOT, '../shared/data/models/tiny-arch')]
const LARGEST_REAL = 6 << 20 // bytes: a case is written, read and run in milliseconds

/** Formats by turns: two for each architecture, so that all of them meet shapes, blocks and packed layouts. */
const FORMATS = /** @type {const} */ (['f32', 'q4_k', 'q8_0', 'f16', 'q6_k', 'q4_0', 'bf16', 'q5_k', 'iq4_nl', 'q2_k', 'mxfp4'])
const OF_EACH = 2
/** Architectures that files write with several matrices in one tensor. */
export const FUSED = new Set(['phi3'])
const TEMPLATE =
  "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

/** Every file there is to change, by name. @returns {Promise<Parts[]>} */
export async function loadBases() {
  return [...ownFiles(), ...(await realFiles())]
}

async function realFiles() {
  const paths = REAL.flatMap((folder) =>
    existsSync(folder)
      ? readdirSync(folder)
          .sort()
          .map((name) => join(folder, name))
      : [],
  )
  const models = paths.filter((path) => path.endsWith('.gguf') && !path.includes('.results.') && statSync(path).size <= LARGEST_REAL)
  return Promise.all(models.map((path) => takeApart(basename(path, '.gguf'), new Uint8Array(readFileSync(path)))))
}

function ownFiles() {
  return ARCHITECTURES.flatMap(({ names: [name = ''] }, i) =>
    Array.from({ length: OF_EACH }, (_, j) => ownFile(name, FORMATS[(OF_EACH * i + j) % FORMATS.length] ?? 'f32', j === 1)),
  )
}

/** @returns {Parts} */
function ownFile(/** @type {string} */ architecture, /** @type {typeof FORMATS[number]} */ format, /** @type {boolean} */ second) {
  const vocabulary = second ? byteLevel() : sentencePieces()
  const wide = GGML_TYPES[format].block > 32
  const sizes = wide
    ? { width: 256, heads: 4, kvHeads: 2, dim: 64, hidden: 256, vocabulary: vocabulary.tokens.length }
    : { width: 64, heads: 4, kvHeads: 2, dim: 16, hidden: 96, vocabulary: vocabulary.tokens.length }
  const { metadata, tensors, alignment } = createDummyFile(architecture, { sizes, format, bias: second, fused: FUSED.has(architecture) })
  const random = new RandomWords(1)
  return {
    name: `own-${architecture}-${format}`,
    alignment,
    keys: [...metadata, ...vocabulary.keys, ['tokenizer.chat_template', { type: 'string', value: TEMPLATE }]],
    tensors: [...tensors.values()].map(({ name, type, dims }) => {
      const data = new Uint8Array(tensorBytes(type, dims))
      if (dims.length === 1) new Float32Array(data.buffer).fill(name.endsWith('.bias') ? 0.125 : 1)
      else fillRandom(type, data, 1 / Math.sqrt(dims[0] ?? 1), random)
      return { name, dims: [...dims], type: GGML_TYPES[type].id, data }
    }),
  }
}

/** All bytes and a few pieces. */
function sentencePieces() {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const pieces = ['▁', '▁t', 'he', '▁the', 'e', 'o', 'n', 'ce', '▁a', 'ti', 'me', 'm', 'i', 't']
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...pieces]
  const types = tokens.map((_, id) => (id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1))
  return { tokens, keys: vocabularyKeys('llama', tokens, types, { bos: 1, eos: 2, unknown: 0 }) }
}

/** The printable stand-ins for bytes, of which the first 256 letters of that order will do, and a few merges. */
function byteLevel() {
  const printable = (/** @type {number} */ byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
  let spare = 256
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : spare++))
  const merges = ['t h', 'th e', 'Ġ the', 'o n', 'c e', 'on ce', 'Ġ t', 'i m', 'im e']
  const tokens = [...letters, ...merges.map((merge) => merge.replace(' ', '')), '<|endoftext|>', '<|im_end|>']
  const types = tokens.map((text) => (text.startsWith('<|') ? 3 : 1))
  const end = tokens.length - 2
  /** @type {Parts['keys']} */
  const more = [
    ['tokenizer.ggml.pre', { type: 'string', value: 'gpt-2' }],
    ['tokenizer.ggml.merges', { type: 'array', of: 'string', value: merges }],
  ]
  return { tokens, keys: [...vocabularyKeys('gpt2', tokens, types, { bos: end, eos: end + 1 }), ...more] }
}

/** @returns {Parts['keys']} */
function vocabularyKeys(
  /** @type {string} */ model,
  /** @type {string[]} */ tokens,
  /** @type {number[]} */ types,
  /** @type {Record<string, number>} */ special,
) {
  return [
    ['tokenizer.ggml.model', { type: 'string', value: model }],
    ['tokenizer.ggml.tokens', { type: 'array', of: 'string', value: tokens }],
    ['tokenizer.ggml.token_type', { type: 'array', of: 'i32', value: Int32Array.from(types) }],
    ['tokenizer.ggml.scores', { type: 'array', of: 'f32', value: Float32Array.from(tokens, (_, id) => -id) }],
    ...Object.entries(special).map(
      ([name, value]) => /** @type {Parts['keys'][number]} */ ([`tokenizer.ggml.${name}_token_id`, { type: 'u32', value }]),
    ),
  ]
}
