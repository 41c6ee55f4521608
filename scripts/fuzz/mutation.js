// The changes that the fuzzer makes to a file, each a record with how often it is chosen: hyper-parameters, other metadata, tensors,
// weights (here), vocabularies and templates (text-mutation.js), bytes and lengths. Pure: a base file, a seed and a number name one case
// exactly.

import { createDummyFile } from '../../dist/llm/dummy-file.js'
import { GGML_TYPES, tensorBytes } from '../../dist/quant/type.js'
import { RandomWords, fillRandom } from '../../dist/weights/synth/block.js'
import { copyParts, findKey, putTogether, setKey } from './parts.js'
import { Random } from './random.js'
import { FUSED } from './base.js'
import { TEXT_MUTATIONS } from './text-mutation.js'

/**
 * @typedef {import('./parts.js').Parts} Parts
 * @typedef {import('./parts.js').Value} Value
 * @typedef {import('./parts.js').TensorPart} TensorPart
 * @typedef {object} Mutation
 * @property {number} share how often, beside the others
 * @property {(parts: Parts, random: Random) => string} apply changes the file, and says how
 * @typedef {{ bytes: Uint8Array, header: number }} Written
 * @typedef {object} ByteMutation
 * @property {number} share
 * @property {(file: Written, random: Random) => { bytes: Uint8Array, what: string }} rewrite of the file as written
 */

const INTEGERS = [0, 1, 2, 3, 7, -1, 127, 255, 256, 4095, 2 ** 15, 2 ** 16, 2 ** 20, 2 ** 24, 2 ** 27, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]
const LARGE = [2 ** 32, 2 ** 40, 2 ** 53 - 1, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n]
const FLOATS = [0, -0, 1, -1, 0.5, NaN, Infinity, -Infinity, 1e-45, 1e-38, 1e-6, 1e6, 1e15, 1e30, 3.4e38, -3.4e38]
const NUMBER_TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'u64', 'i64', 'f64']
const OTHER_TYPES = [...NUMBER_TYPES, 'bool', 'string', 'array', '#13', '#255']

/** Settings that architectures read, whether a file has them or not. */
const SETTINGS = [
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'attention.value_length',
  'attention.layer_norm_rms_epsilon',
  'attention.scale',
  'attention.sliding_window',
  'attention.sliding_window_pattern',
  'block_count',
  'context_length',
  'embedding_length',
  'feed_forward_length',
  'rope.dimension_count',
  'rope.freq_base',
  'rope.freq_base_swa',
  'rope.scale_linear',
  'rope.scaling.attn_factor',
  'rope.scaling.factor',
  'rope.scaling.original_context_length',
  'rope.scaling.yarn_beta_fast',
  'rope.scaling.yarn_beta_slow',
  'vocab_size',
]
const FLOAT_SETTINGS = /epsilon|scale$|freq_base|factor|beta|linear/
const GENERAL = ['general.alignment', 'general.architecture', 'general.file_type', 'split.count', 'split.no', 'split.tensors.count']
/** Tensors that some files have. */
const OPTIONAL = [
  'rope_freqs.weight',
  'rope_factors_long.weight',
  'rope_factors_short.weight',
  'output.weight',
  'blk.0.attn_qkv.weight',
  'blk.0.attn_q.bias',
]
const LARGEST_MADE = 16 << 20 // bytes of a file of other sizes
const LARGEST_GROWN = 8 << 20 // bytes of a tensor that was made larger

/** @type {Mutation[]} */
const PART_MUTATIONS = [
  { share: 20, apply: changeSetting },
  { share: 6, apply: changeTwoSettings },
  { share: 5, apply: splitHeads },
  { share: 8, apply: changeSizes },
  { share: 10, apply: changeValue },
  { share: 6, apply: changeType },
  { share: 5, apply: removeOrRepeat },
  { share: 3, apply: changeAlignment },
  { share: 14, apply: changeShape },
  { share: 7, apply: changeTensorType },
  { share: 7, apply: changeOffset },
  { share: 6, apply: changeName },
  { share: 12, apply: changeWeights },
  ...TEXT_MUTATIONS,
]

/** @type {ByteMutation[]} */
const BYTE_MUTATIONS = [
  { share: 12, rewrite: changeBytes },
  { share: 5, rewrite: changeWord },
  { share: 5, rewrite: cut },
]

const SEVERAL = 0.25 // share of cases with more than one change
const ALL_SHARES = [...PART_MUTATIONS, ...BYTE_MUTATIONS].reduce((sum, { share }) => sum + share, 0)

/** The file that a case changes. @param {readonly Parts[]} bases @returns {Parts} */
export function chooseBase(bases, /** @type {number} */ seed, /** @type {number} */ number) {
  return new Random(~seed, number).pick(bases)
}

/** One case: the bytes of a changed file, and what was changed. */
export function mutate(/** @type {Parts} */ base, /** @type {number} */ seed, /** @type {number} */ number) {
  const random = new Random(seed, number)
  const parts = copyParts(base)
  const count = random.chance(SEVERAL) ? 2 + random.below(2) : 1
  /** @type {ByteMutation[]} */
  const later = []
  const changes = []
  for (let i = 0; i < count; i++) {
    const chosen = choose(random)
    if ('apply' in chosen) changes.push(chosen.apply(parts, random))
    else later.push(chosen)
  }
  let file = putTogether(parts)
  for (const { rewrite } of later) {
    const { bytes, what } = rewrite(file, random)
    file = { bytes, header: Math.min(file.header, bytes.length) }
    changes.push(what)
  }
  return { bytes: file.bytes, what: `${base.name}: ${changes.join('; ')}` }
}

function choose(/** @type {Random} */ random) {
  let left = random.below(ALL_SHARES)
  for (const each of [...PART_MUTATIONS, ...BYTE_MUTATIONS]) {
    if (left < each.share) return each
    left -= each.share
  }
  throw new Error('the shares do not add up')
}

// ---- metadata ----

function changeSetting(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const name = random.pick(SETTINGS)
  const key = `${architectureOf(parts)}.${name}`
  const before = findKey(parts, key)
  const float = FLOAT_SETTINGS.test(name)
  if (before === undefined && name.startsWith('rope.scaling') && random.chance(0.7)) {
    setKey(parts, `${architectureOf(parts)}.rope.scaling.type`, { type: 'string', value: random.pick(['yarn', 'linear', 'none', '']) })
  }
  const value = before ?? { type: float ? 'f32' : 'u32', value: random.pick([1, 2, 4, 8, 64]) }
  return setKey(parts, key, changeNumber(value, random, float))
}

function changeTwoSettings(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  return `${changeSetting(parts, random)}; ${changeSetting(parts, random)}`
}

/** Other heads of another length in the same matrices: all that is changed fits, if the norms of heads and the rotary settings do. */
function splitHeads(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const prefix = architectureOf(parts)
  const number = (/** @type {string} */ name, /** @type {number} */ otherwise) => {
    const value = findKey(parts, `${prefix}.${name}`)?.value
    return typeof value === 'number' && value >= 1 ? value : otherwise
  }
  const heads = number('attention.head_count', 4)
  const kvHeads = number('attention.head_count_kv', heads)
  const dim = number('attention.key_length', Math.floor(number('embedding_length', 64) / heads))
  const factor = random.pick([0.25, 0.5, 2, 4, 8])
  /** @type {Record<string, number>} */
  const next = {
    'attention.head_count': heads * factor,
    'attention.head_count_kv': kvHeads * factor,
    'attention.key_length': dim / factor,
    'attention.value_length': dim / factor,
    ...(random.chance(0.7) ? { 'rope.dimension_count': dim / factor } : {}),
  }
  for (const part of parts.tensors) if (/attn_[qk]_norm/.test(part.name) && random.chance(0.9)) resize(part, [dim / factor], random)
  return Object.entries(next)
    .map(([name, value]) => setKey(parts, `${prefix}.${name}`, { type: 'u32', value }))
    .join('; ')
}

/** Another model of the same architecture: sizes that fit each other, and that no real model has. */
function changeSizes(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const architecture = architectureOf(parts)
  const size = () => random.pick([1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 31, 32, 33, 63, 64, 65, 96, 127, 128, 130, 255, 256, 257, 320])
  const kvHeads = random.pick([1, 1, 2, 3, 5, 8, 32])
  const sizes = {
    width: size(),
    kvHeads,
    heads: kvHeads * random.pick([1, 1, 2, 3, 4, 7, 8]),
    dim: 2 * random.pick([1, 2, 3, 4, 5, 8, 16, 20, 32, 33, 48, 64, 128, 256]),
    hidden: random.chance(0.1) ? 2 ** (10 + random.below(8)) : size(),
    vocabulary: countTokens(parts) ?? size(),
  }
  const format = random.pick(/** @type {const} */ (['f32', 'f32', 'f16', 'bf16', 'q8_0', 'q4_0']))
  const whole = [sizes.width, sizes.hidden, sizes.heads * sizes.dim].every((each) => each % GGML_TYPES[format].block === 0)
  const chosen = whole ? format : 'f32'
  const file = createDummyFile(architecture, { sizes, format: chosen, bias: random.chance(0.3), fused: FUSED.has(architecture) })
  const bytes = [...file.tensors.values()].reduce((sum, tensor) => sum + tensor.bytes, 0)
  if (bytes > LARGEST_MADE) return 'sizes as they were'
  for (const [key, value] of file.metadata) setKey(parts, key, value)
  for (const key of ['rope.dimension_count', 'attention.value_length'])
    setKey(parts, `${architecture}.${key}`, { type: 'u32', value: sizes.dim })
  setKey(parts, `${architecture}.context_length`, { type: 'u32', value: random.pick([1, 16, 64, 4096, 2 ** 31 - 1]) })
  const words = new RandomWords(random.below(2 ** 31))
  parts.tensors = [...file.tensors.values()].map(({ name, type, dims }) => {
    const part = { name, dims: [...dims], type: GGML_TYPES[type].id, data: new Uint8Array(tensorBytes(type, dims)) }
    if (dims.length === 1) new Float32Array(part.data.buffer).fill(1)
    else fillRandom(type, part.data, 1 / Math.sqrt(dims[0] ?? 1), words)
    return part
  })
  return `${architecture} in ${chosen} with ${JSON.stringify(sizes)}`
}

function changeValue(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  if (random.chance(0.15)) return setKey(parts, random.pick(GENERAL), { type: 'u32', value: random.pick(INTEGERS) })
  const [key, value] = random.pick(parts.keys)
  if (value.type === 'string')
    return setKey(parts, key, { type: 'string', value: random.pick(['', 'none', 'a'.repeat(70_000), '\0', '😀', 'llama', 'phi-3']) })
  if (value.type === 'bool') return setKey(parts, key, { type: 'bool', value: random.pick([false, true, 2, 255]) })
  if (value.type !== 'array') return setKey(parts, key, changeNumber(value, random, value.type.startsWith('f')))
  const items = Array.from(/** @type {ArrayLike<unknown>} */ (value.value))
  return setKey(parts, key, { ...value, value: random.pick([[], items.slice(0, 1), items.slice(1), [...items, ...items.slice(0, 3)]]) })
}

function changeType(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const [key, value] = random.pick(parts.keys)
  const type = random.pick(OTHER_TYPES)
  if (type !== 'array') return setKey(parts, key, { type, value: value.type === 'array' || value.type === 'string' ? 1 : value.value })
  const of = random.pick([...NUMBER_TYPES, 'bool', 'string', 'array'])
  const item = of === 'array' ? { type: 'array', of: 'u8', value: [1] } : of === 'bool' ? 1 : value.type === 'array' ? 1 : value.value
  return setKey(parts, key, { type, of, value: Array.from({ length: random.pick([0, 1, 2, 300]) }, () => item) })
}

function removeOrRepeat(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const at = random.below(parts.keys.length)
  const [entry] = parts.keys.splice(at, 1)
  if (entry === undefined) return 'nothing'
  if (random.chance(0.7)) return `no ${entry[0]}`
  parts.keys.push(entry, entry)
  return `${entry[0]} twice`
}

/** Legal where the data follows it. */
function changeAlignment(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const alignment = random.pick([1, 2, 4, 8, 16, 64, 4096, 1 << 16, 3, 0])
  if (random.chance(0.7) && alignment > 0) parts.alignment = alignment
  return setKey(parts, 'general.alignment', { type: 'u32', value: alignment })
}

/** Near the number, or far from any that makes sense. @returns {Value} */
function changeNumber(/** @type {Value} */ { type, value }, /** @type {Random} */ random, /** @type {boolean} */ float) {
  const old = Number(value)
  const near = [
    old - 1,
    old + 1,
    old - 2,
    old + 2,
    2 * old,
    3 * old,
    Math.floor(old / 2),
    old + 2 ** random.below(20),
    old - 2 ** random.below(6),
  ]
  if (float) return { type: type.startsWith('f') ? type : 'f32', value: random.pick(random.chance(0.3) ? near : FLOATS) }
  if (random.chance(0.5)) return { type: Number.isInteger(old) && old >= 0 ? type : 'i32', value: random.pick(near) }
  const extreme = random.chance(0.8) ? random.pick(INTEGERS) : random.pick(LARGE)
  if (typeof extreme === 'bigint' || extreme >= 2 ** 32) return { type: 'u64', value: extreme }
  return { type: extreme < 0 ? 'i32' : 'u32', value: extreme }
}

// ---- tensors ----

function changeShape(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const part = random.chance(0.1) ? addOptional(parts, random) : random.pick(parts.tensors)
  const dims = [...part.dims]
  const axis = random.below(dims.length)
  const size = Number(dims[axis] ?? 1)
  const kind = random.below(6)
  if (kind === 0) dims.reverse()
  else if (kind === 1) dims[axis] = random.pick([...INTEGERS, ...LARGE])
  else if (kind === 2) dims.push(random.pick([1, 1, 2, 0]))
  else if (kind === 3 && dims.length > 1) dims.splice(axis, 1)
  else dims[axis] = random.pick([size + 1, size - 1, 2 * size, Math.floor(size / 2), size + 32, size - 32, size + 256, 1])
  const what = `${part.name} of [${part.dims.join(',')}] becomes`
  if (random.chance(0.7)) resize(part, dims, random)
  else part.dims = dims
  return `${what} [${dims.join(',')}]`
}

function addOptional(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const like = random.pick(parts.tensors)
  const part = { ...like, name: random.pick(OPTIONAL), dims: [...like.dims] }
  parts.tensors.push(part)
  return part
}

function changeTensorType(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const part = random.pick(parts.tensors)
  const known = Object.values(GGML_TYPES).map(({ id }) => id)
  const type = random.chance(0.9) ? random.pick(known) : random.pick([4, 5, 31, 43, 255, 2 ** 31, 2 ** 32 - 1])
  const what = `${part.name} of type ${part.type} becomes ${type}`
  part.type = type
  if (random.chance(0.8)) resize(part, part.dims, random)
  return what
}

function changeOffset(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const part = random.pick(parts.tensors)
  const end = parts.tensors.reduce((sum, { data }) => sum + Math.ceil(data.length / parts.alignment) * parts.alignment, 0)
  const aligned = random.below(Math.max(1, end / parts.alignment)) * parts.alignment
  part.offset = random.pick([0, aligned, aligned + 1, aligned + 4, end, end - parts.alignment, end - part.data.length, ...LARGE])
  return `the offset of ${part.name} becomes ${part.offset}`
}

function changeName(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const [part, other] = [random.pick(parts.tensors), random.pick(parts.tensors)]
  const old = part.name
  const kind = random.below(4)
  if (kind === 0) {
    parts.tensors.splice(parts.tensors.indexOf(part), 1)
    return `no ${old}`
  }
  part.name = kind === 1 ? random.pick(OPTIONAL) : other.name
  if (kind !== 3) other.name = kind === 2 ? old : other.name
  return `${old} becomes ${part.name}${kind === 2 ? ', and the other way round' : ''}`
}

/** Says these dims, with data as large as they need, if that is not absurd. */
function resize(/** @type {TensorPart} */ part, /** @type {(number | bigint)[]} */ dims, /** @type {Random} */ random) {
  part.dims = dims
  const facts = Object.values(GGML_TYPES).find(({ id }) => id === part.type)
  const elements = dims.reduce((product, dim) => product * Number(dim), 1)
  const wanted = Math.ceil((elements / (facts?.block ?? 1)) * (facts?.bytes ?? 4))
  if (!(wanted > 0 && wanted <= LARGEST_GROWN) || part.data.length === 0) return
  const data = new Uint8Array(wanted)
  for (let at = 0; at < wanted; at += part.data.length) data.set(part.data.subarray(0, wanted - at), at)
  if (random.chance(0.1)) data.fill(0)
  part.data = data
}

/** Scales and elements that are no numbers, or endless; and plain noise. */
function changeWeights(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const part = random.pick(parts.tensors)
  const data = part.data.slice()
  part.data = data
  if (data.length < 8) return `${part.name} as it was`
  const view = new DataView(data.buffer)
  const kind = random.below(5)
  if (kind === 0) {
    const byte = random.pick([0, 0x7f, 0x80, 0xff])
    data.fill(byte)
    return `${part.name} all ${byte}`
  }
  if (kind === 1) {
    const count = 1 + random.below(64)
    for (let i = 0; i < count; i++) data[random.below(data.length)] = random.below(256)
    return `${count} random bytes in ${part.name}`
  }
  const { bytes = 4 } = Object.values(GGML_TYPES).find(({ id }) => id === part.type) ?? {}
  const block = random.below(Math.floor(data.length / bytes)) * bytes
  const every = random.chance(0.2)
  const half = random.pick([0x7c00, 0xfc00, 0x7e00, 0xffff, 0x7bff, 0x0001, 0x8000])
  const word = random.pick([0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff, 0x7f7fffff, 0xff7fffff, 0x00000001])
  for (let at = every ? 0 : block; at + 4 <= data.length; at += bytes) {
    // the scale stands first in most blocks and last in some
    if (bytes === 4) view.setUint32(at, word, true)
    else view.setUint16(kind === 2 || bytes < 4 ? at : Math.min(at + bytes, data.length) - 2, half, true)
    if (!every) break
  }
  const written = `0x${(bytes === 4 ? word : half).toString(16)}`
  return `${part.name}: ${every ? 'every block' : `the block at ${block}`} gets ${written} ${kind === 2 ? 'first' : 'last'}`
}

// ---- bytes ----

/** @type {ByteMutation['rewrite']} */
function changeBytes({ bytes, header }, random) {
  const out = bytes.slice()
  const count = 1 + random.below(4)
  const changes = Array.from({ length: count }, () => {
    const at = random.below(Math.max(1, header))
    const old = out[at] ?? 0
    const byte = random.pick([0, 1, 0x7f, 0x80, 0xff, random.below(256), old ^ (1 << random.below(8)), old + 1, old - 1]) & 0xff
    out[at] = byte
    return `byte ${at} from ${old} to ${byte}`
  })
  return { bytes: out, what: changes.join(', ') }
}

/** @type {ByteMutation['rewrite']} */
function changeWord({ bytes, header }, random) {
  const out = bytes.slice()
  const at = random.chance(0.2) ? random.pick([0, 4, 8, 16]) : random.below(Math.max(1, header - 8))
  const value = random.pick([...INTEGERS, ...LARGE])
  if (out.length >= at + 8) new DataView(out.buffer).setBigUint64(at, BigInt.asUintN(64, BigInt(value)), true)
  return { bytes: out, what: `the eight bytes at ${at} become ${value}` }
}

/** @type {ByteMutation['rewrite']} */
function cut({ bytes, header }, random) {
  const length = random.pick([random.below(header + 1), random.below(bytes.length + 1), bytes.length - 1, 0, 3, 24])
  return { bytes: bytes.slice(0, length), what: `cut to ${length} bytes` }
}

/** How many tokens the file lists, if it does. */
function countTokens(/** @type {Parts} */ parts) {
  const value = findKey(parts, 'tokenizer.ggml.tokens')
  return value?.type === 'array' ? Math.max(1, /** @type {ArrayLike<unknown>} */ (value.value).length) : undefined
}

function architectureOf(/** @type {Parts} */ parts) {
  return String(findKey(parts, 'general.architecture')?.value ?? 'llama').slice(0, 64)
}
