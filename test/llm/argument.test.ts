// What JavaScript may pass and TypeScript would refuse, over the whole public face: an IngotError that names the argument, at once
// where the call can throw, and never what the engine makes of it. And a library that prints nothing.

import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import * as ingot from '../../src/index.ts'
import { type Device, IngotError, type Model, load, open } from '../../src/index.ts'
import { openNull } from '../../src/device/null/null.ts'
import { type TinyFile, tinyModel } from './tiny-model.ts'

const PROMPT = [1, 260, 261]
const GREEDY = { temperature: 0, ignoreEos: true, maxTokens: 4 } as const

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

/** What a call throws or rejects with. */
async function failureOf(call: () => unknown): Promise<unknown> {
  try {
    await call()
  } catch (error) {
    return error
  }
  return 'nothing was thrown'
}

type Wrong = readonly [name: string, call: (wrong: never) => unknown, values: readonly unknown[]]
const NOT_TEXT = [null, 5, {}, [], true, () => 'text']
const NOT_OPTIONS = [null, 5, 'text', true]
const CALLS: readonly Wrong[] = [
  ['load(file)', (wrong) => load(wrong), [null, 5, {}, [], { size: 5 }]],
  ['load options', async (wrong) => load(await tinyModel(), wrong), NOT_OPTIONS],
  ['load device', async (wrong) => load(await tinyModel(), { device: wrong }), [null, 5, {}, [], true]],
  ['load contextLength', async (wrong) => load(await tinyModel(), { device, contextLength: wrong }), [null, '5', 0.5, {}, NaN]],
  ['load cacheType', async (wrong) => load(await tinyModel(), { device, cacheType: wrong }), [null, 5, 'f64', {}]],
  ['load chunk', async (wrong) => load(await tinyModel(), { device, chunk: wrong }), [null, 0, -1, 0.5, '5', NaN]],
  ['load threads', async (wrong) => load(await tinyModel(), { device: 'cpu', threads: wrong }), [null, 0, '5', NaN]],
  ['load mmap', async (wrong) => load(await tinyModel(), { device, mmap: wrong }), [null, 0, 'no']],
  ['load onProgress', async (wrong) => load(await tinyModel(), { device, onProgress: wrong }), [null, 5, 'text']],
  ['load onWarning', async (wrong) => load(await tinyModel(), { device, onWarning: wrong }), [null, 5, 'text']],
  ['load signal', async (wrong) => load(await tinyModel(), { device, signal: wrong }), [null, 5, {}, new EventTarget()]],
  ['generate(prompt)', (wrong) => model.generate(wrong), [undefined, null, 5, {}, true, [], new Map()]],
  ['generate tokens', (wrong) => model.generate(wrong, GREEDY), [[1, 'a'], [null], [0.5], [-1], [1e9]]],
  ['generate options', (wrong) => model.generate(PROMPT, wrong), NOT_OPTIONS],
  ['generate stop', (wrong) => model.generate(PROMPT, { stop: wrong }), [null, 5, {}, [5], [null], '', ['']]],
  ['generate maxTokens', (wrong) => model.generate(PROMPT, { maxTokens: wrong }), [null, '5', -1, 0.5, NaN]],
  ['generate temperature', (wrong) => model.generate(PROMPT, { temperature: wrong }), ['1', -1, NaN, {}]],
  ['generate seed', (wrong) => model.generate(PROMPT, { seed: wrong }), ['1', -1, 0.5, {}]],
  ['generate logitBias', (wrong) => model.generate(PROMPT, { logitBias: wrong }), [null, 5, 'text', { a: 1 }, { 1: 'a' }]],
  ['generate ignoreEos', (wrong) => model.generate(PROMPT, { ignoreEos: wrong }), [null, 1, 'yes']],
  ['generate signal', (wrong) => model.generate(PROMPT, { signal: wrong }), [null, 5, {}, new AbortController()]],
  ['chat(messages)', (wrong) => model.chat(wrong), [undefined, null, 5, 'hello', {}, [null], ['hello'], [{ content: 'a' }], [{ role: 5 }]]],
  ['chat options', (wrong) => model.chat([{ role: 'user', content: 'a' }], wrong), NOT_OPTIONS],
  ['chat tools', (wrong) => model.chat([{ role: 'user', content: 'a' }], { tools: wrong }), [null, 5, 'text', {}]],
  ['chat now', (wrong) => model.chat([{ role: 'user', content: 'a' }], { now: wrong }), [null, 5, '2020', new Date(NaN)]],
  ['chat variables', (wrong) => model.chat([{ role: 'user', content: 'a' }], { variables: wrong }), [null, 5, 'text']],
  ['renderChat(messages)', (wrong) => model.renderChat(wrong), [undefined, null, 5, 'hello', [null]]],
  ['tokenize(text)', (wrong) => model.tokenize(wrong), [undefined, ...NOT_TEXT]],
  ['tokenize options', (wrong) => model.tokenize('a', wrong), NOT_OPTIONS],
  ['detokenize(tokens)', (wrong) => model.detokenize(wrong), [undefined, null, 5, 'text', {}, ['a'], [0.5]]],
  ['embed(text)', (wrong) => model.embed(wrong), [undefined, null, 5, {}, []]],
  ['embed options', (wrong) => model.embed('a', wrong), NOT_OPTIONS],
  ['embed signal', (wrong) => model.embed('a', { signal: wrong }), [null, 5, {}]],
  ['evaluate(tokens)', (wrong) => model.evaluate(wrong, () => {}), [undefined, null, 5, 'text', {}, ['a'], [0.5], [1e9]]],
  ['evaluate onRows', (wrong) => model.evaluate(PROMPT, wrong), [undefined, null, 5]],
  ['evaluate options', (wrong) => model.evaluate(PROMPT, () => {}, wrong), NOT_OPTIONS],
  ['open(name)', (wrong) => open(wrong), [null, 5, {}, []]],
  ['open options', (wrong) => open('cpu', wrong), NOT_OPTIONS],
  ['openGguf(file)', (wrong) => ingot.openGguf(wrong), [undefined, null, 5, {}, [], [null], [5]]],
  ['openGguf options', async (wrong) => ingot.openGguf(await tinyModel(), wrong), NOT_OPTIONS],
  ['readTensor(tensor)', (wrong) => ingot.readTensor(wrong), [undefined, null, 5, {}]],
  ['openFile(path)', (wrong) => ingot.openFile(wrong), [undefined, ...NOT_TEXT]],
  ['fromBytes(bytes)', (wrong) => ingot.fromBytes(wrong), [undefined, null, 5, 'text', {}, [1, 2]]],
  ['fromBlob(blob)', (wrong) => ingot.fromBlob(wrong), [undefined, null, 5, 'text', {}]],
  ['openUrl(url)', (wrong) => ingot.openUrl(wrong), [undefined, null, 5, {}]],
  ['buildPlan(device)', (wrong) => ingot.buildPlan(wrong, { reads: [] }), [undefined, null, 5, 'cpu', {}]],
  ['buildPlan spec', (wrong) => ingot.buildPlan(device, wrong), [undefined, null, 5]],
]

test.each(CALLS)('%s refuses what it cannot take', async (name, call, values) => {
  const { buffers } = device.stats
  for (const value of values) {
    const error = await failureOf(() => call(value as never))
    expect([value, error]).toEqual([value, expect.any(IngotError)])
    expect(error).toMatchObject({ code: 'bad-argument' })
  }
  if (name.startsWith('load')) expect(device.stats.buffers).toBe(buffers)
})

test('lists of numbers in memory are lists', async () => {
  const { tokens } = await model.generate(PROMPT, GREEDY)
  expect((await model.generate(Int32Array.from(PROMPT) as never, GREEDY)).tokens).toEqual(tokens)
})

describe('a tokenizer of a kind that is not known', () => {
  const unknown = ({ metadata }: TinyFile): void => void metadata.set('tokenizer.ggml.model', { type: 'string', value: 'plamo9' })

  test('leaves a model that runs on ids, and says so where there is text', async () => {
    await using own = await load(await tinyModel({ change: unknown }), { device })
    expect(own.hasTokenizer).toBe(false)
    const { tokens, text } = await own.generate(PROMPT, GREEDY)
    expect(tokens).toEqual((await model.generate(PROMPT, GREEDY)).tokens)
    expect(text).toBe('')
    expect(await own.embed(PROMPT)).toEqual(await model.embed(PROMPT))
    const message = /this kind of tokenizer is not known, got plamo9.*token ids/
    for (const call of [
      () => own.generate('text'),
      () => own.tokenize('text'),
      () => own.tokenizer,
      () => own.chat([{ role: 'user', content: 'a' }]),
    ]) {
      expect(await failureOf(call)).toMatchObject({ code: 'unsupported', message: expect.stringMatching(message) as string })
    }
  })

  test('is not an excuse for a broken one', async () => {
    const broken = ({ metadata }: TinyFile): void => void metadata.delete('tokenizer.ggml.tokens')
    expect(await failureOf(async () => load(await tinyModel({ change: broken }), { device }))).toMatchObject({ code: 'bad-file' })
  })
})

describe('nothing is printed', () => {
  afterEach(() => vi.restoreAllMocks())

  test('by a model with much to complain about: it is in its warnings, and told to who asked', async () => {
    const said: unknown[] = []
    for (const name of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      vi.spyOn(console, name).mockImplementation((...args) => void said.push(args))
    }
    vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void said.push(warning))
    for (const stream of [process.stdout, process.stderr]) vi.spyOn(stream, 'write').mockImplementation((text) => said.push(text) > 0)
    const told: string[] = []
    {
      await using own = await load(await tinyModel({ template: '' }), { device, onWarning: (line) => told.push(line) })
      await own.chat([{ role: 'user', content: 'abc' }], GREEDY)
      expect(own.warnings).toEqual([expect.stringContaining('ChatML')])
      await own.chat([{ role: 'user', content: 'abc' }], GREEDY)
      expect(own.warnings).toEqual(told)
    }
    {
      await using own = await load(await tinyModel({ template: '' }), { device })
      await own.chat([{ role: 'user', content: 'abc' }], GREEDY)
      expect(own.warnings).toHaveLength(1)
    }
    const failing = {
      name: 'odd',
      auto: 'yes' as const,
      load: async () => ({
        name: 'odd',
        about: '',
        probe: async () => ({ available: true, detail: 'odd', key: 'odd' }),
        open: () => Promise.reject(new Error('on fire')),
      }),
    }
    const last = {
      ...failing,
      name: 'last',
      auto: 'last' as const,
      untested: 'a test',
      load: async () => ({ ...(await failing.load()), open: async () => openNull() }),
    }
    vi.stubEnv('INGOT_DEVICE', '')
    const lines: string[] = []
    await (await open('auto', { devices: [failing, last] })).device.close()
    await (await open('auto', { devices: [failing, last], onWarning: (line) => lines.push(line) })).device.close()
    vi.unstubAllEnvs()
    vi.restoreAllMocks()
    expect(lines).toEqual(['odd is not used: on fire', 'using last, which is slow: nothing else works here'])
    expect(said).toEqual([])
  })
})
