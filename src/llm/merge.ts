// A model with an adapter in its weights: W + scale B A, written in any format, rows at a time.

import type { Device } from '../device/device.ts'
import { open } from '../device/open/open.ts'
import type { GgmlType } from '../quant/type.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { WriteOptions } from '../weights/gguf/write.ts'
import { metaString } from '../weights/gguf/meta.ts'
import type { ByteSink } from '../weights/sink.ts'
import { badAdapter, layersOf } from './adapter/adapter.ts'
import { checkFit, misfit } from './adapter/apply.ts'
import { readAdapter } from './adapter/read.ts'
import { type QuantizeResult, type RowChange, quantizeModel } from './quantize.ts'

export interface MergeOptions extends WriteOptions {
  readonly type: GgmlType
  readonly outputType?: GgmlType
  /** times what the adapter itself says (default 1) */
  readonly scale?: number
}

/** Writes the model; an adapter of another one is refused before anything is written. */
export async function mergeAdapter(base: Gguf, adapter: string, to: string | ByteSink, options: MergeOptions): Promise<QuantizeResult> {
  const { scale = 1, ...rest } = options
  const { device } = await open('cpu')
  try {
    const set = await readAdapter(adapter, base, { device })
    const architecture = metaString(base, 'general.architecture')
    const changes = new Map<string, RowChange>()
    for (const { weight, a, b } of layersOf(set)) {
      const [inner, out] = base.tensors.get(weight)?.dims ?? []
      if (inner === undefined || out === undefined) throw misfit(weight, 'lora_a', 'an adapter for it', 'no matrix of that name')
      checkFit(weight, { a, b }, [out, inner])
      changes.set(weight, addTo(device, a, b, (scale * set.alpha) / (a.shape[0] ?? 1)))
    }
    if (set.architecture !== architecture) throw badAdapter('the adapter is for another kind of model', set.architecture, architecture)
    return await quantizeModel(base, to, { ...rest, device, change: ({ name }) => changes.get(name) })
  } finally {
    await device.close()
  }
}

function addTo(device: Device, a: Tensor, b: Tensor, scale: number): RowChange {
  const columns = a.shape[1] ?? 1
  return async (from, count, read) => {
    const weight = Tensor.from(await read(), { shape: [count, columns], device })
    const change = b.slice([from, from + count]).matmul(a)
    return Float32Array.from(await weight.add(change.mul(scale)).data())
  }
}
