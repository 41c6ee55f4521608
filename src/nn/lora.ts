// LoRA: linear layers of a model that is frozen learn a change of low rank, y = x Wᵀ + scale (x Aᵀ) Bᵀ. It comes in where weights have
// names, the source that a model is built from, so that no architecture knows of it and the weight may have any format.

import { IngotError } from '../base/error.ts'
import type { DeviceChoice } from '../tensor/default-device.ts'
import { dropout, random } from '../tensor/random.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { Adapter, MatrixShape, ModelSource } from './source.ts'

/** Which layers learn, and how much they can. */
export interface LoraOptions {
  readonly rank: number
  /** the change is times alpha / rank (default: the rank) */
  readonly alpha?: number
  /** names of layers, whole (`blk.0.attn_q`) or by their last part (`attn_q`, of every layer); default: all of them */
  readonly targets?: 'all-linear' | readonly string[]
  /** of the numbers that A begins with; B begins with zeros, so that nothing is changed (default 0) */
  readonly seed?: number
  /** A [rank, in] and B [out, rank] to begin with, by the name of the weight: `blk.0.attn_q.weight` */
  readonly given?: ReadonlyMap<string, Pick<Adapter, 'a' | 'b'>>
  /** the chance that an input of an adapter is left out, where there is noise (default 0) */
  readonly dropout?: number
  readonly noise?: Noise
  readonly device?: DeviceChoice
}

/** Where dropout takes its numbers from. Changes only while what computes with adapters is planned. */
export interface Noise {
  /** two u32 words; undefined: nothing is left out */
  key: Tensor | undefined
}

/** What was built, and what it can learn: an adapter for each weight, by its name. */
export interface Adapted<M> {
  readonly model: M
  readonly adapters: ReadonlyMap<string, Adapter>
}

/** Builds a model whose linear layers have adapters. */
export function buildWithLora<M>(build: (source: ModelSource) => M, source: ModelSource, options: LoraOptions): Adapted<M> {
  const { targets = 'all-linear' } = options
  const adapters = new Map<string, Adapter>()
  const layers = new Set<string>()
  const adapter = (name: string, shape: MatrixShape): Adapter | undefined => {
    layers.add(layerOf(name))
    if (targets !== 'all-linear' && !targets.some((target) => isTarget(name, target))) return undefined
    const made = adapters.get(name) ?? makeAdapter(name, shape, options, adapters.size)
    adapters.set(name, made)
    return made
  }
  const model = build({ ...source, adapter })
  const lost = targets === 'all-linear' ? undefined : targets.find((target) => ![...layers].some((layer) => isTarget(layer, target)))
  if (lost !== undefined || adapters.size === 0)
    throw bad('no linear layer has this name', lost ?? 'no targets', [...new Set([...layers].map(lastPart))].join(', '))
  const strange = [...(options.given?.keys() ?? [])].find((name) => !adapters.has(name))
  if (strange !== undefined) throw bad('an adapter is given for a layer that has none', strange, [...adapters.keys()].join(', '))
  return { model, adapters }
}

/** The tensors of adapters by the names that files have for them: `blk.0.attn_q.weight.lora_a`. */
export function adapterTensors(adapters: ReadonlyMap<string, Adapter>): Record<string, Tensor> {
  return Object.fromEntries([...adapters].flatMap(([name, { a, b }]) => [[`${name}.lora_a`, a] as const, [`${name}.lora_b`, b] as const]))
}

function makeAdapter(name: string, [out, inner]: MatrixShape, options: LoraOptions, index: number): Adapter {
  const { rank, alpha = rank, seed = 0, given, device, dropout: chance = 0, noise } = options
  if (!Number.isInteger(rank) || rank < 1) throw bad('no such rank', rank, 'a whole number from 1 on')
  const place = device === undefined ? {} : { device }
  // Each layer has words of its own: the same for the same layer and key on every device.
  const left = (x: Tensor, key: Tensor | undefined): Tensor | undefined => key && dropout(x, chance, { seed: key.add(index) })
  const drop = chance === 0 || noise === undefined ? {} : { drop: (x: Tensor) => left(x, noise.key) }
  const start = given?.get(name)
  if (start === undefined) {
    // As Hugging Face's PEFT: A evenly within 1 / root of its columns. Each layer has numbers of its own.
    const bound = 1 / Math.sqrt(inner)
    const a = random.uniform([rank, inner], { low: -bound, high: bound, seed: seed * 2 ** 20 + index, ...place })
    return { a, b: Tensor.zeros([out, rank], place), scale: alpha / rank, ...drop }
  }
  const { a, b } = start
  if (a.shape.join() !== `${rank},${inner}`) throw bad(`A of ${name} has the wrong shape`, a.shape, [rank, inner])
  if (b.shape.join() !== `${out},${rank}`) throw bad(`B of ${name} has the wrong shape`, b.shape, [out, rank])
  return { a, b, scale: alpha / rank, ...drop }
}

function isTarget(name: string, target: string): boolean {
  const layer = layerOf(name)
  return layer === target || lastPart(layer) === target
}

/** `blk.0.attn_q.weight` -> `blk.0.attn_q` */
function layerOf(name: string): string {
  return name.replace(/\.weight$/, '')
}

function lastPart(layer: string): string {
  return layer.slice(layer.lastIndexOf('.') + 1)
}

function bad(what: string, got: unknown, wanted: unknown): IngotError {
  return new IngotError('bad-argument', what, { op: 'lora', got, wanted })
}
