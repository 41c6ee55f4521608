// What a model is built from: settings and weights by name. llm/model-source.ts provides it over a GGUF file; tests may provide their
// own. Models never see files or devices.
//
// Whoever asks says what it will rely on: a range for every number, a shape for every tensor. What a file has instead is a `bad-file`
// that names it, before anything is made from it; models need no checks of their own but for how their numbers fit each other.

import type { Tensor } from '../tensor/tensor.ts'

/** What is added to a linear layer beside its weight [out, in]: scale (x Aᵀ) Bᵀ, a low-rank change of it. */
export interface Adapter {
  /** [rank, in] */
  readonly a: Tensor
  /** [out, rank] */
  readonly b: Tensor
  readonly scale: number
  /** What the adapter sees of x [n, in] in a step of training, if not all of it. */
  readonly drop?: (x: Tensor) => Tensor | undefined
}

/** What a setting may be; without `otherwise`, its absence is an error. */
export interface Range {
  /** default: for counts 1, for other numbers none */
  readonly least?: number
  /** default: for counts 2^31 - 1, for other numbers none */
  readonly most?: number
  readonly otherwise?: number
}

export interface ModelSource {
  /** the architecture's name, as the file states it; settings are looked up as `name.key` */
  readonly architecture: string
  /** the positions a sequence may have, as chosen at load */
  readonly contextLength: number
  /** A whole number from the settings. */
  count(key: string, range?: Range): number
  /** Any finite number from the settings. */
  number(key: string, range?: Range): number
  /** A text from the settings; without a fallback, its absence is an error. */
  text(key: string, fallback?: string): string
  /** True if the file has a tensor of this name. */
  has(name: string): boolean
  /** How many rows a matrix has, for sizes that no setting states: the vocabulary. */
  height(name: string): number
  /** The weight of this name and shape: [length] of a norm, [rows, columns] of a linear layer. Its absence is an error. */
  weight(name: string, shape: WeightShape): Tensor
  /** The weight, or undefined where the file has none. */
  find(name: string, shape: WeightShape): Tensor | undefined
  /** Rows [from, from + count) of a weight of this shape, as a weight of its own. */
  rows(name: string, shape: MatrixShape, from: number, count: number): Tensor
  /** What is added to the linear layer of this weight, if anything. */
  adapter(name: string, shape: MatrixShape): Adapter | undefined
  /** The values of a small f32 tensor of the file, or undefined: factors of rotary frequencies. */
  values(name: string, length: number): Float32Array | undefined
  /** A small f32 tensor of values known now: rotary frequencies. */
  constant(label: string, values: Float32Array): Tensor
  /** An error about what the settings say together. */
  bad(what: string, got: unknown, wanted: unknown): Error
}

export type MatrixShape = readonly [rows: number, columns: number]
export type WeightShape = readonly [length: number] | MatrixShape
