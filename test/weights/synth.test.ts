// Random models: complete, alike for the same seed, and of the spread they promise in every format.

import { describe, expect, test } from 'vitest'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { metaNumber, metaStrings } from '../../src/weights/gguf/meta.ts'
import { fromBytes } from '../../src/weights/source.ts'
import type { LlamaShape } from '../../src/weights/synth/llama.ts'
import { synthesize } from '../../src/weights/synth/synth.ts'
import { RandomWords, SYNTHETIC, fillRandom } from '../../src/weights/synth/block.ts'
import { GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'
import { decodeValues } from '../quant/decode.ts'

const SHAPE: LlamaShape = { width: 64, layers: 2, heads: 4, kvHeads: 2, hidden: 256, vocabulary: 400 }

async function bytesOf(seed: number, type: GgmlType = 'q4_k'): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  await synthesize({ write: async (bytes) => void parts.push(bytes.slice()) }, { shape: SHAPE, type, seed })
  return new Uint8Array(Buffer.concat(parts))
}

describe('synthesize', () => {
  test('writes a complete llama', async () => {
    await using gguf = await openGguf(fromBytes(await bytesOf(1)))
    expect(gguf.tensors.size).toBe(3 + 9 * 2)
    expect(metaNumber(gguf, 'llama.attention.head_count_kv')).toBe(2)
    const tokens = metaStrings(gguf, 'tokenizer.ggml.tokens')
    expect(tokens.length).toBe(400)
    expect(new Set(tokens).size).toBe(400)
    expect(tokens.slice(0, 4)).toEqual(['<unk>', '<s>', '</s>', '<0x00>'])
    // rows of 64 hold no whole block of q4_k, rows of 256 do
    expect(gguf.tensors.get('blk.0.attn_q.weight')?.type).toBe('q8_0')
    expect(gguf.tensors.get('blk.0.ffn_down.weight')?.type).toBe('q4_k')
    expect(gguf.tensors.get('blk.1.attn_k.weight')?.dims).toEqual([64, 32])
  })

  test('is decided by its seed', async () => {
    const [a, b, c] = await Promise.all([bytesOf(1), bytesOf(1), bytesOf(2)])
    expect(Buffer.from(a).equals(b)).toBe(true)
    expect(Buffer.from(a).equals(c)).toBe(false)
  })

  test('has scores that spread, as those of real models do', async () => {
    await using gguf = await openGguf(fromBytes(await bytesOf(1, 'f32')))
    const deviationOf = async (name: string): Promise<number> => {
      const { file, offset, bytes } = gguf.tensors.get(`blk.0.${name}.weight`)!
      const values = new Float32Array((await file.read(offset, bytes)).slice().buffer)
      return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length)
    }
    const plain = await deviationOf('attn_v')
    expect((await deviationOf('attn_q')) / plain).toBeCloseTo(5, 0)
    expect((await deviationOf('attn_k')) / plain).toBeCloseTo(5, 0)
  })

  test('refuses shapes that no model has', async () => {
    const sink = { write: async () => {} }
    for (const wrong of [{ width: 63 }, { heads: 3 }, { kvHeads: 3 }, { vocabulary: 258 }, { layers: 0 }, { hidden: 1.5 }]) {
      await expect(synthesize(sink, { shape: { ...SHAPE, ...wrong }, type: 'f16' })).rejects.toThrow(/synth/)
    }
  })
})

describe('fillRandom', () => {
  for (const type of SYNTHETIC) {
    test(`${type} has the spread asked for`, () => {
      const elements = 32 * 256
      const bytes = new Uint8Array((elements / GGML_TYPES[type].block) * GGML_TYPES[type].bytes)
      fillRandom(type, bytes, 0.02, new RandomWords(7))
      const values = decodeValues(type, bytes, elements)
      const mean = values.reduce((sum, value) => sum + value, 0) / elements
      const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / elements)
      expect(Math.abs(mean)).toBeLessThan(0.004)
      // mxfp4 has powers of two for scales
      expect(deviation / 0.02).toBeGreaterThan(type === 'mxfp4' ? 0.7 : 0.9)
      expect(deviation / 0.02).toBeLessThan(type === 'mxfp4' ? 1.42 : 1.1)
    })
  }
})
