// What a model is built from: settings and weights by name. llm/load.ts provides it over a GGUF file and a device; tests
// provide their own. Models never see files or devices.

import type { Tensor } from '../tensor/tensor.ts'

export interface ModelSource {
  /** the architecture's name, as the file states it; settings are looked up as `name.key` */
  readonly architecture: string
  /** A number from the settings; without a fallback, its absence is an error. */
  number(key: string, fallback?: number): number
  text(key: string, fallback?: string): string
  /** True if the file has a tensor of this name. */
  has(name: string): boolean
  /** A table whose rows are looked up: the embedding. */
  table(name: string): Tensor
  /** The weight of this name, for norms and linear layers; its absence is an error. */
  weight(name: string): Tensor
  /** The weight, or undefined where the file has none. */
  find(name: string): Tensor | undefined
  /** Rows [from, from + count) of a weight, as a weight of its own. */
  rows(name: string, from: number, count: number): Tensor
  /** The values of a small f32 tensor of the file, or undefined: factors that shape tables on the host. */
  values(name: string): Float32Array | undefined
  /** A small f32 tensor of values known now: frequency tables. */
  constant(label: string, values: Float32Array): Tensor
  /** the positions a sequence may have, as chosen at load */
  readonly contextLength: number
}
