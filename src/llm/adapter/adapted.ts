// A model that is loaded, with adapters: built anew over the same weights for each set of them. The sets used last are kept, so that
// changing between them neither reads files nor plans anew. Knows files; what is computed with a model is not its matter.

import type { Device } from '../../device/device.ts'
import type { LanguageModel } from '../../model/model.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import type { Gguf } from '../../weights/gguf/gguf.ts'
import { metaString } from '../../weights/gguf/meta.ts'
import type { LoadedModel } from '../weights.ts'
import { type ScaledAdapter, applyAdapters } from './apply.ts'
import { readAdapter } from './read.ts'

/** An adapter of LoRA, and how much of it counts. */
export interface AdapterChoice {
  /** a GGUF file, or a folder of PEFT */
  readonly path: string
  /** times what the adapter itself says (default 1) */
  readonly scale?: number
}

interface Adapted {
  readonly model: LanguageModel
  /** whoever holds them holds their memory */
  readonly tensors: readonly Tensor[]
}

/** Sets that are kept. */
const KEPT = 4

export class AdaptedModels {
  readonly #loaded: LoadedModel
  readonly #base: Gguf
  readonly #device: Device
  readonly #kept = new Map<string, Adapted>()

  constructor(loaded: LoadedModel, base: Gguf, device: Device) {
    this.#loaded = loaded
    this.#base = base
    this.#device = device
  }

  /** The model with all of these. */
  async with(choices: readonly AdapterChoice[]): Promise<LanguageModel> {
    const key = JSON.stringify(await Promise.all(choices.map(async ({ path, scale = 1 }) => [path, scale, await versionOf(path)])))
    const adapted = this.#kept.get(key) ?? (await this.#make(choices))
    this.#kept.delete(key) // to the end: the first is the one longest unused
    this.#kept.set(key, adapted)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest)
    return adapted.model
  }

  /** Gives back the memory of all adapters that are kept. */
  free(): void {
    for (const { tensors } of this.#kept.values()) for (const tensor of tensors) tensor[Symbol.dispose]()
    this.#kept.clear()
  }

  async #make(choices: readonly AdapterChoice[]): Promise<Adapted> {
    const sets: ScaledAdapter[] = []
    for (const { path, scale = 1 } of choices) sets.push({ set: await readAdapter(path, this.#base, { device: this.#device }), scale })
    const appliance = applyAdapters(sets, metaString(this.#base, 'general.architecture'))
    const model = this.#loaded.withAdapters(appliance.adapter)
    appliance.check()
    await Promise.all(appliance.tensors.map((tensor) => tensor.realize()))
    return { model, tensors: appliance.tensors }
  }
}

/** Changes when the file does. */
async function versionOf(path: string): Promise<string> {
  const { stat } = await import('node:fs/promises')
  const found = await stat(path).catch(() => undefined)
  return found === undefined ? '' : `${found.mtimeMs} ${found.size} ${found.ino}`
}
