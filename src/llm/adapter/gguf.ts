// Adapters as GGUF files, which llama.cpp reads: A as [in, rank] and B as [rank, out] in its order of sizes, so row by row as they are.

import { Tensor } from '../../tensor/tensor.ts'
import type { DeviceChoice } from '../../tensor/default-device.ts'
import { decodeElements } from '../../base/element.ts'
import { openGguf, readTensor } from '../../weights/gguf/gguf.ts'
import { type MetaValue, metaNumber, metaString } from '../../weights/gguf/meta.ts'
import { writeGguf } from '../../weights/gguf/write.ts'
import type { ByteSink } from '../../weights/sink.ts'
import type { ByteSource } from '../../weights/source.ts'
import { type AdapterSet, badAdapter, layersOf } from './adapter.ts'

/** Writes a set to a path or a sink; gives the bytes written. */
export async function writeAdapterGguf(target: string | ByteSink, set: AdapterSet, name = 'adapter'): Promise<number> {
  const text = (value: string): MetaValue => ({ type: 'string', value })
  const metadata: [string, MetaValue][] = [
    ['general.architecture', text(set.architecture)],
    ['general.type', text('adapter')],
    ['general.name', text(name)],
    ['general.file_type', { type: 'u32', value: 0 }],
    ['adapter.type', text('lora')],
    ['adapter.lora.alpha', { type: 'f32', value: set.alpha }],
  ]
  const tensors = layersOf(set).flatMap(({ weight, a, b }) => [
    { name: `${weight}.lora_a`, tensor: a },
    { name: `${weight}.lora_b`, tensor: b },
  ])
  return writeGguf(target, {
    metadata,
    tensors: tensors.map((each) => ({
      name: each.name,
      type: 'f32',
      dims: each.tensor.shape.toReversed(),
      data: () => each.tensor.to('f32').bytes(),
    })),
  })
}

/** Reads a set whose matrices are floats. A source is closed. */
export async function readAdapterGguf(from: string | ByteSource, { device }: { readonly device?: DeviceChoice } = {}): Promise<AdapterSet> {
  await using gguf = await openGguf(from)
  const [kind, type] = [metaString(gguf, 'general.type', 'model'), metaString(gguf, 'adapter.type', 'none')]
  if (kind !== 'adapter' || type !== 'lora')
    throw badAdapter('the file holds no LoRA adapter', `${kind} of type ${type}`, 'adapter of type lora')
  const tensors: Record<string, Tensor> = {}
  for (const tensor of gguf.tensors.values()) {
    const { name, dims, elements } = tensor
    const dtype = tensor.type
    if (dtype !== 'f32' && dtype !== 'f16' && dtype !== 'bf16') throw badAdapter(`${name} is quantised`, dtype, 'f32, f16 or bf16')
    const [columns = 1, rows = 1] = dims
    const values = Float32Array.from(decodeElements(dtype, await readTensor(tensor), elements))
    tensors[name] = Tensor.from(values, { shape: [rows, columns], ...(device === undefined ? {} : { device }) })
  }
  const set = { architecture: metaString(gguf, 'general.architecture'), alpha: metaNumber(gguf, 'adapter.lora.alpha'), tensors }
  layersOf(set) // whole pairs
  return set
}
