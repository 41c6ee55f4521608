// What random numbers do not reach: NaN and infinities, masked rows, large angles, accuracy of the special functions, bad
// parameters, and maps and reductions of random shapes.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { roundHalf } from '../../src/base/half.ts'
import { cacheWrite } from '../../src/kernel/attention/cache.ts'
import { copy } from '../../src/kernel/move/copy.ts'
import { gather } from '../../src/kernel/move/gather.ts'
import { type MapExpr, type MapOp, type MapParams, map, mergeAxes } from '../../src/kernel/map/map.ts'
import { type ReduceKind, reduce } from '../../src/kernel/reduce/reduce.ts'
import { rope } from '../../src/kernel/attention/rope.ts'
import { argmax } from '../../src/kernel/select/argmax.ts'
import { topk } from '../../src/kernel/select/topk.ts'
import { softmax } from '../../src/kernel/reduce/softmax.ts'
import { erfOf } from '../../src/kernel/function.ts'
import { ALL_CAPS, failuresOf, runCase } from './interpret-case.ts'

const GPU = ALL_CAPS['subgroups of 32']!
const CPU = ALL_CAPS['vectors of 8']!
const FORMS = Object.entries(ALL_CAPS)

/** The values of one operation at these points. */
function valuesOf(op: MapOp, points: Float32Array, caps = GPU): Float32Array {
  const params: MapParams = {
    expr: { op, args: [{ input: 0 }] },
    type: 'f32',
    shape: [points.length],
    inputs: [{ type: 'f32', strides: [1] }],
  }
  return runCase(map, params, caps, { given: { in0: points } }).got['y'] as Float32Array
}

describe('special functions', () => {
  const wide = Float32Array.from({ length: 4001 }, (_, i) => (i - 2000) / 333)

  it('erf is within 1e-7', () => {
    const worst = valuesOf('erf', wide).reduce((most, y, i) => Math.max(most, Math.abs(y - erfOf(wide[i]!))), 0)
    expect(worst).toBeLessThan(1e-7)
  })

  it('erfOf is erf', () => {
    // to 15 digits, from tables
    for (const [x, y] of [
      [0.5, 0.520499877813047],
      [1, 0.842700792949715],
      [2, 0.995322265018953],
      [2.6, 0.999763965583471],
      [-3, -0.999977909503001],
    ] as const) {
      expect(Math.abs(erfOf(x) - y)).toBeLessThan(1e-14)
    }
  })

  it.each([0.011, 99.7531, 4999.7531])('sine and cosine are within 2e-7 at multiples of %d', (step) => {
    const angles = Float32Array.from({ length: 4000 }, (_, i) => (i - 2000) * step)
    for (const [op, exact] of [
      ['sin', Math.sin],
      ['cos', Math.cos],
    ] as const) {
      const worst = valuesOf(op, angles).reduce((most, y, i) => Math.max(most, Math.abs(y - exact(angles[i]!))), 0)
      expect(worst).toBeLessThan(2e-7)
    }
  })

  it('nothing overflows on the way to a finite result', () => {
    const large = Float32Array.of(-1e30, -1e4, -100, 100, 1e4, 1e30)
    for (const caps of [GPU, CPU]) {
      expect(Array.from(valuesOf('silu', large, caps), (y) => y + 0)).toEqual([0, 0, expect.closeTo(0, 30), 100, 1e4, Math.fround(1e30)])
      expect(Array.from(valuesOf('gelu', large, caps), (y) => y + 0)).toEqual([0, 0, 0, 100, 1e4, Math.fround(1e30)])
      expect(Array.from(valuesOf('geluErf', large, caps), (y) => y + 0)).toEqual([0, 0, 0, 100, 1e4, Math.fround(1e30)])
      expect(Array.from(valuesOf('sigmoid', large, caps))).toEqual([0, 0, expect.closeTo(0, 30), 1, 1, 1])
      expect(Array.from(valuesOf('softplus', large, caps))).toEqual([0, 0, expect.closeTo(0, 30), 100, 1e4, Math.fround(1e30)])
    }
  })

  it('a NaN stays one', () => {
    for (const op of ['silu', 'gelu', 'geluErf', 'sigmoid', 'softplus', 'erf', 'sin', 'cos', 'relu', 'exp', 'tanh'] as const) {
      expect(valuesOf(op, Float32Array.of(Number.NaN))[0]).toBeNaN()
    }
  })

  it('powers of negative numbers follow C', () => {
    const power = (x: number, y: number): number => {
      const expr: MapExpr = { op: 'pow', args: [{ input: 0 }, { input: 1 }] }
      const params: MapParams = {
        expr,
        type: 'f32',
        shape: [1],
        inputs: [
          { type: 'f32', strides: [1] },
          { type: 'f32', strides: [1] },
        ],
      }
      return runCase(map, params, GPU, { given: { in0: Float32Array.of(x), in1: Float32Array.of(y) } }).got['y']![0]!
    }
    expect([power(-2, 3), power(-2, 2), power(-2, -1), power(0, 0), power(-5, 0), power(3, 2)]).toEqual([-8, 4, -0.5, 1, 1, 9])
    expect(power(-2, 0.5)).toBeNaN()
  })
})

describe.each(FORMS)('%s', (_name, caps) => {
  it('softmax of masked rows', () => {
    const x = Float32Array.of(-Infinity, 1, -Infinity, 1, -Infinity, -Infinity, -Infinity, -Infinity)
    expect(Array.from(runCase(softmax, { rows: 2, cols: 4 }, caps, { given: { x } }).got['y']!)).toEqual([0, 0.5, 0, 0.5, 0, 0, 0, 0])
  })

  it('softmax keeps its precision far from 0', () => {
    const x = Float32Array.from({ length: 193 }, (_, i) => 1e4 + (i % 7))
    expect(failuresOf(softmax, { rows: 1, cols: 193 }, caps, { given: { x } })).toEqual([])
  })

  it('argmax and topk ignore NaN, and prefer low ids', () => {
    const x = new Float32Array(67).fill(-Infinity)
    x[0] = Number.NaN
    const pick = (): unknown => runCase(argmax, { rows: 1, cols: 67 }, caps, { given: { x } }).got['y']![0]
    expect(pick()).toBe(1)
    x[40] = -0
    x[50] = 0
    expect(pick()).toBe(40)
    x[60] = x[66] = Infinity
    expect(pick()).toBe(60)
    expect(Array.from(runCase(topk, { cols: 67, k: 5 }, caps, { given: { x } }).got['y']!.subarray(0, 5))).toEqual([60, 66, 40, 50, 1])
    expect(runCase(argmax, { rows: 1, cols: 67 }, caps, { given: { x: new Float32Array(67).fill(Number.NaN) } }).got['y']![0]).toBe(0)
  })

  it('max of -Infinity alone', () => {
    const x = new Float32Array(67).fill(-Infinity)
    expect(runCase(reduce, { kind: 'max', axes: [0], shape: [67] }, caps, { given: { x } }).got['y']![0]).toBe(-Infinity)
  })

  it('a cache of halves rounds to even', () => {
    const x = Float32Array.of(1 + 2 ** -11, 1 + 3 * 2 ** -11, 1e-7, -65504)
    const { got } = runCase(cacheWrite, { type: 'f16', rows: 1, heads: 1, headDim: 4, capacity: 1 }, caps, { given: { x } })
    expect(Array.from(got['cache']!)).toEqual(Array.from(x, (value) => roundHalf(value)))
  })
})

describe('random shapes', () => {
  const caps = fc.constantFrom(...Object.values(ALL_CAPS))
  const shape = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 5 })

  it('maps with any broadcast and order of axes', () => {
    const params = shape.chain((sizes) =>
      fc.tuple(
        fc.constant(sizes),
        fc.shuffledSubarray(
          sizes.map((_, axis) => axis),
          { minLength: sizes.length },
        ),
        fc.array(fc.boolean(), { minLength: sizes.length, maxLength: sizes.length }),
      ),
    )
    fc.assert(
      fc.property(params, caps, ([sizes, order, repeated], form) => {
        const permuted = sizes.map(() => 0)
        let step = 1
        for (const axis of order) {
          permuted[axis] = step
          step *= sizes[axis]!
        }
        const contiguous = sizes.map((_, axis) => sizes.slice(axis + 1).reduce((product, size) => product * size, 1))
        const inputs = [permuted, contiguous.map((stride, axis) => (repeated[axis] === true ? 0 : stride))].map(
          (strides) => ({ type: 'f32', strides }) as const,
        )
        const expr: MapExpr = { op: 'sub', args: [{ input: 0 }, { input: 1 }] }
        expect(failuresOf(map, { expr, type: 'f32', shape: sizes, inputs }, form)).toEqual([])
      }),
      { numRuns: 60 },
    )
  })

  it('reductions over any axes', () => {
    const kind = fc.constantFrom<ReduceKind[]>('sum', 'mean', 'max', 'min', 'prod', 'argmax', 'argmin')
    const axes = shape.chain((sizes) => fc.tuple(fc.constant(sizes), fc.subarray(sizes.map((_, axis) => axis))))
    fc.assert(
      fc.property(axes, kind, caps, ([sizes, chosen], how, form) => {
        expect(failuresOf(reduce, { kind: how, axes: chosen, shape: sizes }, form)).toEqual([])
      }),
      { numRuns: 60 },
    )
  })

  it('topk of any length', () => {
    const params = fc
      .integer({ min: 1, max: 300 })
      .chain((cols) => fc.record({ cols: fc.constant(cols), k: fc.integer({ min: 1, max: Math.min(cols, 20) }) }))
    fc.assert(
      fc.property(params, caps, fc.integer({ min: 1 }), (each, form, seed) => {
        expect(failuresOf(topk, each, form, { seed })).toEqual([])
      }),
      { numRuns: 40 },
    )
  })

  it('axes merge as far as all inputs allow', () => {
    expect(
      mergeAxes(
        [2, 3, 4],
        [
          [12, 4, 1],
          [0, 0, 0],
        ],
      ),
    ).toEqual({ shape: [24], strides: [[1], [0]] })
    expect(
      mergeAxes(
        [2, 3, 4],
        [
          [12, 4, 1],
          [0, 4, 1],
        ],
      ),
    ).toEqual({
      shape: [2, 12],
      strides: [
        [12, 1],
        [0, 1],
      ],
    })
    expect(mergeAxes([1, 1], [[0, 0]])).toEqual({ shape: [1], strides: [[0]] })
  })
})

describe('bad parameters', () => {
  const f32 = (expr: MapExpr): MapParams => ({ expr, type: 'f32', shape: [3], inputs: [{ type: 'f32', strides: [1] }] })
  it.each([
    ['an input that is not there', () => map.work(GPU, f32({ input: 1 }))],
    ['too few operands', () => map.work(GPU, f32({ op: 'add', args: [{ input: 0 }] }))],
    ['strides of another rank', () => map.work(GPU, { ...f32({ input: 0 }), shape: [3, 3] })],
    [
      'exp of u32',
      () => map.work(GPU, { expr: { op: 'exp', args: [{ input: 0 }] }, type: 'u32', shape: [3], inputs: [{ type: 'u32', strides: [1] }] }),
    ],
    ['k above the length', () => topk.work(GPU, { cols: 3, k: 4 })],
    ['an axis that is not there', () => reduce.work(GPU, { kind: 'sum', axes: [2], shape: [3, 3] })],
    ['half a block', () => gather.work(GPU, { format: 'q4_k', rows: 1, cols: 40, tableRows: 1 })],
    ['an odd head', () => cacheWrite.work(GPU, { type: 'f16', rows: 1, heads: 1, headDim: 3, capacity: 1 })],
    ['more turning than there is', () => rope.work(GPU, { style: 'half', rows: 1, heads: 1, headDim: 4, dims: 6, magnitude: 1 })],
    [
      'a copy past the end',
      () =>
        copy.work(GPU, { type: 'f32', shape: [4], from: { offset: 1, strides: [1], size: 4 }, to: { offset: 0, strides: [1], size: 4 } }),
    ],
  ])('%s', (_name, run) => {
    let caught: unknown
    try {
      run()
    } catch (error) {
      caught = error
    }
    expect(isIngotError(caught, 'bad-argument')).toBe(true)
  })
})
