// Qwen 3: like Qwen 2 without biases, with an RMSNorm on every query and key head before the rotary positions, and a head size of
// its own (heads * dim need not be the width).

import { attend } from '../nn/attention.ts'
import { type StepInput, cachesOf, layerCache } from '../nn/cache.ts'
import { throughLayers } from '../nn/layer.ts'
import { type Gated, applyGated, readGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
import { normHeads } from '../nn/norm.ts'
import { type Rope, applyRope, makeRope, readBase, readRopeDims, readScaling } from '../nn/rope.ts'
import { readSizes } from '../nn/size.ts'
import type { ModelSource } from '../nn/source.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Architecture, LanguageModel } from './model.ts'

interface Layer {
  readonly attnNorm: Tensor
  readonly q: Linear
  readonly k: Linear
  readonly v: Linear
  readonly out: Linear
  readonly qNorm: Tensor
  readonly kNorm: Tensor
  readonly ffnNorm: Tensor
  readonly ffn: Gated
}

export const qwen3: Architecture = {
  names: ['qwen3'],
  about: 'Qwen 3 (dense)',
  build(source: ModelSource): LanguageModel {
    const sizes = readSizes(source)
    const { width, heads, kvHeads, dim, vocabulary, eps } = sizes
    const scale = 1 / Math.sqrt(dim)
    const dims = readRopeDims(source, dim)
    const rope: Rope = makeRope(source, 'rope', {
      style: 'half',
      dims,
      base: readBase(source, 'rope.freq_base', 10000),
      ...readScaling(source),
    })

    const embedding = source.weight('token_embd.weight', [vocabulary, width])
    const norm = source.weight('output_norm.weight', [width])
    const output = source.find('output.weight', [vocabulary, width]) ?? embedding
    const layers = Array.from({ length: sizes.layers }, (_, i): Layer => ({
      attnNorm: source.weight(`blk.${i}.attn_norm.weight`, [width]),
      q: readLinear(source, `blk.${i}.attn_q`, [heads * dim, width]),
      k: readLinear(source, `blk.${i}.attn_k`, [kvHeads * dim, width]),
      v: readLinear(source, `blk.${i}.attn_v`, [kvHeads * dim, width]),
      out: readLinear(source, `blk.${i}.attn_output`, [width, heads * dim]),
      qNorm: source.weight(`blk.${i}.attn_q_norm.weight`, [dim]),
      kNorm: source.weight(`blk.${i}.attn_k_norm.weight`, [dim]),
      ffnNorm: source.weight(`blk.${i}.ffn_norm.weight`, [width]),
      ffn: readGated(source, `blk.${i}`, sizes),
    }))

    return {
      vocabulary,
      width,
      state: cachesOf(sizes.layers, { heads: kvHeads, dim }),
      forward({ tokens, positions, cache }: StepInput): Tensor {
        const embedded = embedding.embedding(tokens).named('embedding') // [n, width]
        const x = throughLayers(embedded, layers, cache, (x, layer, i) => {
          const h = x.rmsNorm(layer.attnNorm, eps)
          const q = applyRope(rope, normHeads(applyLinear(layer.q, h), layer.qNorm, heads, eps), positions, heads) // [n, heads * dim]
          const k = applyRope(rope, normHeads(applyLinear(layer.k, h), layer.kNorm, kvHeads, eps), positions, kvHeads) // [n, kvHeads * dim]
          const v = applyLinear(layer.v, h)
          const mixed = attend(q, k, v, layerCache(cache, i), positions, { heads, scale })
          const half = x.add(applyLinear(layer.out, mixed)).named(`layer ${i} attention`)
          return half.add(applyGated(layer.ffn, half.rmsNorm(layer.ffnNorm, eps), 'silu')).named(`layer ${i}`)
        })
        return x.rmsNorm(norm, eps).named('hidden')
      },
      logits: (hidden) => hidden.linear(output).named('logits'),
    }
  },
}
