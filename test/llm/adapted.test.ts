// Adapters on a loaded model: what training reported is what they give, swapped, several at once, in other files, merged; and refused
// where they belong to another model.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { writeAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { mergeAdapter } from '../../src/llm/merge.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { random } from '../../src/tensor/random.ts'
import { finetune } from '../../src/train/finetune.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { ingot } from '../cli/command-line.ts'
import { tinyBytes } from './tiny-model.ts'

const folder = mkdtempSync(join(tmpdir(), 'ingot-adapted-'))
const at = (name: string): string => join(folder, name)
const [MODEL, A, B, PEFT] = [at('tiny.gguf'), at('a.gguf'), at('b.gguf'), at('peft')]
const TEXT = 'abcd ab dd ca'
let device: Device
let model: Model
/** the validation loss that training reported for A, on TEXT */
let reported: number

beforeAll(async () => {
  writeFileSync(MODEL, await tinyBytes())
  device = await openCpu()
  const options = { model: MODEL, device, context: 32, batch: 2, steps: 4, rate: 0.02, validation: 1, lora: { rank: 3, alpha: 5 } }
  const data = [{ text: TEXT }, { text: TEXT }]
  reported = (await finetune({ ...options, data, out: A })).validation!.last
  await finetune({ ...options, data, out: PEFT })
  await finetune({
    ...options,
    data: [{ text: 'dd dd' }, { text: 'cacaca' }],
    lora: { rank: 2, rsLora: true, targets: ['attn_q', 'ffn_up'] },
    out: B,
  })
  model = await load(MODEL, { device, contextLength: 64 })
})
afterAll(async () => {
  await model.close()
  await device.close()
  rmSync(folder, { recursive: true, force: true })
})

async function logitsOf(from: Model): Promise<Float32Array> {
  const rows: number[] = []
  await from.evaluate(from.tokenize(TEXT, { addSpecial: true }), (part) => void rows.push(...part))
  return Float32Array.from(rows)
}
/** The length of the difference over that of what is wanted. */
function distance(got: Float32Array, want: Float32Array): number {
  const length = (values: Float32Array): number => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0))
  return length(got.map((value, i) => value - want[i]!)) / length(want)
}
async function logitsWith(...adapters: readonly { path: string; scale?: number }[]): Promise<Float32Array> {
  await model.setAdapters(adapters)
  return logitsOf(model)
}

test('give the loss that training reported', async () => {
  await model.setAdapters([{ path: A }])
  const ids = [...model.tokenize(TEXT, { addSpecial: true }), model.tokenizer.eos!]
  let loss = 0
  await model.evaluate(ids.slice(0, -1), (rows, from) => {
    for (let row = 0; row * model.vocabulary < rows.length; row++) {
      const logits = rows.subarray(row * model.vocabulary, (row + 1) * model.vocabulary)
      loss += Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0)) - logits[ids[from + row + 1]!]!
    }
  })
  expect(loss / (ids.length - 1)).toBeCloseTo(reported, 2) // the cache holds halves
  expect(reported).toBeLessThan(6)
})

test('are swapped without loading the model again', async () => {
  const base = await logitsWith()
  const [a, b] = [await logitsWith({ path: A }), await logitsWith({ path: B })]
  for (const [one, other] of [[base, a], [base, b], [a, b]] as const) expect(distance(one, other)).toBeGreaterThan(1e-3) // prettier-ignore
  const { bytesWritten } = device.stats
  const { compiles } = device.stats
  expect(await logitsWith({ path: A })).toEqual(a)
  expect(await logitsWith()).toEqual(base)
  expect(await logitsWith({ path: B })).toEqual(b)
  expect(device.stats.bytesWritten - bytesWritten).toBeLessThan(2000)
  expect(device.stats.compiles).toBe(compiles)
  expect(model.adapters).toEqual([{ path: B }])
})

test('forget what the cache had of another adapter', async () => {
  const write = async (...adapters: readonly { path: string }[]): Promise<readonly number[]> => {
    await model.setAdapters(adapters)
    return (await model.generate(TEXT, { maxTokens: 12, temperature: 0, ignoreEos: true })).tokens
  }
  const [first, base] = [await write({ path: A }), await write()]
  expect(await write({ path: A })).toEqual(first)
  expect(first).not.toEqual(base)
})

test('add up by their scales', async () => {
  const [base, a] = [await logitsWith(), await logitsWith({ path: A })]
  expect(distance(await logitsWith({ path: A, scale: 0 }), base)).toBeLessThan(1e-6)
  expect(distance(await logitsWith({ path: A, scale: 0.25 }, { path: A, scale: 0.75 }), a)).toBeLessThan(1e-4)
  const both = await logitsWith({ path: A, scale: 0.5 }, { path: B, scale: 2 })
  await merge(MODEL, A, 'once.gguf', 0.5)
  await merge(at('once.gguf'), B, 'twice.gguf', 2)
  await using merged = await load(at('twice.gguf'), { device, contextLength: 64 })
  expect(distance(both, await logitsOf(merged))).toBeLessThan(1e-4)
})

test('are the same from a folder of PEFT', async () => {
  expect(distance(await logitsWith({ path: PEFT }), await logitsWith({ path: A }))).toBeLessThan(1e-6)
})

async function merge(base: string, adapter: string, name: string, scale = 1): Promise<void> {
  await using gguf = await openGguf(base)
  await mergeAdapter(gguf, adapter, at(name), { type: 'f32', scale })
}

describe('of another model', () => {
  async function writeStrange(
    name: string,
    weight: string,
    [out, inner]: readonly [number, number],
    architecture = 'llama',
  ): Promise<string> {
    const tensors = {
      [`${weight}.lora_a`]: random.normal([2, inner], { device }),
      [`${weight}.lora_b`]: random.normal([out, 2], { device }),
    }
    await writeAdapterGguf(at(name), { architecture, alpha: 2, tensors })
    return at(name)
  }
  test.for([
    ['wide.gguf', 'blk.0.attn_q.weight', [64, 128], 'llama', 'blk.0.attn_q.weight.lora_a, got [2,128], wanted [rank,64]'],
    ['tall.gguf', 'blk.1.ffn_up.weight', [80, 64], 'llama', 'blk.1.ffn_up.weight.lora_b, got [80,2], wanted [96,rank]'],
    ['deep.gguf', 'blk.7.attn_q.weight', [64, 64], 'llama', 'blk.7.attn_q.weight.lora_a'],
    ['kind.gguf', 'blk.0.attn_q.weight', [64, 64], 'qwen2', 'another kind of model, got qwen2, wanted llama'],
  ] as const)('%s is refused with what does not fit', async ([name, weight, shape, architecture, message]) => {
    const path = await writeStrange(name, weight, shape, architecture)
    await model.setAdapters([{ path: B }])
    const before = await logitsOf(model)
    await expect(model.setAdapters([{ path }])).rejects.toThrow(message)
    expect(model.adapters).toEqual([{ path: B }])
    expect(await logitsOf(model)).toEqual(before)
    await expect(merge(MODEL, path, 'never.gguf')).rejects.toThrow(message)
    const { bytesLive } = device.stats
    await expect(load(MODEL, { device, adapters: [{ path }] })).rejects.toThrow(message)
    expect(device.stats.bytesLive - bytesLive).toBeLessThan(20_000) // what was read of the adapter goes with the collector
  })
  test('nor is a model, or nothing, an adapter', async () => {
    await expect(model.setAdapters([{ path: MODEL }])).rejects.toThrow('the file holds no LoRA adapter')
    await expect(model.setAdapters([{ path: at('none.gguf') }])).rejects.toThrow('cannot open')
    expect(() => model.setAdapters([{ path: 5 }] as never)).toThrow('adapters is of the wrong kind')
    expect(() => model.setAdapters([{ path: A, scale: Number.NaN }])).toThrow('scale')
  })
})

describe('on the command line', () => {
  test('--adapter changes what is written, by its scale', async () => {
    const run = async (...more: string[]): Promise<unknown> => {
      const { code, stdout, stderr } = await ingot('run', MODEL, '-p', TEXT, '-n', '8', '-t', '0', '--ignore-eos', '--json', '-d', 'cpu', ...more) // prettier-ignore
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return (JSON.parse(stdout) as { tokens: unknown }).tokens
    }
    const base = await run()
    expect(await run('--adapter', A)).not.toEqual(base)
    expect(await run('--adapter', `${A}:0`, '--adapter', `${B}:0.0`)).toEqual(base)
    const { code, stderr } = await ingot('run', MODEL, '-p', TEXT, '--adapter', at('none.gguf'), '-d', 'cpu')
    expect([code, stderr.startsWith('ingot: ')]).toEqual([1, true])
  })
  test('merge writes a model that gives the same', async () => {
    const { code, stdout } = await ingot('merge', MODEL, A, at('merged.gguf'), '--type', 'f32')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/merged\.gguf: .* of f32 in/) as string])
    await using merged = await load(at('merged.gguf'), { device, contextLength: 64 })
    expect(distance(await logitsOf(merged), await logitsWith({ path: A }))).toBeLessThan(1e-4)
    expect((await ingot('merge', MODEL, A, at('merged.gguf'))).code).toBe(2)
    expect((await ingot('merge', MODEL, `${A}:0.5`, at('merged.gguf'), '--type', 'q8_0', '--force')).code).toBe(0)
  })
})
