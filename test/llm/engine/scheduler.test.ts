// Generations that overlap, on a tiny model with random weights: each gets the tokens that it gets alone, in fewer steps; a full cache makes
// some wait and none fail.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../../src/device/device.ts'
import { open } from '../../../src/device/open/open.ts'
import type { GenerateOptions } from '../../../src/llm/generation.ts'
import { type LoadOptions, type Model, load } from '../../../src/llm/model.ts'
import { BOS, tinyModel } from '../tiny-model.ts'

let device: Device
beforeAll(async () => {
  ;({ device } = await open('cpu', { threads: 1 }))
})
afterAll(() => device.close())

const GREEDY: GenerateOptions = { temperature: 0, ignoreEos: true, maxTokens: 20 }
const prompts = Array.from({ length: 8 }, (_, i) => [BOS, ...Array.from({ length: 3 + 5 * i }, (_, j) => 3 + ((i * 31 + j * 7) % 250))])
/** Greedy, drawn by the device, and two that the host chooses: from all logits, and from the best. */
const WAYS: readonly GenerateOptions[] = [
  GREEDY,
  { ...GREEDY, temperature: 0.8, seed: 5 },
  { ...GREEDY, temperature: 0.9, seed: 6, topK: 7 },
  { ...GREEDY, repetitionPenalty: 1.3 },
  { ...GREEDY, temperature: 1, seed: 7, typicalP: 0.9 },
]

async function withModel<T>(options: LoadOptions, work: (model: Model) => Promise<T>): Promise<T> {
  await using model = await load(await tinyModel(), { device, ...options })
  return await work(model)
}

const tokensOf = async (model: Model, prompt: readonly number[], options: GenerateOptions): Promise<readonly number[]> =>
  (await model.generate(prompt, options)).tokens

/** What each prompt gives when nobody else is there. */
async function alone(options: (i: number) => GenerateOptions): Promise<(readonly number[])[]> {
  const all: (readonly number[])[] = []
  for (const [i, prompt] of prompts.entries()) all.push(await withModel({}, (model) => tokensOf(model, prompt, options(i))))
  return all
}

describe('among seven others', () => {
  test('a sequence gets the tokens that it gets alone, however they are chosen', async () => {
    const options = (i: number): GenerateOptions => WAYS[i % WAYS.length] ?? GREEDY
    const want = await alone(options)
    const got = await withModel({}, (model) => Promise.all(prompts.map((prompt, i) => tokensOf(model, prompt, options(i)))))
    expect(got).toEqual(want)
    expect(new Set(want.map(String)).size).toBeGreaterThan(5)
  })

  test('a step is one submission, whoever shares it', async () => {
    await withModel({}, async (model) => {
      await Promise.all(prompts.map((prompt) => tokensOf(model, prompt, GREEDY))) // plans are made
      const before = device.stats.submissions
      await Promise.all(prompts.map((prompt, i) => tokensOf(model, [...prompt, 40 + i], GREEDY)))
      // What they share with those before need not be computed: a step or two of prompts, then nineteen together, and what they copy.
      expect(device.stats.submissions - before).toBeLessThan(40)
    })
  })

  test('newcomers begin while others go on', async () => {
    await withModel({}, async (model) => {
      const [first = [], ...others] = prompts
      const order: string[] = []
      const long = (async () => {
        let count = 0
        const late: Promise<unknown>[] = []
        for await (const _ of model.generate(first, { ...GREEDY, maxTokens: 90 })) {
          if (++count !== 10) continue
          late.push(...others.map(async (prompt) => tokensOf(model, prompt, GREEDY).then(() => order.push('short'))))
        }
        order.push('long')
        await Promise.all(late)
      })()
      await long
      expect(order.indexOf('long')).toBe(order.length - 1)
    })
  })

  test('one that is aborted leaves, and the others get theirs', async () => {
    const want = await alone(() => GREEDY)
    await withModel({}, async (model) => {
      const controller = new AbortController()
      const { signal } = controller
      const others = prompts.slice(1).map((prompt) => tokensOf(model, prompt, GREEDY))
      const left = (async () => {
        for await (const _ of model.generate(prompts[0] ?? [], { ...GREEDY, signal })) controller.abort('enough')
      })()
      await expect(left).rejects.toBe('enough')
      expect(await Promise.all(others)).toEqual(want.slice(1))
    })
  })
})

describe('a full cache', () => {
  test('makes those that came last wait, and all get what they get alone', async () => {
    const long = (i: number): GenerateOptions => ({ ...(WAYS[i % 3] ?? GREEDY), maxTokens: 80 })
    const want = await alone(long)
    // 128 tokens for eight that want about a hundred each
    const got = await withModel({ cacheTokens: 128 }, (model) => Promise.all(prompts.map((prompt, i) => tokensOf(model, prompt, long(i)))))
    expect(got).toEqual(want)
  })

  test('holds more where it is larger', async () => {
    await withModel({ cacheTokens: 1024 }, async (model) => {
      const together = await Promise.all(prompts.map((prompt) => tokensOf(model, prompt, { ...GREEDY, maxTokens: 60 })))
      expect(together.every((tokens) => tokens.length === 60)).toBe(true)
      // all of them are kept: none of it is computed again
      for (const [i, prompt] of prompts.entries()) {
        const { stats } = await model.generate([...prompt, ...(together[i] ?? [])], GREEDY)
        expect(stats.cachedTokens).toBe(prompt.length + 59)
      }
    })
  })
})

test('more requests than slots take turns', async () => {
  const want = await alone(() => GREEDY)
  const got = await withModel({ parallel: 3 }, (model) => Promise.all(prompts.map((prompt) => tokensOf(model, prompt, GREEDY))))
  expect(got).toEqual(want)
})

test('a deterministic generation has steps of its own, from the first token on', async () => {
  await withModel({}, async (model) => {
    const strict = { ...GREEDY, deterministic: true }
    const [prompt = []] = prompts.slice(4)
    const first = await model.generate(prompt, strict)
    const [again] = await Promise.all([model.generate(prompt, strict), ...prompts.map((other) => model.generate(other, GREEDY))])
    expect([again.tokens, again.stats.cachedTokens]).toEqual([first.tokens, 0])
  })
})

test('other work comes between the steps', async () => {
  await withModel({}, async (model) => {
    const [embedded, ...texts] = await Promise.all([
      model.embed(prompts[3] ?? []),
      ...prompts.map((prompt) => tokensOf(model, prompt, GREEDY)),
    ])
    expect(embedded).toEqual(await withModel({}, (fresh) => fresh.embed(prompts[3] ?? [])))
    expect(texts).toEqual(await alone(() => GREEDY))
  })
})

test('prompts in chunks are read beside those that go on', async () => {
  const want = await alone(() => GREEDY)
  const got = await withModel({ chunk: 8 }, (model) => Promise.all(prompts.map((prompt) => tokensOf(model, prompt, GREEDY))))
  expect(got).toEqual(want)
})
