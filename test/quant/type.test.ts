import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { GGML_TYPES, GGML_TYPE_NAMES, ggmlTypeById, isGgmlType, tensorBytes } from '../../src/quant/type.ts'

describe('ggml types', () => {
  test('ids are unique and lead back to the name', () => {
    for (const name of GGML_TYPE_NAMES) expect(ggmlTypeById(GGML_TYPES[name].id)).toBe(name)
    expect(new Set(GGML_TYPE_NAMES.map((name) => GGML_TYPES[name].id)).size).toBe(GGML_TYPE_NAMES.length)
    for (const removed of [4, 5, 31, 32, 33, 36, 37, 38, 43, -1, 0.5]) expect(ggmlTypeById(removed)).toBeUndefined()
    expect(isGgmlType('q4_k')).toBe(true)
    expect(isGgmlType('toString')).toBe(false)
  })

  test('sizes of known tensors', () => {
    expect(tensorBytes('f32', [3])).toBe(12)
    expect(tensorBytes('q4_0', [32, 2])).toBe(36)
    expect(tensorBytes('q4_k', [4096, 4096])).toBe(4096 * 16 * 144)
    expect(tensorBytes('q6_k', [256, 1, 1, 3])).toBe(630)
  })

  test('refuses what has no size', () => {
    for (const dims of [[], [0], [-32], [1.5], [33], [NaN], [Infinity], [2 ** 53], [2 ** 30, 2 ** 30], [32, 2 ** 52]]) {
      expect(() => tensorBytes('q4_0', dims)).toThrow(IngotError)
    }
    // the elements fit, the bytes do not
    expect(() => tensorBytes('f64', [2 ** 52])).toThrow(/overflow/)
  })

  test('either exact or an error, for any dims', () => {
    fc.assert(
      fc.property(fc.constantFrom(...GGML_TYPE_NAMES), fc.array(fc.maxSafeNat(), { maxLength: 4 }), (type, dims) => {
        const { block, bytes } = GGML_TYPES[type]
        let got: number
        try {
          got = tensorBytes(type, dims)
        } catch (error) {
          expect(error).toBeInstanceOf(IngotError)
          return
        }
        expect(BigInt(got)).toBe((dims.reduce((product, dim) => product * BigInt(dim), 1n) / BigInt(block)) * BigInt(bytes))
      }),
    )
  })
})
