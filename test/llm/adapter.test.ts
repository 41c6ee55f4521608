// Adapters as files: names and rows in PEFT's form, and what is refused. test/data/adapter.test.ts reads and writes those of PyTorch.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openReference } from '../../src/device/reference/reference.ts'
import { type AdapterSet, layersOf, rankOf } from '../../src/llm/adapter/adapter.ts'
import { readAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { readPeft, writePeft } from '../../src/llm/adapter/peft.ts'
import { loadSafetensors } from '../../src/tensor/file.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { tinyModel } from './tiny-model.ts'

const device = openReference({ check: false })
const BASE = { architecture: 'llama', heads: 2, kvHeads: 1 }
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'adapter-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** An adapter of rank 1 of a layer with these rows. */
function setOf(weight: string, rows: readonly number[]): AdapterSet {
  const a = Tensor.from([[1, 2]], { device })
  const b = Tensor.from(rows.map((row) => [row]), { device }) // prettier-ignore
  return { architecture: 'llama', alpha: 4, tensors: { [`${weight}.lora_a`]: a, [`${weight}.lora_b`]: b } }
}
const writtenRows = async (part: string): Promise<unknown> => {
  const tensors = await loadSafetensors(join(folder, 'adapter_model.safetensors'), { device })
  return tensors[`base_model.model.model.layers.3.${part}.lora_B.weight`]?.flatten().toArray()
}

test('rows of queries and keys are halves instead of pairs, head by head; others stay', async () => {
  const rows = [0, 1, 2, 3, 4, 5, 6, 7]
  const written = async (part: string, architecture = 'llama'): Promise<AdapterSet> => {
    await writePeft(folder, setOf(`blk.3.${part}.weight`, rows), { ...BASE, architecture }, { force: true })
    return readPeft(folder, { ...BASE, architecture }, { device })
  }
  const q = await written('attn_q')
  expect(await writtenRows('self_attn.q_proj')).toEqual([0, 2, 1, 3, 4, 6, 5, 7])
  expect(await q.tensors['blk.3.attn_q.weight.lora_b']?.flatten().toArray()).toEqual(rows)
  await written('attn_k')
  expect(await writtenRows('self_attn.k_proj')).toEqual([0, 2, 4, 6, 1, 3, 5, 7])
  await written('attn_v')
  expect(await writtenRows('self_attn.v_proj')).toEqual(rows)
  await written('attn_q', 'qwen2')
  expect(await writtenRows('self_attn.q_proj')).toEqual(rows)
  await written('ffn_up', 'phi3')
  expect(await writtenRows('mlp.gate_up_proj')).toEqual(rows)
})

test('settings: rank and alpha, and what is more than plain LoRA', async () => {
  await writePeft(folder, setOf('blk.3.attn_v.weight', [1, 2]), BASE)
  await expect(writePeft(folder, setOf('blk.3.attn_v.weight', [1, 2]), BASE)).rejects.toThrow('force: true replaces it')
  const path = join(folder, 'adapter_config.json')
  const config = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
  const readWith = (changes: Record<string, unknown>): Promise<AdapterSet> => {
    writeFileSync(path, JSON.stringify({ ...config, ...changes }))
    return readPeft(folder, BASE, { device })
  }
  expect((await readWith({})).alpha).toBe(4)
  await expect(readWith({ use_dora: true })).rejects.toThrow('use_dora is not supported')
  await expect(readWith({ rank_pattern: { q_proj: 4 } })).rejects.toThrow('rank_pattern is not supported')
  await expect(readWith({ peft_type: 'IA3' })).rejects.toThrow('only LoRA adapters can be read, got IA3')
  await expect(readWith({ r: 2 })).rejects.toThrow('the matrices have another rank than the settings say, got 1, wanted 2')
  const wide = {
    'blk.3.attn_v.weight.lora_a': Tensor.zeros([4, 2], { device }),
    'blk.3.attn_v.weight.lora_b': Tensor.zeros([2, 4], { device }),
  }
  await writePeft(folder, { architecture: 'llama', alpha: 3, tensors: wide }, BASE, { force: true })
  expect((await readWith({ r: 4, lora_alpha: 3, use_rslora: true })).alpha).toBe(6) // times the root of the rank
  writeFileSync(path, '{')
  await expect(readPeft(folder, BASE, { device })).rejects.toThrow('is no JSON')
})

test('what is no adapter is refused', async () => {
  await expect(readAdapterGguf(await tinyModel())).rejects.toThrow('the file holds no LoRA adapter')
  const { tensors } = setOf('blk.0.attn_q.weight', [1, 2])
  const a = tensors['blk.0.attn_q.weight.lora_a']!
  expect(() => layersOf({ tensors: {} })).toThrow('there are no adapters')
  expect(() => layersOf({ tensors: { 'x.weight': a } })).toThrow('this tensor is no part of an adapter, got x.weight')
  expect(() => layersOf({ tensors: { 'x.lora_a': a } })).toThrow('half of an adapter is missing, got x.lora_b')
  expect(() => layersOf({ tensors: { 'x.lora_a': a, 'x.lora_b': a } })).toThrow('the adapter of x has no rank')
  const wide = { 'y.lora_a': Tensor.zeros([2, 2], { device }), 'y.lora_b': Tensor.zeros([4, 2], { device }) }
  expect(() => rankOf({ tensors: { ...tensors, ...wide } })).toThrow('adapters of several ranks')
  await expect(writePeft(folder, setOf('output.weight', [1]), BASE)).rejects.toThrow('PEFT has no name for this layer, got output.weight')
})
