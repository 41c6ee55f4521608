// What random numbers do not reach: NaN and infinities, masked rows, large angles, accuracy of the special functions, bad
// parameters, and maps and reductions of random shapes.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { ELEMENT_TYPES, type ElementType } from '../../src/base/element.ts'
import { roundHalf } from '../../src/base/half.ts'
import { cacheWrite } from '../../src/kernel/attention/cache.ts'
import { PAGE } from '../../src/kernel/attention/pages.ts'
import { gather } from '../../src/kernel/move/gather.ts'
import { registerOf } from '../../src/kernel/element.ts'
import type { Arrays } from '../../src/kernel/family.ts'
import { type MapExpr, type MapInput, type MapParams, map } from '../../src/kernel/map/map.ts'
import type { MapOp } from '../../src/kernel/map/op.ts'
import { type View, extentOf, mergeAxes } from '../../src/kernel/map/walk.ts'
import { type ReduceKind, type ReduceParams, plainReduce, reduce } from '../../src/kernel/reduce/reduce.ts'
import { rope } from '../../src/kernel/attention/rope.ts'
import { type ScanParams, scan } from '../../src/kernel/reduce/scan.ts'
import { topk } from '../../src/kernel/select/topk.ts'
import { softmax } from '../../src/kernel/reduce/softmax.ts'
import { erfOf } from '../../src/kernel/function.ts'
import { randomFrom } from './input.ts'
import { ALL_CAPS, failuresOf, runCase } from './interpret-case.ts'
import { expectRefusal } from './refusal.ts'

const GPU = ALL_CAPS['subgroups of 32']!
const CPU = ALL_CAPS['vectors of 8']!
const FORMS = Object.entries(ALL_CAPS)

const x: MapExpr = { input: 0 }
const y: MapExpr = { input: 1 }

/** Expressions of one or two inputs of a type. */
function exprsOf(type: ElementType): MapExpr[] {
  if (type === 'bool') return [x, { op: 'and', args: [x, y] }]
  return [x, { op: 'square', args: [x] }, { op: 'sub', args: [x, y] }]
}

function takes(kind: ReduceKind, type: ElementType): boolean {
  if (type === 'bool') return kind !== 'sum' && kind !== 'prod' && kind !== 'mean'
  return kind !== 'mean' || registerOf(type) === 'f32'
}

/** Axes in any order, some repeated, backwards or with gaps. */
function viewOf(sizes: readonly number[]): fc.Arbitrary<View> {
  const each = { minLength: sizes.length, maxLength: sizes.length }
  return fc
    .tuple(
      fc.shuffledSubarray(
        sizes.map((_, axis) => axis),
        { minLength: sizes.length },
      ),
      fc.array(fc.constantFrom(...(['next', 'next', 'next', 'same', 'back', 'gaps'] as const)), each),
      fc.integer({ min: 0, max: 3 }),
    )
    .map(([order, ways, start]) => {
      const strides = sizes.map(() => 0)
      let [step, offset] = [1, start]
      for (const axis of order) {
        const [way, size] = [ways[axis], sizes[axis]!]
        if (way === 'same') continue
        strides[axis] = step * (way === 'gaps' ? 2 : way === 'back' ? -1 : 1)
        if (way === 'back') offset += (size - 1) * step
        step *= size * (way === 'gaps' ? 2 : 1)
      }
      return { strides, offset }
    })
}

/** Numbers whose sums and squares f32 holds exactly; of products, their signs. */
function exactValues({ kind, shape, inputs }: ReduceParams, seed: number): Arrays {
  const random = randomFrom(seed)
  const eighths = (): number => Math.round(32 * random() - 16) / 8
  const valueOf = (type: ElementType): number => {
    if (registerOf(type) !== 'f32') return Math.floor(random() * (type === 'bool' ? 2 : 2 ** 32))
    return kind === 'prod' ? (random() < 0.5 ? -1 : 1) : eighths()
  }
  const named = inputs.map(
    (input, i) => [`in${i}`, Float64Array.from({ length: extentOf(shape, input) }, () => valueOf(input.type))] as const,
  )
  return Object.fromEntries(named)
}

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

  it.each([
    ['asin', Math.asin, 1],
    ['acos', Math.acos, 1],
    ['atan', Math.atan, 30],
  ] as const)('%s is within 3e-7', (op, exact, most) => {
    const points = Float32Array.from({ length: 4001 }, (_, i) => (most * (i - 2000)) / 2000)
    const worst = valuesOf(op, points).reduce((so, y, i) => Math.max(so, Math.abs(y - exact(points[i]!))), 0)
    expect(worst).toBeLessThan(3e-7)
    if (most === 1) expect([...valuesOf(op, Float32Array.of(1.5, -2, NaN))]).toEqual([NaN, NaN, NaN])
    else expect([...valuesOf(op, Float32Array.of(Infinity, -Infinity))].map((y) => y.toFixed(5))).toEqual(['1.57080', '-1.57080'])
  })

  it.each([
    ['log1p', Math.log1p],
    ['expm1', Math.expm1],
  ] as const)('%s keeps its digits near 0', (op, exact) => {
    const sizes = Array.from({ length: 400 }, (_, i) => 10 ** (-12 + i * 0.03)) // to 0.94
    const points = Float32Array.from(sizes.flatMap((size) => [size, -size]))
    const worst = valuesOf(op, points).reduce((so, y, i) => Math.max(so, Math.abs(y / exact(points[i]!) - 1)), 0)
    expect(worst).toBeLessThan(4e-7)
    expect([...valuesOf(op, Float32Array.of(0, -1, Infinity))]).toEqual([0, -1, Infinity].map((x) => Math.fround(exact(x))))
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
      expect(Array.from(valuesOf('logSigmoid', large, caps), (y) => 0 - y)).toEqual([
        Math.fround(1e30),
        1e4,
        100,
        expect.closeTo(0, 30),
        0,
        0,
      ])
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

  it('log-softmax of masked rows', () => {
    const x = Float32Array.of(-Infinity, 1, -Infinity, 1, -Infinity, -Infinity, -Infinity, -Infinity)
    const y = runCase(softmax, { rows: 2, cols: 4, log: true }, caps, { given: { x } }).got['y']!
    expect(Array.from(y, (value) => (value === -Infinity ? value : Math.round(1e6 * value)))).toEqual([
      -Infinity,
      -693147,
      -Infinity,
      -693147,
      ...Array.from({ length: 4 }, () => -Infinity),
    ])
  })

  it('softmax keeps its precision far from 0', () => {
    const x = Float32Array.from({ length: 193 }, (_, i) => 1e4 + (i % 7))
    expect(failuresOf(softmax, { rows: 1, cols: 193 }, caps, { given: { x } })).toEqual([])
  })

  it('argmax and topk ignore NaN, and prefer low ids', () => {
    const x = new Float32Array(67).fill(-Infinity)
    x[0] = Number.NaN
    const pick = (): unknown => runCase(reduce, plainReduce('argmax', [0], [67]), caps, { given: { in0: x } }).got['y']![0]
    expect(pick()).toBe(1)
    x[40] = -0
    x[50] = 0
    expect(pick()).toBe(40)
    x[60] = x[66] = Infinity
    expect(pick()).toBe(60)
    expect(Array.from(runCase(topk, { rows: 1, cols: 67, k: 5 }, caps, { given: { x } }).got['y']!.subarray(0, 5))).toEqual([
      60, 66, 40, 50, 1,
    ])
    x.fill(Number.NaN)
    expect(pick()).toBe(0)
  })

  it('max of -Infinity alone', () => {
    const x = new Float32Array(67).fill(-Infinity)
    expect(runCase(reduce, plainReduce('max', [0], [67]), caps, { given: { in0: x } }).got['y']![0]).toBe(-Infinity)
  })

  it.each(['max', 'min'] as const)('%s of a NaN and anything', (kind) => {
    const reduced = (x: Float32Array, axes: number[], shape: number[]): number[] =>
      Array.from(runCase(reduce, plainReduce(kind, axes, shape), caps, { given: { in0: x } }).got['y']!)
    for (const at of [0, 40, 66]) {
      const x = new Float32Array(67).fill(kind === 'max' ? Infinity : -Infinity).fill(Number.NaN, at, at + 1)
      expect(reduced(x, [0], [67])).toEqual([Number.NaN])
      const column = Float32Array.from({ length: 3 * 67 }, (_, i) => (i % 3 === 1 ? x[Math.floor(i / 3)]! : i))
      expect(reduced(column, [0], [67, 3])).toEqual(kind === 'max' ? [198, Number.NaN, 200] : [0, Number.NaN, 2])
    }
  })

  it('a cache of halves rounds to even', () => {
    const x = Float32Array.of(1 + 2 ** -11, 1 + 3 * 2 ** -11, 1e-7, -65504)
    const { got } = runCase(cacheWrite, { type: 'f16', rows: 1, heads: 1, headDim: 4, context: 1, slots: 1, pages: 2 }, caps, {
      given: { x },
    })
    expect(Array.from(got['cache']!).slice(4 * PAGE, 4 * PAGE + 4)).toEqual(Array.from(x, (value) => roundHalf(value)))
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

  it('reductions of any expression and type over any axes of any view', () => {
    const kind = fc.constantFrom<ReduceKind[]>('sum', 'mean', 'max', 'min', 'prod', 'argmax', 'argmin')
    const params = fc
      .tuple(shape, fc.constantFrom(...ELEMENT_TYPES.filter((type) => type !== 'f64')), kind)
      .chain(([sizes, type, how]) =>
        fc.record({
          kind: fc.constant(how),
          axes: fc.subarray(sizes.map((_, axis) => axis)),
          shape: fc.constant(sizes),
          expr: fc.constantFrom(...exprsOf(type)),
          type: fc.constant<ElementType>(how.startsWith('arg') ? 'u32' : type),
          inputs: fc.array(
            viewOf(sizes).map((view): MapInput => ({ type, ...view })),
            { minLength: 2, maxLength: 2 },
          ),
        }),
      )
      .filter(({ kind: how, type, inputs }) => takes(how, how.startsWith('arg') ? inputs[0]!.type : type))
    fc.assert(
      fc.property(params, caps, fc.integer({ min: 1 }), (each: ReduceParams, form, seed) => {
        expect(failuresOf(reduce, each, form, { given: exactValues(each, seed) })).toEqual([])
      }),
      { numRuns: 200 },
    )
  })

  it('rows and columns of any length', () => {
    const params = fc.record({
      kind: fc.constantFrom<ReduceKind[]>('sum', 'max', 'argmax', 'argmin'),
      rows: fc.integer({ min: 1, max: 20 }),
      columns: fc.integer({ min: 1, max: 9000 }),
      alongRows: fc.boolean(),
    })
    fc.assert(
      fc.property(params, caps, fc.integer({ min: 1 }), ({ kind: how, rows, columns, alongRows }, form, seed) => {
        const each = alongRows ? plainReduce(how, [1], [rows, columns]) : plainReduce(how, [0], [columns, rows])
        expect(failuresOf(reduce, each, form, { given: exactValues(each, seed) })).toEqual([])
      }),
      { numRuns: 40 },
    )
  })

  it('scans along any axis', () => {
    const params = shape.chain((sizes) =>
      fc.record({
        kind: fc.constantFrom<('sum' | 'prod')[]>('sum', 'prod'),
        shape: fc.constant(sizes),
        axis: fc.integer({ min: 0, max: sizes.length - 1 }),
        type: fc.constantFrom(...ELEMENT_TYPES.filter((type) => type !== 'f64' && type !== 'bool')),
        exclusive: fc.boolean(),
        reversed: fc.boolean(),
      }),
    )
    const long = fc.record({
      kind: fc.constant('sum' as const),
      shape: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 9000 }), fc.integer({ min: 1, max: 3 })),
      axis: fc.constant(1),
      type: fc.constantFrom<ElementType[]>('f32', 'i32'),
      exclusive: fc.boolean(),
      reversed: fc.boolean(),
    })
    const check = (each: ScanParams, form: Caps, seed: number): void => {
      const { in0 } = exactValues({ ...plainReduce(each.kind, [], each.shape, each.type), type: each.type }, seed)
      expect(failuresOf(scan, each, form, { given: { x: in0! } })).toEqual([])
    }
    fc.assert(fc.property(params, caps, fc.integer({ min: 1 }), check), { numRuns: 100 })
    fc.assert(fc.property(long, caps, fc.integer({ min: 1 }), check), { numRuns: 30 })
  })

  it('topk of any length', () => {
    const params = fc
      .integer({ min: 1, max: 300 })
      .chain((cols) =>
        fc.record({ rows: fc.integer({ min: 1, max: 3 }), cols: fc.constant(cols), k: fc.integer({ min: 1, max: Math.min(cols, 20) }) }),
      )
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
    ['a result that is no u32', () => map.work(GPU, { ...f32({ input: 0 }), type: 'u32' })],
    ['a place of another type', () => map.work(GPU, { ...f32({ input: 0 }), inPlace: 1 })],
    ['k above the length', () => topk.work(GPU, { rows: 1, cols: 3, k: 4 })],
    ['an axis that is not there', () => reduce.work(GPU, plainReduce('sum', [2], [3, 3]))],
    ['a mean of integers', () => reduce.work(GPU, plainReduce('mean', [0], [3], 'i32'))],
    ['a sum of bools', () => reduce.work(CPU, plainReduce('sum', [0], [3], 'bool'))],
    ['a sum of floats that is an integer', () => reduce.work(CPU, { ...plainReduce('sum', [0], [3]), type: 'i32' })],
    ['an argmax that is no u32', () => reduce.work(GPU, { ...plainReduce('argmax', [0], [3]), type: 'f32' })],
    ['a reduction with strides of another rank', () => reduce.work(CPU, { ...plainReduce('sum', [0], [3]), shape: [3, 1] })],
    ['a scan of bools', () => scan.work(GPU, { kind: 'sum', shape: [3], axis: 0, type: 'bool' })],
    ['a scan along no axis', () => scan.work(CPU, { kind: 'sum', shape: [3], axis: 1, type: 'f32' })],
    ['half a block', () => gather.work(GPU, { format: 'q4_k', rows: 1, cols: 40, tableRows: 1 })],
    ['an odd head', () => cacheWrite.work(GPU, { type: 'f16', rows: 1, heads: 1, headDim: 3, context: 1, slots: 1, pages: 2 })],
    ['more turning than there is', () => rope.work(GPU, { style: 'half', rows: 1, heads: 1, headDim: 4, dims: 6, magnitude: 1 })],
    ['a copy past the end', () => map.work(GPU, { ...f32({ input: 0 }), to: { offset: 2, strides: [1], size: 4 } })],
  ])('%s', (_name, run) => expectRefusal(run))
})
