// A model that can learn: its forward pass, and the tensors that change. Either adapters over weights that are frozen, which may have any
// format, or all weights, in f32.

import type { Device } from '../device/device.ts'
import { type LoadProgress, loadModel } from '../llm/weights.ts'
import type { Architecture, LanguageModel } from '../model/model.ts'
import { architectureOf } from '../model/index.ts'
import { type LoraOptions, type Noise, adapterTensors, buildWithLora } from '../nn/lora.ts'
import type { ModelSource } from '../nn/source.ts'
import { realizeNode } from '../tensor/evaluate.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import { metaString } from '../weights/gguf/meta.ts'

export interface Trainable {
  readonly device: Device
  readonly model: LanguageModel
  /** what learns, by name */
  readonly parameters: Readonly<Record<string, Tensor>>
  /** of what was loaded */
  readonly weightBytes: number
  /** the model without adapters; none where all weights learn */
  readonly frozen?: LanguageModel
  /** what dropout draws from while a step is planned */
  readonly noise: Noise
  /** Frees all weights; parameters that have memory of their own give it back when nobody holds them. */
  free(): void
}

export interface LoadTrainableOptions {
  /** the most rows that a sequence has: some models choose their rotary positions by it */
  readonly contextLength: number
  /** which layers have adapters; without it, all weights learn */
  readonly lora?: Omit<LoraOptions, 'device' | 'noise'>
  readonly onProgress?: (progress: LoadProgress) => void
  readonly signal?: AbortSignal
}

/** Loads what a model file has for training on a device. */
export async function loadTrainable(device: Device, gguf: Gguf, { lora, ...options }: LoadTrainableOptions): Promise<Trainable> {
  const plain = architectureOf(metaString(gguf, 'general.architecture'))
  const parameters: Record<string, Tensor> = {}
  const noise: Noise = { key: undefined }
  let frozen: LanguageModel | undefined
  const architecture: Architecture = {
    ...plain,
    build: (source) => {
      if (lora === undefined) return plain.build(collecting(source, parameters))
      const { model, adapters } = buildWithLora((own) => plain.build(own), source, { ...lora, device, noise })
      frozen = plain.build(source)
      Object.assign(parameters, adapterTensors(adapters))
      return model
    },
  }
  // Products are exact, so nothing is packed for int8.
  const { model, weightBytes, free } = await loadModel(device, gguf, architecture, { ...options, packs: false })
  try {
    const made = Object.values(parameters).filter(({ node }) => node.op !== 'leaf')
    await Promise.all(made.map(({ node }) => realizeNode(node, device)))
  } catch (error) {
    free()
    throw error
  }
  return { device, model, parameters, weightBytes, noise, ...(frozen === undefined ? {} : { frozen }), free }
}

/** A source whose weights are parameters: f32 values in memory of their own, since what was loaded may be a view of the file. */
function collecting(source: ModelSource, parameters: Record<string, Tensor>): ModelSource {
  const own = (weight: Tensor): Tensor => (weight.dtype === 'f32' ? weight.mul(1) : weight.to('f32')) // computed once, after loading
  const keep = (name: string, weight: () => Tensor): Tensor => {
    const found = parameters[name] ?? own(weight())
    parameters[name] = found
    return found
  }
  return {
    ...source,
    weight: (name, shape) => keep(name, () => source.weight(name, shape)),
    find: (name, shape) => (source.has(name) ? keep(name, () => source.weight(name, shape)) : undefined),
    rows: (name, shape, from, count) => keep(`${name}[${from}..]`, () => source.rows(name, shape, from, count)),
  }
}
