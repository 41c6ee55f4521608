// Every case of the elementwise, row-wise and moving kernels, in every form, against its definition. The kernels of linear
// layers and attention have their own files.

import { describe, expect, it } from 'vitest'
import { KERNELS, kernelRecords } from '../../src/kernel/index.ts'
import { printKernel } from '../../src/ir/print.ts'
import { encodeBlocks } from './block.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const ELSEWHERE = ['matvec', 'matmul', 'attention']
const RECORDS = kernelRecords().filter(({ name }) => !ELSEWHERE.includes(name))

describe.each(Object.entries(ALL_CAPS))('%s', (_name, caps) => {
  it.each(RECORDS.map((record) => [record.name, record] as const))('%s', (_name, record) => {
    expect(record.cases.flatMap((params) => failuresOf(record, params, caps, { encoder: encodeBlocks }))).toEqual([])
  })
})

describe('the registry', () => {
  it('lists every record under its own name', () => {
    for (const [name, record] of Object.entries(KERNELS)) expect(record.name).toBe(name)
    for (const { about, cases } of kernelRecords()) {
      expect(about.length).toBeGreaterThan(10)
      expect(cases.length).toBeGreaterThan(0)
    }
  })
})

describe('CPU kernels', () => {
  const cpu = ALL_CAPS['vectors of 8']!
  const text = (name: keyof typeof KERNELS, params: object): string[] =>
    (KERNELS[name].work as (caps: typeof cpu, params: object) => ReturnType<typeof KERNELS.norm.work>)(cpu, params).launches.map(
      ({ kernel }) => printKernel(kernel),
    )

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
    ['norm', KERNELS.norm.cases[0]!, { ...KERNELS.norm.cases[0]!, rows: 1, cols: 4096 }],
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
