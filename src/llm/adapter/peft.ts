// Adapters as Hugging Face's PEFT has them: a folder with adapter_model.safetensors and adapter_config.json. Layers have other names there,
// and the rows of Llama's queries and keys another order: GGUF files turn adjacent pairs by rope, Hugging Face halves, so that row
// (head, pair, part) of the one is (head, part, pair) of the other. Of an adapter only B's rows move.

import { messageOf } from '../../base/error.ts'
import type { DeviceChoice } from '../../tensor/default-device.ts'
import { loadSafetensors, saveSafetensors } from '../../tensor/file.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { withSink } from '../../weights/sink.ts'
import { openFile } from '../../weights/source.ts'
import { type AdapterSet, badAdapter, layersOf, rankOf } from './adapter.ts'

/** The base of an adapter: what its rows are. */
export interface AdapterBase {
  readonly architecture: string
  readonly heads: number
  readonly kvHeads: number
}

const MODULES: Readonly<Record<string, string>> = {
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
}

/** How an architecture has its layers there. */
interface Layout {
  /** names of parts of a layer */
  readonly modules: Readonly<Record<string, string>>
  /** whether rows of queries and keys have another order */
  readonly swapped: boolean
}
const PLAIN: Layout = { modules: MODULES, swapped: false }
const LAYOUTS: Readonly<Record<string, Layout>> = {
  llama: { modules: MODULES, swapped: true },
  // several layers in one matrix, here and there
  phi3: { modules: { ...MODULES, attn_qkv: 'self_attn.qkv_proj', ffn_up: 'mlp.gate_up_proj' }, swapped: false },
}
const PREFIX = 'base_model.model.model.layers.'
const [CONFIG, MODEL] = ['adapter_config.json', 'adapter_model.safetensors']

export interface WritePeftOptions {
  /** of the base, for who reads the file */
  readonly baseName?: string
  /** existing files may be replaced (default false) */
  readonly force?: boolean
}

/** Writes a set into a folder that is there. */
export async function writePeft(folder: string, set: AdapterSet, base: AdapterBase, options: WritePeftOptions = {}): Promise<void> {
  const { baseName = '', force = false } = options
  const { modules } = layoutOf(base.architecture)
  const tensors: Record<string, Tensor> = {}
  const targets = new Set<string>()
  for (const { weight, a, b } of layersOf(set)) {
    const [, layer = '', part = ''] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(weight) ?? []
    const name = modules[part]
    if (name === undefined) throw badAdapter('PEFT has no name for this layer', weight, Object.keys(modules).join(', '))
    targets.add(name.slice(name.indexOf('.') + 1))
    tensors[`${PREFIX}${layer}.${name}.lora_A.weight`] = a.to('f32')
    tensors[`${PREFIX}${layer}.${name}.lora_B.weight`] = swapRows(b.to('f32'), headsOf(base, part), 'pairs')
  }
  const config = {
    base_model_name_or_path: baseName,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    lora_alpha: set.alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: rankOf(set),
    target_modules: [...targets],
    task_type: 'CAUSAL_LM',
  }
  const { checkOutput, openOutput } = await import('../../weights/output.ts') // needs Node
  const settings = openOutput(await checkOutput(`${folder}/${CONFIG}`, { op: 'writePeft', force }))
  await saveSafetensors(`${folder}/${MODEL}`, tensors, { metadata: { format: 'pt' }, force })
  await withSink(settings, (write) => write(new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`)))
}

/** Reads a set from a folder. What the settings ask for beyond plain LoRA is refused. */
export async function readPeft(folder: string, base: AdapterBase, options: { readonly device?: DeviceChoice } = {}): Promise<AdapterSet> {
  const { alpha, rank } = await readConfig(`${folder}/${CONFIG}`)
  const parts = new Map(Object.entries(layoutOf(base.architecture).modules).map(([part, name]) => [name, part]))
  const tensors: Record<string, Tensor> = {}
  for (const [name, tensor] of Object.entries(await loadSafetensors(`${folder}/${MODEL}`, options))) {
    const [, layer = '', module = '', side = ''] = /^base_model\.model\.model\.layers\.(\d+)\.(.+)\.lora_([AB])\.weight$/.exec(name) ?? []
    const part = parts.get(module)
    if (part === undefined) throw badAdapter('no layer of the base has this name', name, [...parts.keys()].join(', '))
    const values = tensor.to('f32')
    const isB = side === 'B'
    tensors[`blk.${layer}.${part}.weight.lora_${isB ? 'b' : 'a'}`] = isB ? swapRows(values, headsOf(base, part), 'halves') : values
  }
  const set = { architecture: base.architecture, alpha, tensors }
  if (rankOf(set) !== rank) throw badAdapter('the matrices have another rank than the settings say', rankOf(set), rank)
  return set
}

async function readConfig(path: string): Promise<{ alpha: number; rank: number }> {
  const file = await openFile(path)
  const bytes = await file.read(0, file.size).finally(() => file.close())
  const config: unknown = parse(path, new TextDecoder().decode(bytes))
  if (typeof config !== 'object' || config === null) throw badAdapter(`${path} holds no settings`, typeof config, 'an object')
  const value = (key: string): unknown => Object.entries(config).find(([name]) => name === key)?.[1]
  if (value('peft_type') !== 'LORA') throw badAdapter('only LoRA adapters can be read', value('peft_type'), 'LORA')
  for (const key of ['use_dora', 'fan_in_fan_out', 'rank_pattern', 'alpha_pattern', 'modules_to_save']) {
    const set = value(key)
    const isOff = set === undefined || set === null || set === false || (typeof set === 'object' && Object.keys(set).length === 0)
    if (!isOff) throw badAdapter(`${key} is not supported`, JSON.stringify(set), 'plain LoRA')
  }
  const [rank, alpha] = [value('r'), value('lora_alpha')]
  if (typeof rank !== 'number' || typeof alpha !== 'number')
    throw badAdapter(`${path} lacks r or lora_alpha`, `${String(rank)}, ${String(alpha)}`)
  // rsLoRA divides by the root of the rank: the same as a larger alpha.
  return { rank, alpha: value('use_rslora') === true ? alpha * Math.sqrt(rank) : alpha }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw badAdapter(`${path} is no JSON`, messageOf(error))
  }
}

function layoutOf(architecture: string): Layout {
  return LAYOUTS[architecture] ?? PLAIN
}

/** How many heads have their rows in another order; 0: none. */
function headsOf({ architecture, heads, kvHeads }: AdapterBase, part: string): number {
  if (!layoutOf(architecture).swapped) return 0
  return part === 'attn_q' ? heads : part === 'attn_k' ? kvHeads : 0
}

/** B [out, rank], whose rows of each head come as pairs (GGUF) or as halves (Hugging Face), in the other order. */
function swapRows(b: Tensor, heads: number, from: 'pairs' | 'halves'): Tensor {
  if (heads === 0) return b
  const [out = 1, rank = 1] = b.shape
  const pairs = out / heads / 2
  if (!Number.isInteger(pairs)) throw badAdapter('the rows of B do not fall into heads', b.shape, `a multiple of ${2 * heads} rows`)
  const [first, second] = from === 'pairs' ? [pairs, 2] : [2, pairs]
  return b.reshape(heads, first, second, rank).permute(0, 2, 1, 3).reshape(out, rank)
}
