// Sliding windows with random sizes: every form against its meaning, and the meanings against each other. Unfold and fold are transposes,
// which gradients rely on.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ElementType, ELEMENT_TYPES } from '../../src/base/element.ts'
import { type ConvolveParams, type ConvolveType, convolve } from '../../src/kernel/window/convolve.ts'
import { fold } from '../../src/kernel/window/fold.ts'
import { type PoolKind, type PoolParams, type PoolType, pool } from '../../src/kernel/window/pool.ts'
import { unfold } from '../../src/kernel/window/unfold.ts'
import { type Windows, product, windowCounts } from '../../src/kernel/window/windows.ts'
import { ALL_CAPS, runCase } from './interpret-case.ts'
import { testRandom } from './random-case.ts'
import { expectRefusal } from './refusal.ts'

const size = (max: number, min = 1) => fc.integer({ min, max })
const types = ELEMENT_TYPES.filter((type) => type !== 'f64')
const GPU = ALL_CAPS['subgroups of 32']!
const CPU = ALL_CAPS['vectors of 8']!

/** Windows over so many axes, all of which have some. */
function windowsOver(axes: fc.Arbitrary<number>): fc.Arbitrary<Windows> {
  const axis = fc.record({
    in: size(24),
    kernel: size(4),
    stride: size(3),
    dilation: size(3),
    padding: fc.tuple(size(3, 0), size(3, 0)),
  })
  return axes
    .chain((count) => fc.tuple(fc.array(axis, { minLength: count, maxLength: count }), fc.boolean()))
    .map(([list, ceil]) => {
      const windows = {
        // only the last axis is long
        in: list.map((each, i) => (i < list.length - 1 ? Math.ceil(each.in / 4) : each.in)),
        kernel: list.map((each) => each.kernel),
        strides: list.map((each) => each.stride),
        dilations: list.map((each) => each.dilation),
        padding: list.map((each) => each.padding),
      }
      return { ...windows, out: windowCounts(windows, ceil) }
    })
    .filter(({ out }) => out.every((count) => count > 0))
}

/** Whole numbers, which floats add exactly. */
const stream = fc.infiniteStream(fc.integer({ min: -9, max: 9 }))
const draw = (from: fc.Stream<number>, length: number): Float32Array => Float32Array.from({ length }, () => from.next().value as number)
const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0)

describe('random windows', () => {
  const params = fc.tuple(windowsOver(size(3)), size(3))
  const typed = (all: readonly ElementType[]) =>
    fc.tuple(params, fc.constantFrom(...all)).map(([[windows, n], type]) => ({ ...windows, n, type }))
  const padded = fc.tuple(typed(types), fc.constantFrom(0, 1, -Infinity)).map(([each, value]) => ({ ...each, value }))
  testRandom('unfold', unfold, padded, 80)
  testRandom('fold', fold, typed(types.filter((type) => type !== 'bool')), 80)

  const convolution = fc.record({
    type: fc.constantFrom<ConvolveType[]>('f32', 'f16', 'bf16'),
    n: size(2),
    groups: size(3),
    channels: size(3), // of a group
    outputs: size(9),
    bias: fc.boolean(),
  })
  const convolutions = fc
    .tuple(convolution, windowsOver(size(2)))
    .map(([{ groups, channels, outputs, ...rest }, windows]): ConvolveParams => ({
      ...rest,
      groups,
      channels: groups * channels,
      outputs: groups * outputs,
      ...windows,
    }))
  testRandom('convolve', convolve, convolutions, 120)

  const pools = fc
    .record({
      windows: windowsOver(size(2)),
      kind: fc.constantFrom<PoolKind[]>('max', 'average', 'l2', 'argmax'),
      type: fc.constantFrom<PoolType[]>('f32', 'f16', 'bf16', 'i32', 'u32', 'i8', 'u8'),
      n: size(3),
      includePad: fc.boolean(),
    })
    .filter(({ kind, type }) => kind === 'max' || kind === 'argmax' || ['f32', 'f16', 'bf16'].includes(type))
    .map(({ windows, ...rest }): PoolParams => ({ ...rest, ...windows }))
  testRandom('pool', pool, pools, 120)

  it('a convolution is a product of unfolded windows', () => {
    fc.assert(
      fc.property(convolutions, stream, (each, numbers) => {
        const { n, channels, outputs, groups, in: sizes, kernel, out } = each
        const [taps, counts, inputs, outs] = [product(kernel), product(out), channels / groups, outputs / groups]
        const x = draw(numbers, n * channels * product(sizes))
        const w = draw(numbers, outputs * inputs * taps)
        const bias = draw(numbers, outputs)
        const columns = unfold.define({ x }, { ...each, type: 'f32', n: n * channels, value: 0 })['y']!
        const y = convolve.define({ x, w, ...(each.bias && { bias }) }, each)['y']!
        const wanted: number[] = []
        for (let image = 0; image < n; image++) {
          for (let o = 0; o < outputs; o++) {
            const group = Math.floor(o / outs)
            for (let window = 0; window < counts; window++) {
              const column = Array.from(
                { length: inputs * taps },
                (_, i) => columns[((image * channels + group * inputs) * taps + i) * counts + window]!,
              )
              wanted.push((each.bias ? bias[o]! : 0) + dot(column, w.subarray(o * inputs * taps)))
            }
          }
        }
        expect(Array.from(y)).toEqual(wanted)
      }),
      { numRuns: 60 },
    )
  })

  it('unfold and fold are transposes', () => {
    fc.assert(
      fc.property(params, stream, ([windows, n], numbers) => {
        const all = { ...windows, n, type: 'f32' } as const
        const x = draw(numbers, n * product(windows.in))
        const y = draw(numbers, n * product(windows.kernel) * product(windows.out))
        expect(dot(unfold.define({ x }, { ...all, value: 0 })['y']!, y)).toBe(dot(x, fold.define({ x: y }, all)['y']!))
      }),
      { numRuns: 60 },
    )
  })
})

describe('windows', () => {
  it('are counted as everybody counts them', () => {
    const axis = (size: number, kernel: number, stride: number, dilation: number, before: number, after: number) => ({
      in: [size],
      kernel: [kernel],
      strides: [stride],
      dilations: [dilation],
      padding: [[before, after] as const],
    })
    expect(windowCounts(axis(224, 7, 2, 1, 3, 3))).toEqual([112])
    expect(windowCounts(axis(10, 3, 2, 1, 0, 0))).toEqual([4])
    expect(windowCounts(axis(10, 3, 2, 1, 0, 0), true)).toEqual([5])
    expect(windowCounts(axis(5, 2, 3, 1, 1, 1), true)).toEqual([2]) // a third would begin in the padding
    expect(windowCounts(axis(9, 3, 1, 4, 0, 0))).toEqual([1])
    expect(windowCounts(axis(2, 3, 1, 1, 0, 0))).toEqual([0])
  })

  it('lie where they are expected', () => {
    const windows = {
      in: [3, 3],
      kernel: [2, 2],
      strides: [1, 2],
      dilations: [1, 1],
      padding: [
        [0, 0],
        [1, 0],
      ] as const,
      out: [2, 2],
    }
    const x = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9)
    const taps = [
      [0, 2, 0, 5], // the first tap of each window
      [1, 3, 4, 6],
      [0, 5, 0, 8],
      [4, 6, 7, 9],
    ]
    expect(Array.from(unfold.define({ x }, { type: 'f32', n: 1, value: 0, ...windows })['y']!)).toEqual(taps.flat())
  })

  it('of padding alone have a value too', () => {
    const far: Windows = { in: [2], kernel: [2], strides: [3], dilations: [1], padding: [[3, 0]], out: [2] }
    const given = { x: Float32Array.of(5, 7) }
    for (const caps of [GPU, CPU]) {
      const of = (kind: PoolKind): number[] =>
        Array.from(runCase(pool, { kind, type: 'f32', n: 1, includePad: false, ...far }, caps, { given }).got['y']!)
      expect({ max: of('max'), average: of('average'), l2: of('l2'), argmax: of('argmax') }).toEqual({
        max: [-Infinity, 7],
        average: [0, 6],
        l2: [0, Math.fround(Math.sqrt(74))],
        argmax: [0, 1],
      })
    }
  })

  it('are averaged with their padding or without', () => {
    const windows: Windows = { in: [4], kernel: [3], strides: [2], dilations: [1], padding: [[1, 1]], out: [3] } // the last sticks out
    const given = { x: Float32Array.of(6, 12, 18, 24) }
    const mean = (includePad: boolean): number[] =>
      Array.from(runCase(pool, { kind: 'average', type: 'f32', n: 1, includePad, ...windows }, CPU, { given }).got['y']!)
    expect([mean(true), mean(false)]).toEqual([
      [6, 18, 12], // of three, three, and the two that lie in the padding or before it
      [9, 18, 24],
    ])
  })

  it('ignore NaN where they look for the largest', () => {
    const windows: Windows = { in: [5], kernel: [3], strides: [1], dilations: [1], padding: [[0, 0]], out: [3] }
    const given = { x: Float32Array.of(NaN, NaN, -Infinity, NaN, NaN) }
    for (const caps of [GPU, CPU]) {
      const params = { kind: 'argmax', type: 'f32', n: 1, includePad: false, ...windows } as const
      expect(Array.from(runCase(pool, params, caps, { given }).got['y']!)).toEqual([2, 2, 2])
    }
  })

  const windows: Windows = { in: [4], kernel: [2], strides: [1], dilations: [1], padding: [[0, 0]], out: [3] }
  const plain = { type: 'f32', n: 1, channels: 2, outputs: 2, groups: 1, bias: false } as const
  it.each([
    ['of four axes', () => unfold.work(GPU, { ...windows, in: [1, 1, 1, 4], type: 'f32', n: 1, value: 0 })],
    ['with lists of different lengths', () => fold.work(GPU, { ...windows, strides: [1, 1], type: 'f32', n: 1 })],
    ['that go nowhere', () => fold.work(GPU, { ...windows, strides: [0], type: 'f32', n: 1 })],
    ['of nothing', () => unfold.work(GPU, { ...windows, type: 'f32', n: 0, value: 0 })],
    ['of channels that do not fall into groups', () => convolve.work(GPU, { ...plain, ...windows, channels: 3, groups: 2 })],
    ['of three axes', () => convolve.work(GPU, { ...plain, ...windows, in: [4, 4, 4] })],
    ['of which integers are averaged', () => pool.work(GPU, { ...windows, kind: 'average', type: 'i32', n: 1, includePad: false })],
    ['of truth values', () => fold.work(GPU, { ...windows, type: 'bool', n: 1 })],
  ])('%s are refused', (_name, run) => expectRefusal(run))
})
