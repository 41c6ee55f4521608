// Adapters of LoRA as what files hold: tensors by the names that GGUF has for them, and what to multiply their change with.

import { IngotError } from '../../base/error.ts'
import type { Adapter } from '../../nn/source.ts'
import type { Tensor } from '../../tensor/tensor.ts'

/** What a model has learnt beside its weights. */
export interface AdapterSet {
  /** of the base: `llama` */
  readonly architecture: string
  /** the change of a layer is times alpha / rank */
  readonly alpha: number
  /** f32: `blk.0.attn_q.weight.lora_a` [rank, in] and `.lora_b` [out, rank], and so on */
  readonly tensors: Readonly<Record<string, Tensor>>
}

/** A layer that has an adapter. */
export interface AdaptedLayer extends Pick<Adapter, 'a' | 'b'> {
  /** of its weight: `blk.0.attn_q.weight` */
  readonly weight: string
}

const NAME = /^(.+)\.lora_([ab])$/

/** The layers of a set. What is no pair of matrices of one rank is a `bad-file`. */
export function layersOf({ tensors }: Pick<AdapterSet, 'tensors'>): AdaptedLayer[] {
  const weights = new Set(
    Object.keys(tensors).map((name) => {
      const weight = NAME.exec(name)?.[1]
      if (weight === undefined) throw badAdapter('this tensor is no part of an adapter', name, 'NAME.lora_a or NAME.lora_b')
      return weight
    }),
  )
  if (weights.size === 0) throw badAdapter('there are no adapters', 'no tensors')
  return [...weights].map((weight) => {
    const [a, b] = [tensors[`${weight}.lora_a`], tensors[`${weight}.lora_b`]]
    if (a === undefined || b === undefined)
      throw badAdapter('half of an adapter is missing', `${weight}.lora_${a === undefined ? 'a' : 'b'}`)
    if (a.rank !== 2 || b.rank !== 2 || a.shape[0] !== b.shape[1])
      throw badAdapter(
        `the adapter of ${weight} has no rank`,
        `A [${a.shape.join()}] and B [${b.shape.join()}]`,
        'A [rank, in] and B [out, rank]',
      )
    return { weight, a, b }
  })
}

/** The rank that all layers have. */
export function rankOf(set: Pick<AdapterSet, 'tensors'>): number {
  const ranks = new Set(layersOf(set).map(({ a }) => a.shape[0] ?? 0))
  const [rank = 0, other] = ranks
  if (other === undefined) return rank
  throw new IngotError('unsupported', 'adapters of several ranks', { op: 'adapter', got: [...ranks], wanted: 'one rank' })
}

export function badAdapter(what: string, got: unknown, wanted?: unknown): IngotError {
  return new IngotError('bad-file', what, { op: 'adapter', got, wanted })
}
