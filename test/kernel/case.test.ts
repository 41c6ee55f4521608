// Every case of every family, in every form, interpreted, against its definition. Attention has a file of its own.

import { describe, expect, it } from 'vitest'
import { printKernel } from '../../src/ir/print.ts'
import type { Family } from '../../src/kernel/family.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { gpuCaps } from './caps.ts'
import { ALL_CAPS, casesFor, failuresOf } from './interpret-case.ts'

const familyOf = (name: string): Family => FAMILIES.find((family) => family.name === name)!
const caps = { ...ALL_CAPS, 'matrix tiles': gpuCaps(32, { tiles: true, f16: true }) }
const families = FAMILIES.filter(({ name }) => name !== 'attention')

describe.each(Object.entries(caps))('%s', (_name, given) => {
  it.each(families.map((family) => [family.name, family] as const))('%s', (_name, family) => {
    expect(casesFor(family, given).flatMap((params) => failuresOf(family, params, given))).toEqual([])
  })
})

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

describe('CPU kernels', () => {
  const cpu = ALL_CAPS['vectors of 8']!
  const text = (name: string, params: object): string[] =>
    familyOf(name)
      .work(cpu, params)
      .launches.map(({ kernel }) => printKernel(kernel))
  const norm = familyOf('norm').cases[0]!

  it.each([
    ['softmax', { rows: 3, cols: 67 }, { rows: 1, cols: 4096 }],
    ['argmax', { rows: 1, cols: 100 }, { rows: 9, cols: 4000 }],
    ['argmax', { rows: 1, cols: 10000 }, { rows: 2, cols: 200000 }],
    ['topk', { cols: 10000, k: 3 }, { cols: 200000, k: 40 }],
    [
      'rope',
      { style: 'half', rows: 3, heads: 2, headDim: 64, dims: 64, magnitude: 1 },
      { style: 'half', rows: 1, heads: 32, headDim: 128, dims: 96, magnitude: 2 },
    ],
    ['gather', { format: 'q4_k', rows: 1, cols: 256, tableRows: 3 }, { format: 'q4_k', rows: 9, cols: 4096, tableRows: 99999 }],
    [
      'cacheWrite',
      { type: 'f16', rows: 1, heads: 8, headDim: 128, capacity: 4096 },
      { type: 'f16', rows: 5, heads: 2, headDim: 64, capacity: 7 },
    ],
    ['reduce', { kind: 'sum', axes: [1], shape: [5, 67] }, { kind: 'sum', axes: [1], shape: [900, 3] }],
    ['norm', norm, { ...norm, rows: 1, cols: 4096 }],
    [
      'copy',
      { type: 'f32', shape: [9], from: { offset: 0, strides: [1], size: 9 }, to: { offset: 0, strides: [2], size: 17 } },
      { type: 'f32', shape: [99999], from: { offset: 7, strides: [3], size: 400000 }, to: { offset: 1, strides: [1], size: 100000 } },
    ],
    [
      'map',
      { expr: { op: 'silu', args: [{ input: 0 }] }, type: 'f32', shape: [67], inputs: [{ type: 'f32', strides: [1] }] },
      { expr: { op: 'silu', args: [{ input: 0 }] }, type: 'f32', shape: [64, 4096], inputs: [{ type: 'f32', strides: [4096, 1] }] },
    ],
  ] as const)('%s does not depend on sizes', (name, small, large) => {
    expect(text(name, small)).toEqual(text(name, large))
  })
})
