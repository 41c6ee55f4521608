// Taking and scattering with random shapes, types and indices: every form against its meaning, and the meaning against loops written in the
// order of the axes. Gradients rely on the two being opposites.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ELEMENT_TYPES, type ElementType } from '../../src/base/element.ts'
import { INDEX_TYPES, type IndexType, resolveIndex } from '../../src/kernel/move/index-type.ts'
import { type ScatterKind, type ScatterParams, scatter } from '../../src/kernel/move/scatter.ts'
import { take } from '../../src/kernel/move/take.ts'
import { takeAlong } from '../../src/kernel/move/take-along.ts'
import { wordsOf, wordsOfValue } from '../../src/kernel/move/word.ts'
import { ALL_CAPS, runCase } from './interpret-case.ts'
import { testRandom } from './random-case.ts'
import { expectRefusal } from './refusal.ts'

const types = ELEMENT_TYPES.filter((type) => type !== 'f64')
const indexType = fc.constantFrom(...INDEX_TYPES)
const size = (max: number) => fc.integer({ min: 1, max })
const shape = { indexType, outer: size(4), axis: size(6), inner: size(40), count: size(9) }

const CPU = ALL_CAPS['vectors of 8']!
const GPU = ALL_CAPS['subgroups of 32']!

describe('random shapes', () => {
  testRandom('slices are taken', take, fc.record({ type: fc.constantFrom(...types), ...shape }), 80)
  testRandom('elements are taken', takeAlong, fc.record({ type: fc.constantFrom(...types), ...shape, inner: size(5) }), 80)

  const kind = fc.constantFrom<ScatterKind[]>('set', 'add', 'mul', 'max', 'min')
  const ids = fc.constantFrom<ScatterParams['ids'][]>('rows', 'along')
  const type = fc.constantFrom<ElementType[]>(...types.filter((each) => each !== 'bool'))
  testRandom('elements are scattered', scatter, fc.record({ kind, ids, type, ...shape }), 120)
})

describe('meanings', () => {
  const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => i + 1)
  const [outer, axis, inner, count] = [2, 3, 2, 4]
  const ids = Int32Array.of(-1, 0, 7, -9) // the last, the first, past the end, before the start
  const found = [2, 0, 2, 0]
  const sizes = { type: 'f32', indexType: 'i32', outer, axis, inner, count } as const
  const x = numbers(outer * axis * inner)
  const src = numbers(outer * count * inner)
  const alongIds = Int32Array.from({ length: src.length }, (_, at) => (at % 5) - 2)
  const alongFound = Array.from(alongIds, (id) => (id < 0 ? id + axis : Math.min(id, axis - 1)))

  /** Visits [outer, count, inner] in order; `at` counts the visits. */
  const visit = (each: (o: number, j: number, i: number, at: number) => void): void => {
    let at = 0
    for (let o = 0; o < outer; o++) for (let j = 0; j < count; j++) for (let i = 0; i < inner; i++) each(o, j, i, at++)
  }
  const place = (o: number, a: number, i: number): number => (o * axis + a) * inner + i

  it.each([
    ['rows', CPU],
    ['lanes', GPU],
  ] as const)('%s', (_name, form) => {
    const wanted: number[] = []
    visit((o, j, i) => wanted.push(x[place(o, found[j]!, i)]!))
    expect(Array.from(runCase(take, sizes, form, { given: { x, ids } }).got['y']!)).toEqual(wanted)
    const along: number[] = []
    visit((o, _j, i, at) => along.push(x[place(o, alongFound[at]!, i)]!))
    expect(Array.from(runCase(takeAlong, sizes, form, { given: { x, ids: alongIds } }).got['y']!)).toEqual(along)
    for (const kind of ['set', 'add'] as const) {
      const y = Array.from(x)
      const put = (to: number, value: number): void => void (y[to] = kind === 'set' ? value : y[to]! + value)
      visit((o, j, i, at) => put(place(o, found[j]!, i), src[at]!))
      const given = { src, ids, y: x }
      expect(Array.from(runCase(scatter, { ...sizes, kind, ids: 'rows' }, form, { given }).got['y']!)).toEqual(y)
      const own = Array.from(x)
      const putOwn = (to: number, value: number): void => void (own[to] = kind === 'set' ? value : own[to]! + value)
      visit((o, _j, i, at) => putOwn(place(o, alongFound[at]!, i), src[at]!))
      const givenOwn = { src, ids: alongIds, y: x }
      expect(Array.from(runCase(scatter, { ...sizes, kind, ids: 'along' }, form, { given: givenOwn }).got['y']!)).toEqual(own)
    }
  })

  it('an index of 64 bits is its low word', () => {
    const resolve = (type: IndexType, id: number): number => resolveIndex(type, id, 10)
    expect([resolve('i64', -1), resolve('i64', 2 ** 32 + 3), resolve('i64', -(2 ** 32) + 3), resolve('u32', 4294967295)]).toEqual([
      9, 3, 3, 9,
    ])
  })

  it('adding is the opposite of taking', () => {
    // <take(x), s> = <x, scatter(s)>, in whole numbers, which floats hold exactly
    const params = fc.record({ ...shape, inner: size(9) })
    const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0)
    fc.assert(
      fc.property(params, fc.boolean(), fc.infiniteStream(fc.integer({ min: -9, max: 9 })), (sizes, along, stream) => {
        const draw = (length: number): Float32Array => Float32Array.from({ length }, () => stream.next().value as number)
        const all = { type: 'f32', ...sizes } as const
        const [given, weights] = [draw(sizes.outer * sizes.axis * sizes.inner), draw(sizes.outer * sizes.count * sizes.inner)]
        const chosen = draw(along ? weights.length : sizes.count)
        const taken = (along ? takeAlong : take).define({ x: given, ids: chosen }, all)['y']!
        const put = scatter.define(
          { src: weights, ids: chosen, y: new Float32Array(given.length) },
          { ...all, kind: 'add', ids: along ? 'along' : 'rows' },
        )['y']!
        expect(dot(taken, weights)).toBe(dot(given, put))
      }),
      { numRuns: 60 },
    )
  })
})

describe('words', () => {
  it('are as large as they can be', () => {
    expect([wordsOf('u8', 3), wordsOf('u8', 8), wordsOf('f16', 3), wordsOf('bf16', 2), wordsOf('i64'), wordsOf('f64', 3)]).toEqual([
      { word: 'u8', words: 3 },
      { word: 'u32', words: 2 },
      { word: 'u16', words: 3 },
      { word: 'u32', words: 1 },
      { word: 'u32', words: 2 },
      { word: 'u32', words: 6 },
    ])
  })

  it('keep every bit', () => {
    // a signalling NaN, a subnormal, -0
    const bits = Uint32Array.of(0x7f800001, 1, 0x80000000)
    const x = new Uint8Array(bits.buffer) // as bytes
    const params = { type: 'u8', indexType: 'u32', outer: 1, axis: 3, inner: 4, count: 3 } as const
    for (const form of [CPU, GPU]) {
      expect(Array.from(runCase(take, params, form, { given: { x, ids: Uint32Array.of(0, 1, 2) } }).got['y']!)).toEqual(Array.from(x))
    }
  })

  it('of a value', () => {
    expect(wordsOfValue('f32', -Infinity)).toEqual([0xff800000])
    expect(wordsOfValue('bf16', 1)).toEqual([0x3f80])
    expect(wordsOfValue('i8', -2)).toEqual([254])
    expect(wordsOfValue('i64', -2)).toEqual([0xfffffffe, 0xffffffff])
  })
})

describe('bad parameters', () => {
  const sizes = { type: 'f32', indexType: 'u32', outer: 1, axis: 3, inner: 1, count: 2 } as const
  it.each([
    ['no elements', () => take.work(GPU, { ...sizes, axis: 0 })],
    ['half an index', () => takeAlong.work(CPU, { ...sizes, count: 0.5 })],
    ['truth values that are added', () => scatter.work(CPU, { ...sizes, type: 'bool', kind: 'add', ids: 'rows' })],
  ])('%s', (_name, run) => expectRefusal(run))
})
