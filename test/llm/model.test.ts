// The model as users hold it, on a tiny one with random weights: results awaited and iterated, cancelled, queued, closed.

import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { MOST_CHOSEN } from '../../src/kernel/select/topk.ts'
import type { GenerateOptions } from '../../src/llm/generation.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { BOS, tinyBytes, tinyModel } from './tiny-model.ts'

const GREEDY: GenerateOptions = { temperature: 0, ignoreEos: true, maxTokens: 12 }
const PROMPT = [BOS, 260, 261, 262, 270, 271]

let device: Device
let model: Model
beforeAll(async () => {
  ;({ device } = await open('cpu', { threads: 1 }))
  model = await load(await tinyModel(), { device })
})
afterAll(async () => {
  await model.close()
  await device.close()
})

describe('a generation', () => {
  test('is awaited whole or iterated, with the same text', async () => {
    const whole = await model.generate(PROMPT, GREEDY)
    const pieces: string[] = []
    for await (const piece of model.generate(PROMPT, GREEDY)) pieces.push(piece)
    expect(pieces.join('')).toBe(whole.text)
    expect(whole.text).toBe(model.tokenizer.decode(whole.tokens, { continuation: true }))
    expect(whole).toMatchObject({ finishReason: 'length', stats: { promptTokens: 6, generatedTokens: 12, submissionsPerToken: 1 } })
  })

  test('can be iterated and then awaited', async () => {
    const generation = model.generate(PROMPT, GREEDY)
    let text = ''
    for await (const piece of generation) text += piece
    expect((await generation).text).toBe(text)
  })

  test('takes text, which begins with BOS', async () => {
    const { stats } = await model.generate('abc', GREEDY)
    expect(stats.promptTokens).toBe(model.tokenize('abc').length + 1)
  })

  test('gives the same text for the same seed, whatever the sampler reads back', async () => {
    for (const options of [{ topK: 40 }, { topK: 0 }, { topK: 40, repetitionPenalty: 1.2 }]) {
      const sampled = { ...options, ignoreEos: true, maxTokens: 16, seed: 7 }
      const [first, second, other] = [
        await model.generate(PROMPT, sampled),
        await model.generate(PROMPT, sampled),
        await model.generate(PROMPT, { ...sampled, seed: 8 }),
      ]
      expect(second.tokens).toEqual(first.tokens)
      expect(other.tokens).not.toEqual(first.tokens)
    }
  })

  test('samples from more candidates than a device selects', async () => {
    expect(model.vocabulary).toBeGreaterThan(MOST_CHOSEN)
    const sampled = { ignoreEos: true, maxTokens: 16, seed: 7, topP: 1, minP: 0 }
    const [many, all] = [
      await model.generate(PROMPT, { ...sampled, topK: model.vocabulary }),
      await model.generate(PROMPT, { ...sampled, topK: 0 }),
    ]
    expect(many.tokens).toHaveLength(16)
    expect(new Set(many.tokens).size).toBeGreaterThan(1)
    expect(all.tokens).toHaveLength(16)
  })

  test('writes nothing when no tokens are allowed', async () => {
    expect(await model.generate(PROMPT, { ...GREEDY, maxTokens: 0 })).toMatchObject({ text: '', tokens: [], finishReason: 'length' })
    expect((await model.generate(PROMPT, { ...GREEDY, maxTokens: 1 })).tokens).toHaveLength(1)
  })

  test('ends at a stop string, which is not part of it', async () => {
    const { text } = await model.generate(PROMPT, { ...GREEDY, maxTokens: 40 })
    const stop = text.slice(10, 13)
    const stopped = await model.generate(PROMPT, { ...GREEDY, maxTokens: 40, stop: ['never in it', stop] })
    expect(stopped).toMatchObject({ text: text.slice(0, text.indexOf(stop)), finishReason: 'stop', stopped: stop })
  })

  test('fills the context and ends there', async () => {
    const { maxTokens: _, ...endless } = GREEDY
    const { tokens, finishReason } = await model.generate(PROMPT, endless)
    expect(finishReason).toBe('length')
    // the last token needs no place in the cache
    expect(tokens).toHaveLength(model.contextLength - PROMPT.length + 1)
  })

  test('refuses what cannot work, at once where it can', async () => {
    expect(() => model.generate(PROMPT, { temperature: -1 })).toThrow(/temperature/)
    expect(() => model.generate(PROMPT, { maxTokens: 1.5 })).toThrow(/maxTokens/)
    expect(() => model.generate([])).toThrow(/empty/)
    await expect(Promise.resolve(model.generate([BOS, model.vocabulary]))).rejects.toThrow(/no such token/)
    const long = Array.from({ length: model.contextLength + 1 }, () => BOS)
    await expect(Promise.resolve(model.generate(long))).rejects.toMatchObject({ code: 'too-large' })
    expect((await model.generate(PROMPT, GREEDY)).tokens).toHaveLength(12)
  })
})

describe('cancelling', () => {
  test('by leaving the loop; the next one works', async () => {
    const { text } = await model.generate(PROMPT, GREEDY)
    for await (const piece of model.generate(PROMPT, { ...GREEDY, maxTokens: 100 })) {
      expect(text.startsWith(piece)).toBe(true)
      break
    }
    expect((await model.generate(PROMPT, GREEDY)).text).toBe(text)
  })

  test('by cancel, which keeps what was written', async () => {
    const generation = model.generate(PROMPT, { ...GREEDY, maxTokens: 100 })
    let count = 0
    for await (const _ of generation) if (++count === 3) generation.cancel()
    const { finishReason, tokens } = await generation
    expect(finishReason).toBe('cancelled')
    expect(tokens.length).toBeGreaterThanOrEqual(3)
    expect(tokens.length).toBeLessThan(100)
  })

  test('with sampling, too', async () => {
    const generation = model.generate(PROMPT, { ignoreEos: true, seed: 1, maxTokens: 100 })
    let count = 0
    for await (const _ of generation) if (++count === 2) generation.cancel()
    const { finishReason, tokens, text } = await generation
    expect(finishReason).toBe('cancelled')
    expect(tokens.length).toBeLessThan(100)
    expect(text).toBe(model.tokenizer.decode(tokens, { continuation: true }))
  })

  test('before it has begun', async () => {
    const generation = model.generate(PROMPT, GREEDY)
    generation.cancel()
    expect(await generation).toMatchObject({ text: '', tokens: [], finishReason: 'cancelled' })
  })

  test('by a signal, which rejects with its reason', async () => {
    const controller = new AbortController()
    const generation = model.generate(PROMPT, { ...GREEDY, maxTokens: 100, signal: controller.signal })
    const reason = new Error('enough')
    await expect(
      (async () => {
        for await (const _ of generation) controller.abort(reason)
      })(),
    ).rejects.toBe(reason)
    await expect(Promise.resolve(model.generate(PROMPT, { signal: controller.signal }))).rejects.toBe(reason)
    expect((await model.generate(PROMPT, GREEDY)).tokens).toHaveLength(12)
  })
})

/** A generation that is under way. */
function begin(on: Model, options: GenerateOptions): { over: boolean; end: Promise<void> } {
  const running = { over: false, end: Promise.resolve() }
  running.end = (async () => {
    await on.generate(PROMPT, options)
    running.over = true
  })()
  return running
}

describe('waiting for a turn', () => {
  const LONG: GenerateOptions = { temperature: 0, ignoreEos: true, maxTokens: 100 }

  test('ends with the signal, at once', async () => {
    const running = begin(model, LONG)
    const reasons: unknown[] = []
    const controller = new AbortController()
    const { signal } = controller
    const queued = [
      (async () => model.generate(PROMPT, { ...LONG, signal }))(),
      model.embed(PROMPT, { signal }),
      model.evaluate(PROMPT, () => {}, { signal }),
    ].map((each) => each.catch((reason: unknown) => void reasons.push(reason)))
    controller.abort('changed my mind')
    await Promise.all(queued)
    expect(reasons).toEqual(Array(3).fill('changed my mind'))
    expect(running.over).toBe(false)
    await running.end
    expect((await model.generate(PROMPT, GREEDY)).tokens).toHaveLength(12) // and the turn goes on to the next
  })

  test('ends with cancel, at once and without an error', async () => {
    const running = begin(model, LONG)
    const queued = model.generate(PROMPT, LONG)
    const result = (async () => queued)()
    queued.cancel()
    expect(await result).toMatchObject({ text: '', tokens: [], finishReason: 'cancelled' })
    expect(running.over).toBe(false)
    await running.end
  })

  test('is not what one that has begun does: it settles when the device is free', async () => {
    const controller = new AbortController()
    const generation = model.generate(PROMPT, { ...LONG, signal: controller.signal })
    await expect(
      (async () => {
        for await (const _ of generation) controller.abort('enough')
      })(),
    ).rejects.toBe('enough')
    expect((await model.generate(PROMPT, GREEDY)).tokens).toHaveLength(12)
  })
})

test('a second close waits for the first', async () => {
  const own = await load(await tinyModel(), { device })
  const running = begin(own, { temperature: 0, ignoreEos: true, maxTokens: 60 })
  await new Promise((resolve) => setTimeout(resolve, 1)) // it has its turn
  const first = own.close()
  await own.close()
  expect(running.over).toBe(true)
  await Promise.all([running.end, first, own.close()])
})

describe('one model', () => {
  test('takes several generations in turn', async () => {
    const alone = await Promise.all([3, 4, 5].map(async (token) => model.generate([BOS, token], GREEDY)))
    const [embedded, ...together] = await Promise.all([
      model.embed('abc'),
      ...[3, 4, 5].map(async (token) => model.generate([BOS, token], GREEDY)),
    ])
    expect(embedded).toHaveLength(64)
    expect(together.map(({ tokens }) => tokens)).toEqual(alone.map(({ tokens }) => tokens))
    for (const token of [3, 4, 5]) expect((await model.generate([BOS, token], GREEDY)).tokens).toEqual(alone[token - 3]?.tokens)
  })

  test('reuses the prefix it shares with the last one, also after a cancelled one', async () => {
    const first = await model.generate(PROMPT, GREEDY)
    const longer = [...PROMPT, ...first.tokens.slice(0, 8), 20]
    const again = await model.generate(longer, GREEDY)
    expect(again.stats).toMatchObject({ promptTokens: 15, cachedTokens: 14 })
    for await (const _ of model.generate(longer, { ...GREEDY, maxTokens: 60 })) break
    const after = await model.generate(longer, GREEDY)
    expect(after.stats.cachedTokens).toBe(14)
    expect(after.tokens).toEqual(again.tokens)

    await using fresh = await load(await tinyModel(), { device })
    expect((await fresh.generate(longer, GREEDY)).tokens).toEqual(again.tokens)
  })

  test('chats through its template, and a second turn reuses the first', async () => {
    const messages = [{ role: 'user', content: 'ab cd' }]
    const first = await model.chat(messages, { ...GREEDY, maxTokens: 4 })
    expect(first.stats.promptTokens).toBe(model.renderChat(messages).length)
    const second = await model.chat([...messages, { role: 'assistant', content: first.text }, { role: 'user', content: 'dd' }], GREEDY)
    expect(second.stats.cachedTokens).toBeGreaterThan(0)
  })

  test('embeds as unit vectors, the same for the same text', async () => {
    const [one, same, other] = [await model.embed('abcd'), await model.embed('abcd'), await model.embed('dd!')]
    expect(Math.hypot(...one)).toBeCloseTo(1, 6)
    expect(same).toEqual(one)
    expect(other).not.toEqual(one)
  })

  test('reads long prompts in chunks, with the same result', async () => {
    const prompt = Array.from({ length: 60 }, (_, i) => 3 + ((i * 7) % 250))
    await using chunked = await load(await tinyModel(), { device, chunk: 16 })
    expect((await chunked.generate(prompt, GREEDY)).tokens).toEqual((await model.generate(prompt, GREEDY)).tokens)
  })
})

test('a closed model refuses, leaves no buffers behind, and closes twice', async () => {
  const { buffers } = device.stats
  let kept: Model
  {
    await using own = await load(await tinyModel(), { device })
    kept = own
    await own.generate(PROMPT, GREEDY)
  }
  expect(device.stats.buffers).toBe(buffers)
  expect(() => kept.generate(PROMPT)).toThrow(expect.objectContaining({ code: 'closed' }))
  expect(() => kept.chat([])).toThrow(expect.objectContaining({ code: 'closed' }))
  expect(() => kept.embed('a')).toThrow(expect.objectContaining({ code: 'closed' }))
  await kept.close()
})

test('loading reports progress, can be aborted, and refuses nonsense', async () => {
  const seen: number[] = []
  await using own = await load(await tinyModel(), { device, onProgress: ({ loaded, total }) => seen.push(loaded / total) })
  expect(seen.at(-1)).toBe(1)
  expect(seen).toEqual(seen.toSorted((a, b) => a - b))
  expect(own.memory.weights).toBeGreaterThan(0)
  const { buffers } = device.stats
  await expect(load(await tinyModel(), { device, signal: AbortSignal.abort() })).rejects.toThrow()
  await expect(load(await tinyModel(), { device, contextLength: 0 })).rejects.toMatchObject({ code: 'bad-argument' })
  await expect(load(await tinyModel(), { device, contextLength: 2 ** 40 })).rejects.toMatchObject({ name: 'IngotError' }) // no such memory
  expect(device.stats.buffers).toBe(buffers)
})

test('a file that is not to be mapped is read: what becomes of it then does not matter', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ingot-mmap-'))
  const path = join(folder, 'tiny.gguf')
  const loads = vi.spyOn(device, 'load')
  try {
    await writeFile(path, await tinyBytes())
    await using mapped = await load(path, { device })
    expect(loads.mock.calls.every(([range]) => range.path === path)).toBe(true)
    const { text } = await mapped.generate(PROMPT, GREEDY)
    await mapped.close() // a mapped file must not be cut short: that is what the option is for
    loads.mockClear()
    await using own = await load(path, { device, mmap: false })
    expect(loads.mock.calls.length).toBeGreaterThan(0)
    expect(loads.mock.calls.every(([range]) => range.path === undefined)).toBe(true)
    await truncate(path, 100)
    expect((await own.generate(PROMPT, GREEDY)).text).toBe(text)
  } finally {
    loads.mockRestore()
    await rm(folder, { recursive: true, force: true })
  }
})

describe('sampling', () => {
  const drawn: GenerateOptions = { temperature: 1, seed: 5, ignoreEos: true, maxTokens: 40 }

  test('is done by the device where it can be, one submission a token, with the tokens that the host would draw', async () => {
    const { tokens, stats } = await model.generate(PROMPT, drawn)
    expect(stats).toMatchObject({ generatedTokens: 40, submissionsPerToken: 1 })
    expect(new Set(tokens).size).toBeGreaterThan(10)
    // A bias needs all logits, so the host draws.
    const onHost = await model.generate(PROMPT, { ...drawn, logitBias: { 3: -Infinity } })
    expect(onHost.tokens).toEqual(tokens)
    expect((await model.generate(PROMPT, { ...drawn, seed: 6 })).tokens).not.toEqual(tokens)
  })

  test('does not depend on what the cache held before', async () => {
    const { tokens } = await model.generate(PROMPT, drawn)
    const other = await model.generate([...PROMPT, 273, 274], { ...drawn, maxTokens: 3 })
    expect(other.tokens.length).toBe(3)
    expect((await model.generate(PROMPT, drawn)).tokens).toEqual(tokens)
  })
})

describe('the cache', () => {
  /** Logits of the prompt, and the bytes of the cache. */
  async function logitsWith(cacheType: 'f32' | 'f16' | 'q8_0'): Promise<{ logits: number[]; bytes: number }> {
    await using other = await load(await tinyModel({ heads: 2 }), { device, cacheType })
    const logits: number[] = []
    await other.evaluate(PROMPT, (rows) => void logits.push(...rows))
    return { logits, bytes: other.memory.cache }
  }

  test('holds halves or bytes instead of floats, with logits as near as their precision', async () => {
    const wanted = await logitsWith('f32')
    const power = wanted.logits.reduce((sum, value) => sum + value ** 2, 0)
    for (const { type, share, error } of [
      { type: 'f16', share: 1 / 2, error: 1e-6 },
      { type: 'q8_0', share: (1 + 1 / 8) / 4, error: 1e-3 },
    ] as const) {
      const { logits, bytes } = await logitsWith(type)
      expect(bytes).toBe(wanted.bytes * share)
      const off = logits.reduce((sum, value, i) => sum + (value - (wanted.logits[i] ?? NaN)) ** 2, 0) / power
      expect(off).toBeGreaterThan(0)
      expect(off).toBeLessThan(error)
    }
  })

  test('refuses bytes for heads that are no multiple of their block, and types that it does not know', async () => {
    await expect(load(await tinyModel(), { device, cacheType: 'q8_0' })).rejects.toThrow(
      /cache: heads of this size cannot be cached in q8_0, got 16/,
    )
    await expect(load(await tinyModel(), { device, cacheType: 'q4_0' as 'f16' })).rejects.toThrow(/cacheType/)
  })
})
