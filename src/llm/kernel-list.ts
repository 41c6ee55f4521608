// Which kernels models run on a device with given caps: found by loading made-up files of every architecture and weight format on a
// device that only listens, and letting an engine do all it can do. What set-up compiles ahead of time for CPUs. CPU forms do
// not depend on sizes, so small models stand for all; `differences` says where that is not so.

import type { Caps } from '../base/caps.ts'
import { HostDevice } from '../device/host.ts'
import { SELF_TEST } from '../device/self-test.ts'
import { hashKernel } from '../ir/hash.ts'
import type { Kernel } from '../ir/kernel.ts'
import { ARCHITECTURES } from '../model/index.ts'
import type { Architecture } from '../model/model.ts'
import { FORMATS } from '../quant/index.ts'
import { type GgmlType, tensorBytes, tensorElements } from '../quant/type.ts'
import type { Gguf } from '../weights/gguf.ts'
import type { GgufTensor } from '../weights/gguf-header.ts'
import type { MetaValue } from '../weights/gguf-meta.ts'
import type { ByteSource } from '../weights/source.ts'
import { Engine, type Want } from './engine.ts'
import { loadModel } from './weights.ts'

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

/** Vocabularies that take more than one pass to search. */
const LARGE_VOCABULARY = 65536
/** Query heads that share their keys: CPU attention takes them together. */
const SHARING = [1, 2, 3, 4, 5, 6, 7, 8]
const MANY_HEADS = 8
/** More threads than heads: then keys are split, if the context is long. */
const MANY_THREADS = 64
const LONG_CONTEXT = 1024
/** Heads that hold no whole number of wide vectors. */
const SHORT_DIMS = [8, 4]
const LAYERS = 2 // one of each kind where an architecture alternates
const CAPACITY = 64

/** What an engine is made to do. `counts`: rows of a step. */
interface Course {
  readonly counts: readonly number[]
  readonly wants: readonly Want[]
  readonly caches: readonly ('f16' | 'f32')[]
  readonly capacity?: number
}
/** How kernels depend on the number of rows shows in every format alike, whatever the architecture; and what else there is, in any format. */
const FORMAT_COURSE: Course = { counts: [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33], wants: ['argmax'], caches: ['f16'] }
const MODEL_COURSE: Course = { counts: [1, 2, 9], wants: ['argmax', { topK: 40 }, 'logits'], caches: ['f16', 'f32'] }

export interface KernelList {
  /** in a stable order */
  readonly kernels: readonly Kernel[]
  /** architectures that could not be run, and why */
  readonly failed: readonly string[]
}

/** What varies between made-up files. `fused`: several matrices in one, as some files have them. */
interface Made {
  readonly sizes: Sizes
  readonly format: GgmlType
  readonly bias: boolean
  readonly fused: boolean
}

/** Every kernel that models run on a device with these caps. */
export async function collectKernels(caps: Caps, sizes: Sizes = SMALL): Promise<KernelList> {
  const found = new Map<string, Kernel>()
  const failed: string[] = []
  const device = listen(caps, found)
  const plain = { sizes, format: 'f32', bias: false, fused: false } as const
  const [first] = ARCHITECTURES as readonly [Architecture, ...Architecture[]]
  for (const { name: format } of FORMATS)
    for (const bias of [false, true]) await walk(device, first, { ...plain, format, bias }, FORMAT_COURSE)
  await walk(
    device,
    first,
    { ...plain, sizes: { ...sizes, vocabulary: LARGE_VOCABULARY }, format: 'q4_0' },
    { ...MODEL_COURSE, counts: [1] },
  )
  for (const [share, dim] of [
    ...SHARING.map((each) => [each, sizes.dim] as const),
    ...SHORT_DIMS.flatMap((each) => [1, 2, 4, 8].map((some) => [some, each] as const)),
  ]) {
    const own = { ...sizes, heads: share * sizes.kvHeads, dim }
    await walk(device, first, { ...plain, sizes: own }, { counts: [1, 33], wants: ['logits'], caches: ['f16', 'f32'] })
  }
  // With key heads enough for all threads, CPU attention takes queries as lanes.
  for (const share of [1, 4, 8]) {
    const own = { ...sizes, kvHeads: MANY_HEADS, heads: share * MANY_HEADS }
    await walk(device, first, { ...plain, sizes: own }, { counts: [1, 2, 4, 33], wants: ['logits'], caches: ['f16', 'f32'] })
  }
  const many = listen({ ...caps, parallel: MANY_THREADS }, found)
  for (const dim of [sizes.dim, ...SHORT_DIMS]) {
    await walk(
      many,
      first,
      { ...plain, sizes: { ...sizes, dim } },
      { counts: [1], wants: ['logits'], caches: ['f16', 'f32'], capacity: LONG_CONTEXT },
    )
  }
  await many.close()
  for (const architecture of ARCHITECTURES) {
    const reasons: string[] = []
    for (const fused of [false, true]) {
      try {
        for (const bias of [false, true]) await walk(device, architecture, { ...plain, bias, fused }, MODEL_COURSE)
      } catch (error) {
        reasons.push(error instanceof Error ? error.message : String(error))
      }
    }
    if (reasons.length > 1) failed.push(`${architecture.names[0]}: ${reasons.join('; ')}`)
  }
  for (const { record, params } of SELF_TEST)
    for (const { kernel } of record.work(caps, params).launches) found.set(hashKernel(kernel), kernel)
  await device.close()
  const kernels = [...found].toSorted(([a, one], [b, other]) => order(one.name, other.name) || order(a, b)).map(([, kernel]) => kernel)
  return { kernels, failed }
}

/** Names of kernels that are others for models of other sizes. */
export async function differences(caps: Caps): Promise<string[]> {
  const [{ kernels: some }, { kernels: others }] = [await collectKernels(caps, SMALL), await collectKernels(caps, OTHER)]
  const known = new Set(some.map(hashKernel))
  return others.filter((kernel) => !known.has(hashKernel(kernel))).map(({ name }) => name)
}

/** Loads a made-up file and runs it through a course. */
async function walk(
  device: HostDevice,
  architecture: Architecture,
  made: Made,
  { counts, wants, caches, capacity = CAPACITY }: Course,
): Promise<void> {
  const { model, free } = await loadModel(device, makeFile(architecture.names[0] ?? '', made), architecture, { contextLength: capacity })
  try {
    for (const cacheType of caches) {
      const engine = new Engine(device, model, { capacity, cacheType, chunk: CAPACITY })
      for (const count of counts) {
        const tokens = Array.from({ length: count }, (_, i) => i)
        for (const want of wants) {
          engine.rewind([])
          await engine.prefill(tokens, want)
        }
        engine.rewind([])
        await engine.evaluate(tokens, () => {})
      }
      await engine.close()
    }
  } finally {
    free()
  }
}

/** A device that runs nothing and notes what it is asked to compile. */
function listen(caps: Caps, found: Map<string, Kernel>): HostDevice {
  return new HostDevice({
    name: 'list',
    detail: 'notes kernels',
    caps,
    compile: (kernel) => {
      found.set(hashKernel(kernel), kernel)
    },
    run: () => {},
  })
}

function makeFile(architecture: string, { sizes, format, bias, fused }: Made): Gguf {
  const numbers = {
    embedding_length: sizes.width,
    block_count: LAYERS,
    feed_forward_length: sizes.hidden,
    context_length: CAPACITY,
    'attention.head_count': sizes.heads,
    'attention.head_count_kv': sizes.kvHeads,
    'attention.key_length': sizes.dim,
    'attention.value_length': sizes.dim,
    'attention.layer_norm_rms_epsilon': 1 / sizes.width,
    'attention.sliding_window': sizes.dim,
    'attention.sliding_window_pattern': 2,
  }
  const metadata = new Map<string, MetaValue>([['general.architecture', { type: 'string', value: architecture }]])
  for (const [key, value] of Object.entries(numbers)) metadata.set(`${architecture}.${key}`, { type: 'f64', value })
  const file: ByteSource = {
    size: Infinity,
    name: 'made up',
    read: async (_offset, length) => new Uint8Array(length),
    close: async () => {},
  }
  const tensors = new Map<string, GgufTensor>()
  const add = (name: string, dims: readonly number[], type: GgmlType): void => {
    tensors.set(name, { name, type, dims, elements: tensorElements(dims), bytes: tensorBytes(type, dims), file, offset: 0 })
  }
  for (const [name, [rows, cols]] of Object.entries(matrices(sizes, fused))) {
    add(`${name}.weight`, [cols, rows], format)
    if (bias && name.startsWith('blk')) add(`${name}.bias`, [rows], 'f32')
  }
  for (const [name, length] of Object.entries(norms(sizes))) add(`${name}.weight`, [length], 'f32')
  const close = async (): Promise<void> => {}
  return { version: 3, metadata, tensors, alignment: 32, files: [file], close, [Symbol.asyncDispose]: close }
}

/** [rows, columns] of every matrix that an architecture may ask for. */
function matrices({ width, heads, kvHeads, dim, hidden, vocabulary }: Sizes, fused: boolean): Record<string, readonly [number, number]> {
  const layer = {
    attn_q: [heads * dim, width],
    attn_k: [kvHeads * dim, width],
    attn_v: [kvHeads * dim, width],
    attn_output: [width, heads * dim],
    ...(fused ? { attn_qkv: [(heads + 2 * kvHeads) * dim, width] } : {}),
    ffn_gate: [hidden, width],
    ffn_up: [fused ? 2 * hidden : hidden, width],
    ffn_down: [width, hidden],
  } as const
  return { token_embd: [vocabulary, width], output: [vocabulary, width], ...inLayers(layer) }
}

function norms({ width, dim }: Sizes): Record<string, number> {
  return {
    output_norm: width,
    ...inLayers({
      attn_norm: width,
      ffn_norm: width,
      attn_q_norm: dim,
      attn_k_norm: dim,
      post_attention_norm: width,
      post_ffw_norm: width,
    }),
  }
}

function inLayers<T>(parts: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(
    Array.from({ length: LAYERS }, (_, i) => Object.entries(parts).map(([name, part]) => [`blk.${i}.${name}`, part] as const)).flat(),
  )
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
