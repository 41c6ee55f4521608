// Adapters on linear layers of a model: which layers have them, what they begin with, and what they add.

import { expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { llama } from '../../src/model/llama.ts'
import type { LanguageModel } from '../../src/model/model.ts'
import { phi3 } from '../../src/model/phi3.ts'
import { type LoraOptions, adapterTensors, buildWithLora } from '../../src/nn/lora.ts'
import { applyLinear } from '../../src/nn/linear.ts'
import { random } from '../../src/tensor/random.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { createTinySource } from './tiny-source.ts'

const build = (device: Device, options: Omit<LoraOptions, 'device'>): ReturnType<typeof buildWithLora<LanguageModel>> =>
  buildWithLora((source) => llama.build(source), createTinySource(device, 'llama'), { ...options, device })

/** Logits of four rows. */
async function logitsOf(device: Device, model: LanguageModel): Promise<number[]> {
  const of = (values: number[]): Tensor => Tensor.from(values, { dtype: 'u32', device })
  const logits = model.logits(model.forward({ tokens: of([1, 5, 9, 2]), positions: of([0, 1, 2, 3]), cache: { block: 4 } }))
  return Array.from(await logits.data())
}

test('all linear layers have adapters, or those that are named', async () => {
  await using device = openReference({ check: false })
  const { adapters } = build(device, { rank: 2 })
  expect(adapters.size).toBe(14)
  expect(Object.keys(adapterTensors(adapters)).slice(0, 3)).toEqual([
    'blk.0.attn_q.weight.lora_a',
    'blk.0.attn_q.weight.lora_b',
    'blk.0.attn_k.weight.lora_a',
  ])
  expect(adapters.get('blk.1.ffn_down.weight')?.a.shape).toEqual([2, 24])
  expect(adapters.get('blk.1.ffn_down.weight')?.b.shape).toEqual([16, 2])
  const some = build(device, { rank: 2, targets: ['attn_v', 'blk.1.ffn_up'] }).adapters
  expect([...some.keys()]).toEqual(['blk.0.attn_v.weight', 'blk.1.attn_v.weight', 'blk.1.ffn_up.weight'])
})

test('an adapter begins without a change, with numbers that a seed gives', async () => {
  await using device = openReference({ check: false })
  const first = (seed: number, name = 'blk.0.attn_q.weight'): Promise<ArrayLike<number>> =>
    build(device, { rank: 2, seed }).adapters.get(name)!.a.data()
  const a = await first(1)
  expect(await first(1)).toEqual(a)
  expect(await first(2)).not.toEqual(a)
  expect(await first(1, 'blk.1.attn_q.weight')).not.toEqual(a)
  expect(Math.max(...Array.from(a, Math.abs))).toBeLessThanOrEqual(1 / 4)
  const plain = await logitsOf(device, llama.build(createTinySource(device, 'llama')))
  expect(await logitsOf(device, build(device, { rank: 2 }).model)).toEqual(plain)
})

test('an adapter is a change of the weight, alpha / rank of B A', async () => {
  await using device = openReference({ check: false })
  const of = (shape: number[], seed: number): Tensor => random.normal(shape, { seed, device })
  const [x, weight, bias, a, b] = [of([3, 6], 1), of([8, 6], 2), of([8], 3), of([2, 6], 4), of([8, 2], 5)]
  const got = await applyLinear({ weight, bias, adapter: { a, b, scale: 1.5 } }, x).data()
  const want = await x.linear(weight.add(b.matmul(a).mul(1.5)), bias).data()
  got.forEach((value, i) => expect(value).toBeCloseTo(want[i]!, 4))
  // Rows 2 to 5 of a matrix that several layers share have those rows of B.
  const part = await applyLinear({ weight: weight.slice([2, 6]), bias: undefined, adapter: { a, b, scale: 1.5 }, from: 2 }, x).data()
  const rows = await x.linear(weight.add(b.matmul(a).mul(1.5))).slice(null, [2, 6]).data() // prettier-ignore
  part.forEach((value, i) => expect(value).toBeCloseTo(rows[i]!, 4))
})

test('layers that share a matrix share its adapter', async () => {
  await using device = openReference({ check: false })
  const source = createTinySource(device, 'phi3', { fused: true })
  const { adapters, model } = buildWithLora((own) => phi3.build(own), source, { rank: 2, targets: ['attn_qkv'], device })
  expect([...adapters].map(([name, { b }]) => [name, b.shape])).toEqual([
    ['blk.0.attn_qkv.weight', [32, 2]],
    ['blk.1.attn_qkv.weight', [32, 2]],
  ])
  expect(await logitsOf(device, model)).toHaveLength(4 * 24)
})

test('what cannot be is refused, with what there is', async () => {
  await using device = openReference({ check: false })
  expect(() => build(device, { rank: 2, targets: ['attn_q', 'q_proj'] })).toThrow(
    'no linear layer has this name, got q_proj, wanted attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down',
  )
  expect(() => build(device, { rank: 2, targets: [] })).toThrow('got no targets')
  expect(() => build(device, { rank: 0 })).toThrow('no such rank')
  const odd = new Map([['blk.9.attn_q.weight', { a: Tensor.zeros([2, 16], { device }), b: Tensor.zeros([16, 2], { device }) }]])
  expect(() => build(device, { rank: 2, given: odd })).toThrow('an adapter is given for a layer that has none, got blk.9.attn_q.weight')
  const given = new Map([['blk.0.attn_q.weight', { a: Tensor.zeros([2, 8], { device }), b: Tensor.zeros([16, 2], { device }) }]])
  expect(() => build(device, { rank: 2, given })).toThrow('A of blk.0.attn_q.weight has the wrong shape, got [2,8], wanted [2,16]')
})
