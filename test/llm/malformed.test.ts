// Files that say what cannot be: numbers out of range, numbers that contradict each other, tensors of another shape or format than
// the architecture wants. Each is refused by `load`, before anything is computed, with the name of what is wrong.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { Engine } from '../../src/llm/engine/engine.ts'
import { load } from '../../src/llm/model.ts'
import type { MetaValue } from '../../src/weights/gguf/meta.ts'
import { type TinyFile, plainTensor, tinyModel } from './tiny-model.ts'

let device: Device
beforeAll(async () => {
  ;({ device } = await open('cpu', { threads: 1 }))
})
afterAll(() => device.close())

const u32 = (value: number): MetaValue => ({ type: 'u32', value })
const f32 = (value: number): MetaValue => ({ type: 'f32', value })
const text = (value: string): MetaValue => ({ type: 'string', value })
const set =
  (key: string, value: MetaValue) =>
  ({ metadata }: TinyFile): void =>
    void metadata.set(`llama.${key}`, value)
const put =
  (name: string, dims: readonly number[], type: Parameters<typeof plainTensor>[2] = 'f32') =>
  ({ tensors }: TinyFile): void =>
    void tensors.set(name, plainTensor(name, dims, type))
const both =
  (...changes: readonly ((file: TinyFile) => void)[]) =>
  (file: TinyFile): void =>
    changes.forEach((change) => change(file))

/** The smallest numbers above 0. */
const tinyFactors = ({ tensors }: TinyFile): void =>
  void tensors.set('rope_freqs.weight', {
    ...plainTensor('rope_freqs.weight', [8]),
    data: () => new Uint8Array(new Uint32Array(8).fill(1).buffer),
  })

/** What is wrong, how it is made, what the error says. */
const BAD: readonly (readonly [string, (file: TinyFile) => void, RegExp])[] = [
  ['no heads', set('attention.head_count', u32(0)), /head_count is out of range, got 0, wanted a whole number from 1/],
  ['a negative number of heads', set('attention.head_count', { type: 'i32', value: -4 }), /head_count is out of range, got -4/],
  ['half a head', set('attention.head_count', f32(2.5)), /head_count is out of range, got 2.5/],
  ['heads that do not divide the width', set('attention.head_count', u32(3)), /head_count_kv must divide/],
  ['more heads than the width', set('attention.head_count', u32(128)), /key_length is out of range, got 0.5/],
  ['no key heads', set('attention.head_count_kv', u32(0)), /head_count_kv is out of range/],
  ['more key heads than heads', set('attention.head_count_kv', u32(8)), /head_count_kv is out of range/],
  [
    'fewer key heads than the tensors have',
    set('attention.head_count_kv', u32(1)),
    /blk.0.attn_k.weight.*wrong shape, got \[32,64\], wanted \[16,64\]/,
  ],
  ['more key heads than the tensors have', set('attention.head_count_kv', u32(4)), /blk.0.attn_k.weight.*wrong shape/],
  ['longer keys', set('attention.key_length', u32(32)), /blk.0.attn_q.weight.*wrong shape, got \[64,64\], wanted \[128,64\]/],
  [
    'more elements of heads than any model has',
    both(set('attention.head_count', u32(2 ** 10)), set('attention.head_count_kv', u32(1)), set('attention.key_length', u32(2 ** 10))),
    /heads of attention.key_length are too many, got 1048576, wanted at most 262144/,
  ],
  ['2^19 hidden elements', set('feed_forward_length', u32(2 ** 19)), /feed_forward_length is out of range/],
  ['odd keys', set('attention.key_length', u32(15)), /key_length must be even/],
  ['other values', set('attention.value_length', u32(8)), /value_length must be attention.key_length/],
  ['another width', set('embedding_length', u32(128)), /wrong shape/],
  ['a width of 2^31', set('embedding_length', u32(2 ** 31)), /embedding_length is out of range/],
  ['no layers', set('block_count', u32(0)), /block_count is out of range/],
  ['more layers than there are', set('block_count', u32(3)), /no such tensor, got blk.2.attn_norm.weight/],
  ['2^32 - 1 layers', set('block_count', u32(2 ** 32 - 1)), /block_count is out of range/],
  ['another hidden size', set('feed_forward_length', u32(95)), /ffn_gate.weight.*wrong shape/],
  ['a text for a number', set('block_count', text('2')), /block_count has the wrong type/],
  ['no context', set('context_length', u32(0)), /context_length is out of range/],
  ['a negative context', set('context_length', { type: 'i64', value: -1 }), /context_length is out of range/],
  ['an epsilon that is no number', set('attention.layer_norm_rms_epsilon', f32(NaN)), /epsilon is out of range, got NaN/],
  ['a negative epsilon', set('attention.layer_norm_rms_epsilon', f32(-1)), /epsilon is out of range/],
  ['a negative window', set('attention.sliding_window', { type: 'i32', value: -1 }), /sliding_window is out of range/],
  ['an infinite scale', set('attention.scale', f32(Infinity)), /attention.scale is out of range/],
  ['2^27 rotary dimensions', set('rope.dimension_count', u32(2 ** 27)), /dimension_count is out of range, got 134217728, wanted .* to 16/],
  ['an odd number of rotary dimensions', set('rope.dimension_count', u32(7)), /dimension_count must be even/],
  ['no rotary base', set('rope.freq_base', f32(0)), /freq_base is out of range/],
  ['a rotary base that is no number', set('rope.freq_base', f32(NaN)), /freq_base is out of range/],
  ['a negative rotary factor', set('rope.scaling.factor', f32(-2)), /scaling.factor is out of range/],
  [
    'YaRN without a factor',
    both(set('rope.scaling.type', text('yarn')), set('rope.scaling.factor', f32(0))),
    /scaling.factor is out of range/,
  ],
  ['rotary factors that give infinite angles', tinyFactors, /settings of rope give no frequencies/],
  ['too few rotary factors', put('rope_freqs.weight', [7]), /rope_freqs.weight.*wrong shape, got \[7\], wanted \[8\]/],
  ['rotary factors of 0', put('rope_freqs.weight', [8]), /rope_freqs.weight holds a number that cannot divide, got 0/],
  ['a norm of one element', put('output_norm.weight', [1]), /output_norm.weight.*wrong shape, got \[1\], wanted \[64\]/],
  ['a norm that is a matrix', put('output_norm.weight', [64, 2]), /output_norm.weight.*wrong shape/],
  ['a query that is too high', put('blk.1.attn_q.weight', [64, 65]), /blk.1.attn_q.weight.*wrong shape, got \[65,64\], wanted \[64,64\]/],
  ['a value that is too narrow', put('blk.1.attn_v.weight', [63, 32]), /blk.1.attn_v.weight.*wrong shape/],
  ['a matrix of three axes', put('blk.1.attn_v.weight', [64, 16, 2]), /blk.1.attn_v.weight.*wrong shape/],
  ['a bias that is too short', put('blk.0.attn_q.bias', [63]), /blk.0.attn_q.bias.*wrong shape/],
  ['another embedding', put('token_embd.weight', [63, 300]), /token_embd.weight.*wrong shape/],
  [
    'more rows than tokens',
    both(put('token_embd.weight', [64, 300]), put('output.weight', [64, 300])),
    /tokens does not fit.*got 282 tokens, wanted 300/,
  ],
  ['more tokens than rows', both(put('token_embd.weight', [64, 281]), put('output.weight', [64, 281])), /tokens does not fit.*wanted 281/],
  ['an output of another vocabulary', put('output.weight', [64, 10]), /output.weight.*wrong shape/],
]

/** What is well formed, and not what Ingot computes with. */
const UNSUPPORTED: readonly (readonly [string, (file: TinyFile) => void, RegExp])[] = [
  ['a norm of halves', put('output_norm.weight', [64], 'f16'), /output_norm.weight in this format, got f16, wanted f32/],
  ['a bias of bytes', put('blk.0.attn_q.bias', [64], 'i8'), /attn_q.bias in this format, got i8/],
  ['a matrix of integers', put('blk.0.attn_q.weight', [64, 64], 'i32'), /attn_q.weight in this format, got i32/],
  ['a matrix of doubles', put('blk.0.attn_q.weight', [64, 64], 'f64'), /attn_q.weight in this format, got f64/],
]

describe('load refuses', () => {
  test.each(BAD)('%s', async (_what, change, message) => {
    const { buffers } = device.stats
    const loading = load(await tinyModel({ change }), { device })
    await expect(loading).rejects.toMatchObject({ name: 'IngotError', code: 'bad-file', message: expect.stringMatching(message) as string })
    expect(device.stats.buffers).toBe(buffers)
  })

  test.each(UNSUPPORTED)('%s', async (_what, change, message) => {
    const loading = load(await tinyModel({ change }), { device })
    await expect(loading).rejects.toMatchObject({ code: 'unsupported', message: expect.stringMatching(message) as string })
  })
})

test('one row is a matrix even where the file leaves its height out', async () => {
  const change = both(
    set('attention.head_count', u32(2)),
    set('attention.head_count_kv', u32(1)),
    set('attention.key_length', u32(2)),
    set('feed_forward_length', u32(1)),
    ({ tensors }) => {
      for (const layer of [0, 1]) {
        for (const [name, dims] of Object.entries({
          attn_q: [64, 4],
          attn_k: [64, 2],
          attn_v: [64, 2],
          attn_output: [4, 64],
          ffn_gate: [64],
          ffn_up: [64],
          ffn_down: [1, 64],
        })) {
          const full = `blk.${layer}.${name}.weight`
          tensors.set(full, plainTensor(full, dims))
        }
      }
    },
  )
  await using model = await load(await tinyModel({ change }), { device })
  expect((await model.generate([1, 260], { temperature: 0, maxTokens: 2, ignoreEos: true })).tokens).toHaveLength(2)
})

test('a cache that is many times the model must be asked for', async () => {
  const [heads, dim] = [1024, 32]
  const change = both(
    set('context_length', u32(2 ** 20)),
    set('attention.head_count', u32(heads)),
    set('attention.head_count_kv', u32(heads)),
    set('attention.key_length', u32(dim)),
    ...[0, 1].flatMap((layer) => [
      ...['q', 'k', 'v'].map((name) => put(`blk.${layer}.attn_${name}.weight`, [64, heads * dim])),
      put(`blk.${layer}.attn_output.weight`, [heads * dim, 64]),
    ]),
  )
  const file = await tinyModel({ change })
  const { buffers } = device.stats
  await expect(load(file, { device })).rejects.toMatchObject({
    code: 'too-large',
    message: expect.stringMatching(/the cache of 4096 positions would be many times the model, got 1090519040 bytes/) as string,
  })
  expect(device.stats.buffers).toBe(buffers)
  await using model = await load(await tinyModel({ change }), { device, contextLength: 64 })
  expect(model.contextLength).toBe(64)
})

test('a model that cannot be planned leaves no memory behind', async () => {
  await using loaded = await load(await tinyModel(), { device })
  const fail = (): never => {
    throw new Error('no such operation')
  }
  const before = device.stats.buffers
  const engine = new Engine(device, { ...loaded.engine.model, forward: fail }, loaded.engine.options)
  await expect(engine.prefill([1], 'argmax')).rejects.toThrow('no such operation')
  await expect(engine.trace([1])).rejects.toThrow('no such operation')
  await engine.close()
  expect(device.stats.buffers).toBe(before)
})
