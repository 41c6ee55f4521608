// Qwen 2 and 2.5: like Llama, but with biases on query, key and value, and rotary positions in halves (dimension i with i + dim/2).

import { attend } from '../nn/attention.ts'
import type { StepInput } from '../nn/cache.ts'
import { type Gated, applyGated, readGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
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
  readonly ffnNorm: Tensor
  readonly ffn: Gated
}

export const qwen2: Architecture = {
  names: ['qwen2'],
  about: 'Qwen 2 and 2.5',
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
          const q = applyRope(rope, applyLinear(layer.q, h), positions, heads) // [n, heads * dim]
          const k = applyRope(rope, applyLinear(layer.k, h), positions, kvHeads) // [n, kvHeads * dim]
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
