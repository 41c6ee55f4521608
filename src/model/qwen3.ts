// Qwen 3: like Qwen 2 without biases, with an RMSNorm on every query and key head before the rotary positions, and a head size of
// its own (heads * dim need not be the width).

import { attend } from '../nn/attention.ts'
import type { StepInput } from '../nn/cache.ts'
import { type Gated, applyGated, readGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
import { normHeads } from '../nn/norm.ts'
import { type Rope, applyRope, makeRope, readScaling } from '../nn/rope.ts'
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
    const width = source.number('embedding_length')
    const layerCount = source.number('block_count')
    const heads = source.number('attention.head_count')
    const kvHeads = source.number('attention.head_count_kv', heads)
    const dim = source.number('attention.key_length', width / heads)
    const eps = source.number('attention.layer_norm_rms_epsilon')
    const scale = 1 / Math.sqrt(dim)
    const rope: Rope = makeRope(source, 'rope', {
      style: 'half',
      dims: source.number('rope.dimension_count', dim),
      base: source.number('rope.freq_base', 10000),
      ...readScaling(source),
    })

    const embedding = source.table('token_embd.weight')
    const norm = source.weight('output_norm.weight')
    const output = source.find('output.weight') ?? source.weight('token_embd.weight')
    const layers = Array.from({ length: layerCount }, (_, i): Layer => ({
      attnNorm: source.weight(`blk.${i}.attn_norm.weight`),
      q: readLinear(source, `blk.${i}.attn_q`),
      k: readLinear(source, `blk.${i}.attn_k`),
      v: readLinear(source, `blk.${i}.attn_v`),
      out: readLinear(source, `blk.${i}.attn_output`),
      qNorm: source.weight(`blk.${i}.attn_q_norm.weight`),
      kNorm: source.weight(`blk.${i}.attn_k_norm.weight`),
      ffnNorm: source.weight(`blk.${i}.ffn_norm.weight`),
      ffn: readGated(source, `blk.${i}`),
    }))

    return {
      vocabulary: embedding.shape[0] ?? 0,
      width,
      cache: { layers: layerCount, heads: kvHeads, dim },
      forward({ tokens, positions, cache }: StepInput): Tensor {
        let x = embedding.gather(tokens).named('embedding') // [n, width]
        layers.forEach((layer, i) => {
          const h = x.rmsNorm(layer.attnNorm, eps)
          const q = applyRope(rope, normHeads(applyLinear(layer.q, h), layer.qNorm, heads, eps), positions, heads) // [n, heads * dim]
          const k = applyRope(rope, normHeads(applyLinear(layer.k, h), layer.kNorm, kvHeads, eps), positions, kvHeads) // [n, kvHeads * dim]
          const v = applyLinear(layer.v, h)
          const mixed = attend(q, k, v, cache[i]!, positions, { heads, scale })
          x = x.add(applyLinear(layer.out, mixed)).named(`layer ${i} attention`)
          x = x.add(applyGated(layer.ffn, x.rmsNorm(layer.ffnNorm, eps), 'silu')).named(`layer ${i}`)
        })
        return x.rmsNorm(norm, eps).named('hidden')
      },
      logits: (hidden) => hidden.linear(output).named('logits'),
    }
  },
}
