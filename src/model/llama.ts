// Llama 2 and 3, Mistral, TinyLlama, SmolLM and others that GGUF files call `llama`: RMSNorm before each half of a layer, rotary
// positions in adjacent pairs (the files' query and key rows are permuted for it), grouped key and value heads, gated SiLU.

import { attend } from '../nn/attention.ts'
import { type StepInput, cachesOf, layerCache } from '../nn/cache.ts'
import { throughLayers } from '../nn/layer.ts'
import { type Gated, applyGated, readGated } from '../nn/gated.ts'
import { type Linear, applyLinear, readLinear } from '../nn/linear.ts'
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
  readonly ffnNorm: Tensor
  readonly ffn: Gated
}

export const llama: Architecture = {
  names: ['llama'],
  about: 'Llama 2 and 3, Mistral, TinyLlama, SmolLM',
  build(source: ModelSource): LanguageModel {
    const sizes = readSizes(source)
    const { width, heads, kvHeads, dim, vocabulary, eps } = sizes
    const window = readWindow(source)
    const scale = readScale(source, dim)
    const dims = readRopeDims(source, dim)
    const rope: Rope = makeRope(source, 'rope', {
      style: 'adjacent',
      dims,
      base: readBase(source, 'rope.freq_base', 10000),
      factors: source.values('rope_freqs.weight', dims / 2),
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
