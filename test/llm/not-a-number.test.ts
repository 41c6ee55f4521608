// Models that compute what is no number: every way to a result says so, on every path from the device to the caller. Never token 0.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { measurePerplexity } from '../../src/cli/perplexity.ts'
import type { GenerateOptions } from '../../src/llm/generation.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { type TinyFile, tinyModel } from './tiny-model.ts'

const PROMPT = [1, 260, 261]
const GARBAGE = expect.objectContaining({ name: 'IngotError', code: 'bad-argument', message: expect.stringContaining('garbage') }) as Error

/** All elements of a tensor become this one. */
const fill =
  (name: string, value: number) =>
  ({ tensors }: TinyFile): void => {
    const tensor = tensors.get(name)
    if (tensor === undefined) throw new Error(`no ${name}`)
    const count = tensor.dims.reduce((product, dim) => product * dim, 1)
    tensors.set(name, { ...tensor, data: () => new Uint8Array(new Float32Array(count).fill(value).buffer) })
  }

let device: Device
beforeAll(async () => {
  ;({ device } = await open('cpu', { threads: 1 }))
})
afterAll(() => device.close())

describe.each([
  ['a norm of NaN', fill('output_norm.weight', NaN)],
  ['an output of infinities', fill('output.weight', Infinity)],
  ['an output of NaN', fill('output.weight', NaN)],
  ['a layer of NaN', fill('blk.1.ffn_down.weight', NaN)],
])('%s', (_what, change) => {
  let model: Model
  beforeAll(async () => {
    model = await load(await tinyModel({ change }), { device })
  })
  afterAll(() => model.close())

  const WAYS: Readonly<Record<string, GenerateOptions>> = {
    'the best on the device': { temperature: 0 },
    'the best of a long prompt': { temperature: 0 },
    'some of the best on the device': { topK: 40, seed: 1 },
    'all logits': { topK: 0, seed: 1 },
    'all logits, changed': { temperature: 0, repetitionPenalty: 1.1 },
    'more than devices choose': { topK: 257, seed: 1 },
  }
  test.each(Object.entries(WAYS))('%s', async (way, options) => {
    const prompt = way.includes('long') ? Array.from({ length: 100 }, (_, i) => i) : PROMPT
    await expect(Promise.resolve(model.generate(prompt, { ...options, maxTokens: 3, ignoreEos: true }))).rejects.toEqual(GARBAGE)
  })

  test('logits of every position, and perplexity', async () => {
    await expect(model.evaluate(PROMPT, () => {})).rejects.toEqual(GARBAGE)
    await expect(measurePerplexity(model, 'abc abcd')).rejects.toEqual(GARBAGE)
  })
})

test.each([
  ['a norm', 'output_norm.weight'],
  ['a layer', 'blk.1.ffn_down.weight'],
])('an embedding after %s of NaN', async (_what, name) => {
  await using model = await load(await tinyModel({ change: fill(name, NaN) }), { device })
  await expect(model.embed(PROMPT)).rejects.toEqual(GARBAGE)
})

test('what begins well and turns to garbage is an error, too', async () => {
  // The row of one token: as soon as the model sees it, nothing is a number any more.
  const poison = ({ tensors }: TinyFile): void => {
    const tensor = tensors.get('token_embd.weight')
    if (tensor === undefined) throw new Error('no embedding')
    const data = tensor.data
    tensors.set('token_embd.weight', {
      ...tensor,
      data: async () => {
        const floats = new Float32Array((await (data() as Promise<Uint8Array>)).slice().buffer)
        floats.fill(NaN, 64 * 271, 64 * 272)
        return new Uint8Array(floats.buffer)
      },
    })
  }
  await using model = await load(await tinyModel({ change: poison }), { device })
  const greedy = { temperature: 0, maxTokens: 100, ignoreEos: true }
  const { tokens } = await model.generate(PROMPT, { ...greedy, maxTokens: 1 })
  expect(tokens).toHaveLength(1)
  await expect(Promise.resolve(model.generate([...PROMPT, 271], greedy))).rejects.toEqual(GARBAGE)
  // and the next prompt starts afresh
  expect((await model.generate(PROMPT, { ...greedy, maxTokens: 1 })).tokens).toEqual(tokens)
})
