// What encoders promise for any input: whole blocks only, known bytes for known values, small errors, and nothing that is not finite.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { FORMATS, formatOf } from '../../src/quant/index.ts'
import { GGML_TYPES } from '../../src/quant/type.ts'
import { decodeValues, rmse } from './decode.ts'

const WRITTEN = FORMATS.filter(({ encode }) => encode !== undefined)

/** Normally distributed, the same every time. */
function normals(count: number, deviation: number): Float32Array {
  let state = 1
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state + 0.5) / 2 ** 32
  }
  return Float32Array.from({ length: count }, () => deviation * Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random()))
}

describe('encode', () => {
  test('is there for what Ingot writes', () => {
    expect(WRITTEN.map(({ name }) => name)).toEqual([
      'f32',
      'f16',
      'bf16',
      'q4_0',
      'q4_1',
      'q5_0',
      'q5_1',
      'q8_0',
      'q4_k',
      'q5_k',
      'q6_k',
      'mxfp4',
    ])
  })

  test('gives known bytes', () => {
    const ramp = Float32Array.from({ length: 32 }, (_, i) => i - 16)
    // d = -16 / -8 = 2; -16 becomes 0, 0 becomes 8, 15 becomes 15.5 -> 15
    expect(Array.from(formatOf('q4_0').encode!(ramp).subarray(0, 4))).toEqual([0x00, 0x40, 0x80, 0x91])
    expect(Array.from(formatOf('q8_0').encode!(new Float32Array(32).fill(-127)).subarray(0, 4))).toEqual([0x00, 0x3c, 0x81, 0x81])
    expect(Array.from(formatOf('mxfp4').encode!(new Float32Array(32).fill(6)).subarray(0, 2))).toEqual([127, 0x77])
    expect(Array.from(formatOf('bf16').encode!(Float32Array.of(1, -2, NaN)))).toEqual([0x80, 0x3f, 0x00, 0xc0, 0xc0, 0x7f])
    expect(Array.from(formatOf('f16').encode!(Float32Array.of(1, 65520, 2 ** -24)))).toEqual([0x00, 0x3c, 0x00, 0x7c, 0x01, 0x00])
  })

  /** Errors as parts of the deviation: a little above what a good search leaves on normal values. */
  const LIMIT: Readonly<Record<string, number>> = {
    f32: 0,
    f16: 3e-4,
    bf16: 2e-3,
    q4_0: 0.09,
    q4_1: 0.082,
    q5_0: 0.045,
    q5_1: 0.04,
    q8_0: 0.006,
    q4_k: 0.0725,
    q5_k: 0.036,
    q6_k: 0.018,
    mxfp4: 0.13,
  }
  for (const { name, encode } of WRITTEN) {
    const { block, bytes } = GGML_TYPES[name]

    test(`${name} is near`, () => {
      const values = normals(4096, 0.05)
      const encoded = encode!(values)
      expect(encoded.length).toBe((values.length / block) * bytes)
      expect(rmse(decodeValues(name, encoded, values.length), values) / 0.05).toBeLessThanOrEqual(LIMIT[name]!)
    })

    test(`${name} keeps zeros, and is not worse than nothing on any finite block`, () => {
      const zeros = new Float32Array(256)
      expect(decodeValues(name, encode!(zeros), 256).every((value) => value === 0)).toBe(true)
      fc.assert(
        fc.property(fc.array(fc.float({ noNaN: true, min: -1000, max: 1000 }), { minLength: 1, maxLength: 256 }), (some) => {
          const values = Float32Array.from({ length: 256 }, (_, i) => some[i % some.length]!)
          const got = decodeValues(name, encode!(values), 256)
          expect(got.every(Number.isFinite)).toBe(true)
          // the plain formats take the half that comes, and halves that are nearly zero are coarse
          expect(rmse(got, values)).toBeLessThanOrEqual(rmse(zeros, values) * 1.00001 + (name.endsWith('_k') ? 0 : 1e-4))
        }),
        { numRuns: 40 },
      )
    })
  }

  test('refuses half a block', () => {
    for (const { name, encode } of WRITTEN.filter((format) => GGML_TYPES[format.name].block > 1)) {
      expect(() => encode!(new Float32Array(GGML_TYPES[name].block - 1))).toThrow(IngotError)
    }
  })

  test('survives what is not finite', () => {
    for (const { name, encode } of WRITTEN) {
      const values = new Float32Array(256).fill(1)
      values[3] = NaN
      values[77] = Infinity
      expect({ name, length: encode!(values).length }).toEqual({ name, length: (256 / GGML_TYPES[name].block) * GGML_TYPES[name].bytes })
    }
  })
})
