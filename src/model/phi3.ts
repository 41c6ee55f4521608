// Phi 3 and 3.5: like Llama without biases, rotary positions in halves with a long and a short set of factors, and files that
// store query, key and value as one matrix and gate and up as another: their rows are taken apart at load.

import { attend } from '../nn/attention.ts'
import { type StepInput, cachesOf, layerCache } from '../nn/cache.ts'
import { throughLayers } from '../nn/layer.ts'
import { type Gated, applyGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear, readLinearRows } from '../nn/linear.ts'
import { type Rope, applyRope, makeRope, readBase, readRopeDims } from '../nn/rope.ts'
import { readSizes, readWindow } from '../nn/size.ts'
import type { ModelSource } from '../nn/source.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Architecture, LanguageModel } from './model.ts'

interface Layer {
  readonly attnNorm: Tensor
  readonly q: Linear
  readonly k: Linear
  readonly v: Linear
  readonly out: Linear
  readonly ffnNorm: Tensor
  readonly ffn: Gated
}

export const phi3: Architecture = {
  names: ['phi3'],
  about: 'Phi 3 and 3.5',
  build(source: ModelSource): LanguageModel {
    const sizes = readSizes(source)
    const { width, heads, kvHeads, dim, hidden, vocabulary, eps } = sizes
    const scale = 1 / Math.sqrt(dim)
    const window = readWindow(source)
    const original = source.count('rope.scaling.original_context_length', { otherwise: source.count('context_length') })
    const long = source.contextLength > original
    const dims = readRopeDims(source, dim)
    const rope: Rope = makeRope(source, 'rope', {
      style: 'half',
      dims,
      base: readBase(source, 'rope.freq_base', 10000),
      factors: source.values(long ? 'rope_factors_long.weight' : 'rope_factors_short.weight', dims / 2),
      magnitude: source.number('rope.scaling.attn_factor', { least: 0, otherwise: 1 }),
    })
    /** Some of the rows of a matrix that has `all`. */
    const slice = (name: string, all: number, from: number, rows: number): Linear => readLinearRows(source, name, [all, width], from, rows)

    const embedding = source.weight('token_embd.weight', [vocabulary, width])
    const norm = source.weight('output_norm.weight', [width])
    const output = source.find('output.weight', [vocabulary, width]) ?? embedding
    const layers = Array.from({ length: sizes.layers }, (_, i): Layer => {
      const [qkv, up] = [`blk.${i}.attn_qkv`, `blk.${i}.ffn_up`]
      const fused = source.has(`${qkv}.weight`)
      const all = (heads + 2 * kvHeads) * dim
      return {
        attnNorm: source.weight(`blk.${i}.attn_norm.weight`, [width]),
        q: fused ? slice(qkv, all, 0, heads * dim) : readLinear(source, `blk.${i}.attn_q`, [heads * dim, width]),
        k: fused ? slice(qkv, all, heads * dim, kvHeads * dim) : readLinear(source, `blk.${i}.attn_k`, [kvHeads * dim, width]),
        v: fused ? slice(qkv, all, (heads + kvHeads) * dim, kvHeads * dim) : readLinear(source, `blk.${i}.attn_v`, [kvHeads * dim, width]),
        out: readLinear(source, `blk.${i}.attn_output`, [width, heads * dim]),
        ffnNorm: source.weight(`blk.${i}.ffn_norm.weight`, [width]),
        ffn: {
          gate: slice(up, 2 * hidden, 0, hidden),
          up: slice(up, 2 * hidden, hidden, hidden),
          down: readLinear(source, `blk.${i}.ffn_down`, [width, hidden]),
        },
      }
    })

    return {
      vocabulary,
      width,
      state: cachesOf(sizes.layers, { heads: kvHeads, dim }),
      forward({ tokens, positions, cache }: StepInput): Tensor {
        const embedded = embedding.embedding(tokens).named('embedding') // [n, width]
        const x = throughLayers(embedded, layers, cache, (x, layer, i) => {
          const h = x.rmsNorm(layer.attnNorm, eps)
          const q = applyRope(rope, applyLinear(layer.q, h), positions, heads) // [n, heads * dim]
          const k = applyRope(rope, applyLinear(layer.k, h), positions, kvHeads) // [n, kvHeads * dim]
          const v = applyLinear(layer.v, h)
          const mixed = attend(q, k, v, layerCache(cache, i), positions, { heads, scale, window })
          const half = x.add(applyLinear(layer.out, mixed)).named(`layer ${i} attention`)
          return half.add(applyGated(layer.ffn, half.rmsNorm(layer.ffnNorm, eps), 'silu')).named(`layer ${i}`)
        })
        return x.rmsNorm(norm, eps).named('hidden')
      },
      logits: (hidden) => hidden.linear(output).named('logits'),
    }
  },
}
