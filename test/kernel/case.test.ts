// Every case of every family, in every form, interpreted, against its definition. Attention has a file of its own.

import { describe, expect, it } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import { printKernel } from '../../src/ir/print.ts'
import type { Family } from '../../src/kernel/family.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { plainReduce } from '../../src/kernel/reduce/reduce.ts'
import { gpuCaps } from './caps.ts'
import { ALL_CAPS, casesFor, failuresOf } from './interpret-case.ts'

const familyOf = (name: string): Family => FAMILIES.find((family) => family.name === name)!
const caps = { ...ALL_CAPS, 'matrix tiles': gpuCaps(32, { tiles: true, f16: true }) }
const families = FAMILIES.filter(({ name }) => name !== 'attention')

/** What was interpreted: nearly half of all cases are the same dispatches on other hardware as well, and would give the same bytes. */
const seen = new Set<string>()

describe.each(Object.entries(caps))('%s', (_name, given) => {
  it.each(families.map((family) => [family.name, family] as const))('%s', (_name, family) => {
    const cases = casesFor(family, given).filter((params) => {
      const text = describeCase(family, params, given)
      return !seen.has(text) && seen.add(text)
    })
    expect(cases.flatMap((params) => failuresOf(family, params, given))).toEqual([])
  })
})

/** All that a case does and is held against, as text. */
function describeCase(family: Family, params: object, given: Caps): string {
  const { launches, scratch } = family.work(given, params)
  const dispatches = launches.map(({ kernel, binds, uniforms, grid }) => [hashKernel(kernel), binds, uniforms, grid])
  const fits = launches.every(({ grid }) => grid.every((size) => size <= given.grid))
  return JSON.stringify([family.name, params, family.allowed(given, params), dispatches, scratch, fits])
}

describe('the registry', () => {
  it('describes every family', () => {
    expect(new Set(FAMILIES.map(({ name }) => name)).size).toBe(FAMILIES.length)
    for (const { about, cases, forms } of FAMILIES) {
      expect(about.length).toBeGreaterThan(10)
      expect(cases.length).toBeGreaterThan(0)
      expect(new Set(forms.map(({ name }) => name)).size).toBe(forms.length)
    }
  })

  it('has a case for every form, on hardware that it is written for', () => {
    const tried = new Set<string>()
    for (const family of FAMILIES) {
      for (const each of Object.values(caps)) {
        for (const params of family.cases) tried.add(`${family.name} ${family.form(each, params)?.name}`)
      }
    }
    const all = FAMILIES.flatMap(({ name, forms }) => forms.map((form) => `${name} ${form.name}`))
    expect(all.filter((form) => !tried.has(form))).toEqual([])
  })
})

const WINDOWS = { in: [9], kernel: [3], strides: [1], dilations: [1], padding: [[1, 1]], out: [9] } as const

describe('CPU kernels', () => {
  const cpu = ALL_CAPS['vectors of 8']!
  const text = (name: string, params: object): string[] =>
    familyOf(name)
      .work(cpu, params)
      .launches.map(({ kernel }) => printKernel(kernel))
  const norm = familyOf('norm').cases[0]!

  it.each([
    ['softmax', { rows: 3, cols: 67 }, { rows: 1, cols: 4096 }],
    ['topk', { rows: 1, cols: 10000, k: 3 }, { rows: 1, cols: 200000, k: 40 }],
    [
      'rope',
      { style: 'half', rows: 3, heads: 2, headDim: 64, dims: 64, magnitude: 1 },
      { style: 'half', rows: 1, heads: 32, headDim: 128, dims: 96, magnitude: 2 },
    ],
    ['gather', { format: 'q4_k', rows: 1, cols: 256, tableRows: 3 }, { format: 'q4_k', rows: 9, cols: 4096, tableRows: 99999 }],
    [
      'cacheWrite',
      { type: 'f16', rows: 1, heads: 8, headDim: 128, context: 4096, slots: 1, pages: 65 },
      { type: 'f16', rows: 5, heads: 2, headDim: 64, context: 7, slots: 2, pages: 3 },
    ],
    ['reduce', plainReduce('sum', [1], [5, 67]), plainReduce('mean', [0, 2], [90, 7, 30])],
    ['reduce', plainReduce('max', [0], [5, 67]), plainReduce('max', [1], [9, 30, 8])],
    ['reduce', plainReduce('argmax', [1], [1, 100]), plainReduce('argmax', [1], [9, 4000])],
    ['reduce', plainReduce('argmax', [0], [40000]), plainReduce('argmax', [1], [2, 200000])],
    ['norm', norm, { ...norm, rows: 1, cols: 4096 }],
    [
      'map',
      { expr: { input: 0 }, type: 'f32', shape: [9], inputs: [{ type: 'f32', offset: 1, strides: [5] }], to: { strides: [2], size: 17 } },
      {
        expr: { input: 0 },
        type: 'f32',
        shape: [9999],
        inputs: [{ type: 'f32', offset: 7, strides: [3] }],
        to: { strides: [9], size: 2 ** 20 },
      },
    ],
    [
      'map',
      {
        expr: { op: 'add', args: [{ input: 0 }, { const: 1, type: 'f32' }] },
        type: 'f32',
        shape: [67],
        inputs: [{ type: 'f32', strides: [1] }],
      },
      {
        expr: { op: 'add', args: [{ input: 0 }, { const: 7, type: 'f32' }] },
        type: 'f32',
        shape: [9],
        inputs: [{ type: 'f32', strides: [1] }],
      },
    ],
    [
      'map',
      { expr: { op: 'silu', args: [{ input: 0 }] }, type: 'f32', shape: [67], inputs: [{ type: 'f32', strides: [1] }] },
      { expr: { op: 'silu', args: [{ input: 0 }] }, type: 'f32', shape: [64, 4096], inputs: [{ type: 'f32', strides: [4096, 1] }] },
    ],
    [
      'take',
      { type: 'f32', indexType: 'u32', outer: 1, axis: 3, inner: 5, count: 2 },
      { type: 'u8', indexType: 'i64', outer: 9, axis: 99, inner: 4000, count: 7 },
    ],
    [
      'scatter',
      { kind: 'add', ids: 'rows', type: 'f32', indexType: 'u32', outer: 1, axis: 3, inner: 5, count: 2 },
      { kind: 'add', ids: 'rows', type: 'f32', indexType: 'i32', outer: 1, axis: 32000, inner: 64, count: 512 },
    ],
    [
      'convolve',
      { type: 'f32', n: 1, channels: 2, outputs: 2, groups: 1, bias: false, ...WINDOWS },
      { type: 'f32', n: 8, channels: 64, outputs: 96, groups: 2, bias: false, ...WINDOWS, in: [99], strides: [3], out: [33] },
    ],
    [
      'pool',
      { kind: 'average', type: 'f32', n: 1, includePad: false, ...WINDOWS },
      { kind: 'average', type: 'f32', n: 99, includePad: true, ...WINDOWS, in: [9999], dilations: [2], out: [9990] },
    ],
    ['argsort', { type: 'f32', rows: 1, cols: 100, descending: false }, { type: 'f32', rows: 9, cols: 99999, descending: true }],
    ['random', { kind: 'normal', count: 1 }, { kind: 'normal', count: 99999 }],
  ] as const)('%s does not depend on sizes', (name, small, large) => {
    expect(text(name, small)).toEqual(text(name, large))
  })
})
