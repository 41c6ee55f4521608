// Products of matrices of random sizes, batches and transpositions on every kind of hardware; what does not depend on sizes; and that any grid
// of a CPU's kernel computes all of a product.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { buffersOf } from '../../src/ir/kernel.ts'
import { printKernel } from '../../src/ir/print.ts'
import { boundBuffers } from '../../src/kernel/family.ts'
import { matmul } from '../../src/kernel/matmul/matmul.ts'
import { type MatmulParams, simplify } from '../../src/kernel/matmul/params.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const CPU = ALL_CAPS['vectors of 8']!
const plain = { type: 'f32', transposeA: false, transposeB: false, batch: [], bias: false } as const

const side = fc.integer({ min: 1, max: 40 })
const product = fc.record({
  type: fc.constantFrom<MatmulParams['type'][]>('f32', 'f32', 'f16', 'bf16'),
  m: side,
  n: side,
  k: side,
  transposeA: fc.boolean(),
  transposeB: fc.boolean(),
  bias: fc.boolean(),
})
/** Matrices that are repeated, follow each other, or lie apart. */
const axis = fc.record({ size: fc.integer({ min: 1, max: 3 }), apartA: fc.constantFrom(0, 1, 2), apartB: fc.constantFrom(0, 1, 2) })
const params = fc.tuple(product, fc.array(axis, { maxLength: 3 })).map(([sizes, axes]): MatmulParams => {
  const { m, n, k } = sizes
  const batch = axes.map(({ size, apartA, apartB }) => ({ size, strideA: apartA * m * k, strideB: apartB * k * n }))
  return { ...sizes, batch }
})

describe('random products', () => {
  it('are what they mean', () => {
    const caps = fc.constantFrom(...Object.values(ALL_CAPS))
    // the last bits of sums that nearly cancel out are not what this is about
    const near = { ...matmul, allowed: (...some: Parameters<typeof matmul.allowed>) => 10 * matmul.allowed(...some) }
    fc.assert(
      fc.property(params, caps, (some, form) => {
        expect(failuresOf(near, some, form)).toEqual([])
      }),
      { numRuns: 60 },
    )
  })
})

describe('on a CPU', () => {
  const text = (some: MatmulParams): string[] => matmul.work(CPU, some).launches.map(({ kernel }) => printKernel(kernel))

  it('a kernel does not depend on sizes, transpositions and batches', () => {
    const small = text({ ...plain, m: 9, n: 9, k: 1 })
    const large = { ...plain, m: 3000, n: 999, k: 5000, transposeA: true, transposeB: true }
    expect(text({ ...large, batch: [{ size: 7, strideA: 0, strideB: 5000 * 999 }] })).toEqual(small)
  })

  it('any grid computes all of a product', () => {
    const [m, n, k] = [50, 70, 9]
    const some = { ...plain, m, n, k, transposeB: true }
    const [launch] = matmul.work(CPU, some).launches
    const inputs = { a: Float32Array.from({ length: m * k }, (_, i) => i % 7), b: Float32Array.from({ length: k * n }, (_, i) => i % 5) }
    const wanted = matmul.define(inputs, some)['y']
    for (const grid of [
      [1, 1, 1],
      [3, 2, 1],
      [1, 5, 1],
      [60, 1, 1], // more than there are tiles
    ] as const) {
      const y = new Float32Array(m * n).fill(Number.NaN)
      const arrays: Readonly<Record<string, Float32Array<ArrayBuffer>>> = { ...inputs, y }
      const bound = boundBuffers(launch!)
      const buffers = buffersOf(launch!.kernel).map(({ name }, at) => [name, new Uint8Array(arrays[bound[at]!]!.buffer)])
      interpret(launch!.kernel, { buffers: Object.fromEntries(buffers), uniforms: launch!.uniforms, grid }, { check: true })
      expect(y).toEqual(wanted)
    }
  })
})

describe('a batch', () => {
  const sizes = { ...plain, m: 4, n: 5, k: 6 }
  it('of products that follow each other is one axis', () => {
    const batch = [
      { size: 2, strideA: 72, strideB: 90 },
      { size: 3, strideA: 24, strideB: 30 },
    ]
    expect(simplify({ ...sizes, batch }).batch).toEqual([{ size: 6, strideA: 24, strideB: 30 }])
  })

  it('that shares b is one product of more rows, if a lies row after row', () => {
    const batch = [{ size: 8, strideA: 24, strideB: 0 }]
    expect(simplify({ ...sizes, batch })).toMatchObject({ m: 32, batch: [] })
    expect(simplify({ ...sizes, batch, transposeA: true })).toMatchObject({ m: 4, batch })
    expect(simplify({ ...sizes, batch: [{ size: 8, strideA: 25, strideB: 0 }] })).toMatchObject({ m: 4 })
  })

  it('of too many axes is refused', () => {
    const batch = Array.from({ length: 5 }, (_, i) => ({ size: 2, strideA: i % 2, strideB: 1000 * (i + 1) }))
    let caught: unknown
    try {
      simplify({ ...sizes, batch })
    } catch (error) {
      caught = error
    }
    expect(isIngotError(caught, 'unsupported')).toBe(true)
  })
})
