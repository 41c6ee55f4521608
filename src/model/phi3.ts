// Phi 3 and 3.5: like Llama without biases, rotary positions in halves with a long and a short set of factors, and files that
// store query, key and value as one matrix and gate and up as another: their rows are taken apart at load.

import { attend } from '../nn/attention.ts'
import type { StepInput } from '../nn/cache.ts'
import { type Gated, applyGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
import { type Rope, applyRope, makeRope } from '../nn/rope.ts'
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
    const width = source.number('embedding_length')
    const layerCount = source.number('block_count')
    const heads = source.number('attention.head_count')
    const kvHeads = source.number('attention.head_count_kv', heads)
    const dim = source.number('attention.key_length', width / heads)
    const eps = source.number('attention.layer_norm_rms_epsilon')
    const scale = 1 / Math.sqrt(dim)
    const window = source.number('attention.sliding_window', 0)
    const hidden = source.number('feed_forward_length')
    const original = source.number('rope.scaling.original_context_length', source.number('context_length'))
    const long = source.contextLength > original
    const rope: Rope = makeRope(source, 'rope', {
      style: 'half',
      dims: source.number('rope.dimension_count', dim),
      base: source.number('rope.freq_base', 10000),
      factors: source.values(long ? 'rope_factors_long.weight' : 'rope_factors_short.weight'),
      magnitude: source.number('rope.scaling.attn_factor', 1),
    })
    const slice = (name: string, from: number, rows: number): Linear => ({
      weight: source.rows(`${name}.weight`, from, rows),
      bias: undefined,
    })

    const embedding = source.table('token_embd.weight')
    const norm = source.weight('output_norm.weight')
    const output = source.find('output.weight') ?? source.weight('token_embd.weight')
    const layers = Array.from({ length: layerCount }, (_, i): Layer => {
      const [all, up] = [`blk.${i}.attn_qkv`, `blk.${i}.ffn_up`]
      const fused = source.has(`${all}.weight`)
      return {
        attnNorm: source.weight(`blk.${i}.attn_norm.weight`),
        q: fused ? slice(all, 0, heads * dim) : readLinear(source, `blk.${i}.attn_q`),
        k: fused ? slice(all, heads * dim, kvHeads * dim) : readLinear(source, `blk.${i}.attn_k`),
        v: fused ? slice(all, (heads + kvHeads) * dim, kvHeads * dim) : readLinear(source, `blk.${i}.attn_v`),
        out: readLinear(source, `blk.${i}.attn_output`),
        ffnNorm: source.weight(`blk.${i}.ffn_norm.weight`),
        ffn: { gate: slice(up, 0, hidden), up: slice(up, hidden, hidden), down: readLinear(source, `blk.${i}.ffn_down`) },
      }
    })

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
          const mixed = attend(q, k, v, cache[i]!, positions, { heads, scale, window })
          x = x.add(applyLinear(layer.out, mixed)).named(`layer ${i} attention`)
          x = x.add(applyGated(layer.ffn, x.rmsNorm(layer.ffnNorm, eps), 'silu')).named(`layer ${i}`)
        })
        return x.rmsNorm(norm, eps).named('hidden')
      },
      logits: (hidden) => hidden.linear(output).named('logits'),
    }
  },
}
