// Gemma 3: embeddings scaled by the root of the width, RMSNorms before and after each half of a layer (the files' weights include
// the +1), query and key norms, gated GELU. Five of six layers see a sliding window and use the short rotary base.

import { attend } from '../nn/attention.ts'
import { type StepInput, cachesOf, layerCache } from '../nn/cache.ts'
import { throughLayers } from '../nn/layer.ts'
import { type Gated, applyGated, readGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
import { normHeads } from '../nn/norm.ts'
import { type Rope, applyRope, makeRope, readBase, readRopeDims, readScaling } from '../nn/rope.ts'
import { readScale, readSizes, readWindow } from '../nn/size.ts'
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
  readonly attnPostNorm: Tensor
  readonly ffnNorm: Tensor
  readonly ffnPostNorm: Tensor
  readonly ffn: Gated
}

export const gemma3: Architecture = {
  names: ['gemma3'],
  about: 'Gemma 3 (text)',
  build(source: ModelSource): LanguageModel {
    const sizes = readSizes(source)
    const { width, heads, kvHeads, dim, vocabulary, eps } = sizes
    const scale = readScale(source, dim)
    const window = readWindow(source)
    const pattern = source.count('attention.sliding_window_pattern', { otherwise: 6 })
    const isLocal = (layer: number): boolean => layer % pattern < pattern - 1
    const dims = readRopeDims(source, dim)
    const globalRope: Rope = makeRope(source, 'rope', {
      style: 'half',
      dims,
      base: readBase(source, 'rope.freq_base', 1_000_000),
      ...readScaling(source),
    })
    const localRope: Rope = makeRope(source, 'local rope', { style: 'half', dims, base: readBase(source, 'rope.freq_base_swa', 10000) })

    const embeddingScale = source.constant('embedding scale', Float32Array.of(Math.sqrt(width)))
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
      attnPostNorm: source.weight(`blk.${i}.post_attention_norm.weight`, [width]),
      ffnNorm: source.weight(`blk.${i}.ffn_norm.weight`, [width]),
      ffnPostNorm: source.weight(`blk.${i}.post_ffw_norm.weight`, [width]),
      ffn: readGated(source, `blk.${i}`, sizes),
    }))

    return {
      vocabulary,
      width,
      state: cachesOf(sizes.layers, { heads: kvHeads, dim }),
      forward({ tokens, positions, cache }: StepInput): Tensor {
        const embedded = embedding.embedding(tokens).mul(embeddingScale).named('embedding') // [n, width]
        const x = throughLayers(embedded, layers, cache, (x, layer, i) => {
          const rope = isLocal(i) ? localRope : globalRope
          const h = x.rmsNorm(layer.attnNorm, eps)
          const q = applyRope(rope, normHeads(applyLinear(layer.q, h), layer.qNorm, heads, eps), positions, heads) // [n, heads * dim]
          const k = applyRope(rope, normHeads(applyLinear(layer.k, h), layer.kNorm, kvHeads, eps), positions, kvHeads) // [n, kvHeads * dim]
          const v = applyLinear(layer.v, h)
          const mixed = attend(q, k, v, layerCache(cache, i), positions, { heads, scale, window: isLocal(i) ? window : 0 })
          const half = x.add(applyLinear(layer.out, mixed).rmsNorm(layer.attnPostNorm, eps)).named(`layer ${i} attention`)
          return half
            .add(applyGated(layer.ffn, half.rmsNorm(layer.ffnNorm, eps), 'gelu').rmsNorm(layer.ffnPostNorm, eps))
            .named(`layer ${i}`)
        })
        return x.rmsNorm(norm, eps).named('hidden')
      },
      logits: (hidden) => hidden.linear(output).named('logits'),
    }
  },
}
