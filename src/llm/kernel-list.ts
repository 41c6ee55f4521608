// Which kernels models run on a device with given caps: found by building every architecture over weights that are not there and
// making its plans on a device that only listens. What set-up compiles ahead of time for CPUs. CPU forms do not depend on sizes,
// so small models stand for all; `differences` says where that is not so.

import type { Caps } from '../base/caps.ts'
import type { BufferHandle } from '../device/device.ts'
import { HostDevice } from '../device/host.ts'
import { SELF_TEST } from '../device/self-test.ts'
import { hashKernel } from '../ir/hash.ts'
import type { Kernel } from '../ir/kernel.ts'
import { ARCHITECTURES } from '../model/index.ts'
import type { Architecture } from '../model/model.ts'
import type { ModelSource } from '../nn/source.ts'
import { FORMATS } from '../quant/index.ts'
import { type GgmlType, tensorBytes } from '../quant/type.ts'
import { Tensor } from '../tensor/tensor.ts'
import { Engine, type Want } from './engine.ts'

/** The sizes of a made-up model. All are multiples of 256, so that rows hold whole blocks of every format. */
export interface Sizes {
  readonly width: number
  readonly heads: number
  readonly kvHeads: number
  readonly dim: number
  readonly hidden: number
  readonly vocabulary: number
}

export const SMALL: Sizes = { width: 256, heads: 4, kvHeads: 2, dim: 64, hidden: 512, vocabulary: 512 }
export const OTHER: Sizes = { width: 512, heads: 6, kvHeads: 2, dim: 128, hidden: 768, vocabulary: 1024 }

/** Widths of the models whose kernels hold a function of it: Gemma scales its embedding by a constant of the graph. */
const SCALED_WIDTHS = [640, 1152, 2560, 3840, 5376]
const SCALED = 'gemma3'
/** Rows of a step: those that mat-vec takes one by one, then some for mat-mat. */
const COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33]
const CAPACITY = 64
const WANTS: readonly Want[] = ['argmax', { topK: 40 }, 'logits']

export interface KernelList {
  /** in a stable order */
  readonly kernels: readonly Kernel[]
  /** architectures that could not be built, and why */
  readonly failed: readonly string[]
}

/** Every kernel that models run on a device with these caps. */
export async function collectKernels(caps: Caps, sizes: Sizes = SMALL): Promise<KernelList> {
  const found = new Map<string, Kernel>()
  const failed: string[] = []
  const device = listen(caps, found)
  for (const architecture of ARCHITECTURES) {
    try {
      for (const { name: format } of FORMATS) for (const bias of [false, true]) await walk(device, architecture, { sizes, format, bias })
      if (architecture.names.includes(SCALED)) for (const width of SCALED_WIDTHS) await walk(device, architecture, { sizes: { ...sizes, width }, format: 'f32', bias: false })
    } catch (error) {
      failed.push(`${architecture.names[0]}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  for (const { record, params } of SELF_TEST) for (const { kernel } of record.work(caps, params).launches) found.set(hashKernel(kernel), kernel)
  await device.close()
  const kernels = [...found].toSorted(([a, one], [b, other]) => order(one.name, other.name) || order(a, b)).map(([, kernel]) => kernel)
  return { kernels, failed }
}

/** Names of kernels that are others for models of other sizes. */
export async function differences(caps: Caps): Promise<string[]> {
  const [{ kernels: some }, { kernels: others }] = await Promise.all([collectKernels(caps, SMALL), collectKernels(caps, OTHER)])
  const known = new Set(some.map(hashKernel))
  return others.filter((kernel) => !known.has(hashKernel(kernel))).map(({ name }) => name)
}

interface Made { readonly sizes: Sizes; readonly format: GgmlType; readonly bias: boolean }

/** Runs a model of two layers through everything an engine does. */
async function walk(device: HostDevice, architecture: Architecture, made: Made): Promise<void> {
  const owned: BufferHandle[] = []
  const model = architecture.build(makeSource(device, architecture, made, owned))
  for (const cacheType of ['f16', 'f32'] as const) {
    const engine = new Engine(device, model, { capacity: CAPACITY, cacheType, chunk: CAPACITY })
    for (const count of COUNTS) {
      const tokens = Array.from({ length: count }, (_, i) => i)
      for (const want of WANTS) {
        engine.rewind([])
        await engine.prefill(tokens, want)
      }
      engine.rewind([])
      await engine.evaluate(tokens, () => {})
    }
    await engine.close()
  }
  for (const buffer of owned) device.free(buffer)
}

/** A device that runs nothing and notes what it is asked to compile. */
function listen(caps: Caps, found: Map<string, Kernel>): HostDevice {
  return new HostDevice({
    name: 'list', detail: 'notes kernels', caps,
    compile: (kernel) => { found.set(hashKernel(kernel), kernel) },
    run: () => {},
  })
}

function makeSource(device: HostDevice, architecture: Architecture, made: Made, owned: BufferHandle[]): ModelSource {
  const { sizes, format } = made
  const name = architecture.names[0] ?? ''
  const leaf = (label: string, shape: readonly number[]): Tensor => {
    const type = shape.length === 1 ? 'f32' : format
    const buffer = device.alloc(tensorBytes(type, shape.toReversed()))
    owned.push(buffer)
    return Tensor.leaf(buffer, shape, type, { label })
  }
  const has = (label: string): boolean => (label.endsWith('.bias') ? made.bias : label !== 'output.weight' || !made.bias)
  const weight = (label: string): Tensor => leaf(label, shapeOf(label, sizes))
  const settings: Readonly<Record<string, number>> = {
    embedding_length: sizes.width, block_count: 2, feed_forward_length: sizes.hidden, context_length: CAPACITY,
    'attention.head_count': sizes.heads, 'attention.head_count_kv': sizes.kvHeads, 'attention.key_length': sizes.dim, 'attention.value_length': sizes.dim,
    'attention.layer_norm_rms_epsilon': 1 / sizes.width, 'attention.sliding_window': sizes.dim, 'attention.sliding_window_pattern': 2,
  }
  return {
    architecture: name,
    contextLength: CAPACITY,
    number: (key, fallback) => {
      const value = settings[key] ?? fallback
      if (value === undefined) throw new Error(`no setting ${key}`)
      return value
    },
    text: (_key, fallback = '') => fallback,
    has,
    weight,
    find: (label) => (has(label) ? weight(label) : undefined),
    rows: (label, _from, count) => leaf(label, [count, shapeOf(label, sizes)[1] ?? 1]),
    values: () => undefined,
    constant: (label, values) => leaf(label, [values.length]),
  }
}

/** The shape of a weight by its name in GGUF files. */
function shapeOf(label: string, { width, heads, kvHeads, dim, hidden, vocabulary }: Sizes): number[] {
  const [part = '', kind] = label.replace(/^blk\.\d+\./, '').split('.')
  if (part.endsWith('norm')) return [/^attn_[qk]_norm$/.test(part) ? dim : width]
  const shapes: Readonly<Record<string, readonly [number, number]>> = {
    token_embd: [vocabulary, width], output: [vocabulary, width],
    attn_q: [heads * dim, width], attn_k: [kvHeads * dim, width], attn_v: [kvHeads * dim, width], attn_output: [width, heads * dim],
    attn_qkv: [(heads + 2 * kvHeads) * dim, width], ffn_gate: [hidden, width], ffn_up: [hidden, width], ffn_down: [width, hidden],
  }
  const shape = shapes[part]
  if (shape === undefined) throw new Error(`no shape for a weight named ${label}`)
  return kind === 'bias' ? [shape[0]] : [...shape]
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
