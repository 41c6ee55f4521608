// Frequencies for rotary positions: angle per position of each pair of dimensions, with the scalings that model files ask for.
// Computed once, in doubles, on the host; the kernel multiplies by the position.

import type { RopeAttrs } from '../tensor/node.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { ModelSource } from './source.ts'

export interface Rope {
  readonly freqs: Tensor
  readonly style: RopeAttrs['style']
  readonly dims: number
  /** factor on sine and cosine */
  readonly magnitude: number
}

export interface RopeOptions {
  readonly style: RopeAttrs['style']
  readonly dims: number
  readonly base: number
  /** divisors per pair: Llama 3's rope_freqs, Phi 3's long or short factors */
  readonly factors?: Float32Array | undefined
  /** positions are divided by this (linear scaling) */
  readonly linear?: number
  readonly yarn?: { readonly factor: number; readonly originalLength: number; readonly betaFast: number; readonly betaSlow: number }
  readonly magnitude?: number
}

export function makeRope(source: ModelSource, label: string, options: RopeOptions): Rope {
  const { style, dims, yarn } = options
  const magnitude = (options.magnitude ?? 1) * (yarn === undefined ? 1 : 1 + 0.1 * Math.log(yarn.factor))
  const freqs = ropeFrequencies(options)
  const odd = freqs.find((freq) => !Number.isFinite(freq))
  if (odd !== undefined) throw source.bad(`the settings of rope give no frequencies (${label})`, odd, 'finite numbers')
  return { freqs: source.constant(label, freqs), style, dims, magnitude }
}

/** How many elements of a head turn: all, unless the file says less. */
export function readRopeDims(source: ModelSource, dim: number): number {
  const dims = source.count('rope.dimension_count', { least: 2, most: dim, otherwise: dim })
  if (dims % 2 !== 0) throw source.bad('rope.dimension_count must be even', dims, 'pairs of dimensions')
  return dims
}

/** The base of the frequencies; far above that of any model, angles are all zero. */
export function readBase(source: ModelSource, key: string, otherwise: number): number {
  return source.number(key, { least: 1, most: 1e15, otherwise })
}

/** One angle per pair of dimensions. */
export function ropeFrequencies({ dims, base, factors, linear = 1, yarn }: RopeOptions): Float32Array {
  const ramp = yarn === undefined ? undefined : yarnRamp(dims, base, yarn)
  return Float32Array.from({ length: dims / 2 }, (_, pair) => {
    const plain = base ** ((-2 * pair) / dims) / (factors?.[pair] ?? 1)
    if (yarn === undefined || ramp === undefined) return plain / linear
    // YaRN: fast dimensions keep their frequency, slow ones are interpolated, with a ramp in between.
    const keep = ramp(pair)
    return (plain / yarn.factor) * (1 - keep) + plain * keep
  })
}

/** The settings `rope.scaling.*` of a file as options. */
export function readScaling(source: ModelSource): Pick<RopeOptions, 'linear' | 'yarn'> {
  const kind = source.text('rope.scaling.type', 'none')
  const range = { least: kind === 'yarn' ? 1e-6 : 0, most: 1e6 }
  const factor = source.number('rope.scaling.factor', {
    ...range,
    otherwise: source.number('rope.scale_linear', { ...range, otherwise: 1 }),
  })
  if (kind === 'yarn') {
    const turns = { least: 1e-6, most: 1e6 }
    return {
      yarn: {
        factor,
        originalLength: source.count('rope.scaling.original_context_length', { otherwise: source.count('context_length') }),
        betaFast: source.number('rope.scaling.yarn_beta_fast', { ...turns, otherwise: 32 }),
        betaSlow: source.number('rope.scaling.yarn_beta_slow', { ...turns, otherwise: 1 }),
      },
    }
  }
  return factor > 0 ? { linear: factor } : {}
}

export function applyRope(rope: Rope, x: Tensor, positions: Tensor, heads: number): Tensor {
  return x.rope(positions, rope.freqs, { style: rope.style, heads, dims: rope.dims, magnitude: rope.magnitude })
}

function yarnRamp(dims: number, base: number, yarn: NonNullable<RopeOptions['yarn']>): (pair: number) => number {
  const pairOf = (turns: number): number => (dims * Math.log(yarn.originalLength / (turns * 2 * Math.PI))) / (2 * Math.log(base))
  const low = Math.max(0, Math.floor(pairOf(yarn.betaFast)))
  const high = Math.min(dims - 1, Math.ceil(pairOf(yarn.betaSlow)))
  return (pair) => 1 - Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)))
}
