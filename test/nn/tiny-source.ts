// What a model of any architecture is built from, in small and without a file: settings that all of them understand, and random weights.

import type { Device } from '../../src/device/device.ts'
import type { ModelSource, Range } from '../../src/nn/source.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { randomFrom } from '../kernel/input.ts'

export const VOCABULARY = 24

const SETTINGS: Readonly<Record<string, number>> = {
  embedding_length: 16,
  block_count: 2,
  feed_forward_length: 24,
  context_length: 32,
  'attention.head_count': 4,
  'attention.head_count_kv': 2,
  'attention.key_length': 4,
  'attention.layer_norm_rms_epsilon': 1e-5,
  'attention.sliding_window': 3,
  'attention.sliding_window_pattern': 2,
}

export interface TinySource extends ModelSource {
  /** every weight that was asked for, by name */
  readonly weights: ReadonlyMap<string, Tensor>
}

/** `fused`: queries, keys and values are one matrix, as in files of Phi 3. */
export function createTinySource(device: Device, architecture: string, { bias = false, fused = false } = {}): TinySource {
  const random = randomFrom(7)
  const weights = new Map<string, Tensor>()
  const weight = (name: string, shape: readonly number[]): Tensor => {
    const isNorm = shape.length === 1 && !name.endsWith('.bias')
    const values = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => (isNorm ? 1 : 0) + (random() - 0.5) * 0.8)
    const found = weights.get(name) ?? Tensor.from(values, { shape: [...shape], device })
    weights.set(name, found)
    return found
  }
  const number = (key: string, { otherwise }: Range = {}): number => {
    const value = SETTINGS[key] ?? otherwise
    if (value === undefined) throw new Error(`no setting ${key}`)
    return value
  }
  return {
    architecture,
    contextLength: 32,
    weights,
    count: number,
    number,
    text: (key, fallback) => fallback ?? key,
    has: (name) => (name.includes('qkv') ? fused : bias || !name.endsWith('.bias')),
    height: () => VOCABULARY,
    weight,
    find: (name, shape) => (bias || !name.endsWith('.bias') ? weight(name, shape) : undefined),
    rows: (name, [, columns], from, count) => weight(`${name}[${from}..]`, [count, columns]),
    adapter: () => undefined,
    values: () => undefined,
    constant: (_, values) => Tensor.from(values, { device }),
    bad: (what, got, wanted) => new Error(`${what}, got ${String(got)}, wanted ${String(wanted)}`),
  }
}
