// Adapters on a model that is loaded: what its linear layers have beside their weights. Several are one: their ranks side by side, each
// times its scale. An adapter that does not fit the model is refused with the first tensor that does not.

import type { Adapter, MatrixShape } from '../../nn/source.ts'
import { sideBySide } from '../../quant/packed/packed.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { type AdapterSet, badAdapter, layersOf } from './adapter.ts'

/** An adapter that was read, and how much of it counts. */
export interface ScaledAdapter {
  readonly set: AdapterSet
  /** times what the adapter itself says */
  readonly scale: number
}

/** The same model with other adapters. */
export interface Appliance {
  /** what a linear layer has beside its weight, whose rows may lie packed */
  adapter(name: string, shape: MatrixShape, isPacked: boolean): Adapter | undefined
  /** Throws `bad-file` where the model has not asked for a layer of an adapter; call it when the model is built. */
  check(): void
  /** all that was made for the model, to be computed once */
  readonly tensors: readonly Tensor[]
}

interface Part {
  readonly a: Tensor
  readonly b: Tensor
  readonly scale: number
}

export function applyAdapters(adapters: readonly ScaledAdapter[], architecture: string): Appliance {
  const parts = new Map<string, Part[]>()
  for (const { set, scale } of adapters) {
    for (const { weight, a, b } of layersOf(set)) {
      const part = { a, b, scale: (scale * set.alpha) / (a.shape[0] ?? 1) }
      parts.set(weight, [...(parts.get(weight) ?? []), part])
    }
  }
  const made = new Map<string, Joined>()
  return {
    adapter: (name, shape, isPacked) => {
      const own = parts.get(name)
      if (own === undefined) return undefined
      for (const part of own) checkFit(name, part, shape)
      const joined = made.get(name) ?? join(own, isPacked)
      made.set(name, joined)
      return joined.adapter
    },
    check: () => {
      const strange = [...parts.keys()].find((name) => !made.has(name))
      if (strange !== undefined) throw misfit(strange, 'lora_a', 'an adapter for it', 'no linear layer of that name')
      const other = adapters.find(({ set }) => set.architecture !== architecture)
      if (other !== undefined) throw badAdapter('the adapter is for another kind of model', other.set.architecture, architecture)
    },
    get tensors() {
      return [...made.values()].flatMap(({ tensors }) => tensors)
    },
  }
}

/** Refuses an adapter of another shape than its weight [out, in]. */
export function checkFit(name: string, { a, b }: Pick<Adapter, 'a' | 'b'>, [out, inner]: MatrixShape): void {
  if (a.shape[1] !== inner) throw misfit(name, 'lora_a', a.shape, ['rank', inner])
  if (b.shape[0] !== out) throw misfit(name, 'lora_b', b.shape, [out, 'rank'])
}

export function misfit(name: string, part: 'lora_a' | 'lora_b', got: unknown, wanted: unknown): Error {
  return badAdapter(`the adapter does not fit this model: ${name}.${part}`, got, wanted)
}

interface Joined {
  readonly adapter: Adapter
  /** those that have memory */
  readonly tensors: readonly Tensor[]
}

/** One adapter for several: A [sum of ranks, in], B [out, sum of ranks]. B lies in memory as rows of the weight do, side by side or not. */
function join(parts: readonly Part[], isPacked: boolean): Joined {
  const [only] = parts.length === 1 ? parts : []
  const a = only?.a ?? Tensor.concat(parts.map((part) => part.a))
  const scaled = parts.map(({ b, scale }) => (scale === 1 ? b : b.mul(scale)))
  const b = only === undefined ? Tensor.concat(scaled, 1) : (scaled[0] ?? only.b)
  if (!isPacked) return { adapter: { a, b, scale: 1 }, tensors: [a, b] }
  const [out = 1, rank = 1] = b.shape
  const [sixteens, , rows] = sideBySide(out, rank)
  const filled = b.pad([[0, sixteens * rows - out], [0, 0]]) // prettier-ignore
  const beside = filled.reshape(sixteens, rows, rank).permute(0, 2, 1)
  const seen = beside.permute(0, 2, 1).reshape(sixteens * rows, rank)
  return { adapter: { a, b: sixteens * rows === out ? seen : seen.slice([0, out]), scale: 1 }, tensors: [a, beside] }
}
