// Attention in every form, interpreted, against its definition.

import { describe, expect, test } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { attention, ofOneSequence, ofSequences } from '../../src/kernel/attention/attention.ts'
import { cpuCaps, gpuCaps } from './caps.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const forms: Readonly<Record<string, Caps>> = {
  ...ALL_CAPS,
  'subgroups of 32, halves': gpuCaps(32, { f16: true }),
  'matrix tiles': gpuCaps(32, { tiles: true, f16: true }),
  'little workgroup memory': gpuCaps(0, { sharedBytes: 16384 }),
  // one thread: queries fill lanes
  'queries as 4 lanes': cpuCaps(4, { parallel: 0.5, sharedBytes: 2 ** 20 }),
  'queries as 8 lanes': cpuCaps(8, { parallel: 0.5, sharedBytes: 2 ** 20 }),
  'queries as 16 lanes': cpuCaps(16, { parallel: 0.5, sharedBytes: 2 ** 20 }),
}
const named = (params: object): string => Object.values(params).join(' ')
const small = { type: 'f16', rows: 1, heads: 2, kvHeads: 1, headDim: 16, context: 64, scale: 0.25, window: 0, softcap: 0 } as const

describe.each(Object.entries(forms))('%s', (_name, given) => {
  const caps = { ...given, grid: 65535 } // heads and rows never fill a grid
  test.each(attention.cases.map((params) => [named(params), params] as const))('%s', (_text, params) =>
    expect(failuresOf(attention, params, caps)).toEqual([]),
  )

  test.each([
    ['the first position', { ...small, rows: 1 }, [0]],
    ['few keys in many shares', { ...small, rows: 3, context: 600 }, [0, 33, 599]],
    ['a window that starts inside', { ...small, rows: 2, context: 600, window: 40 }, [10, 599]],
    ['rows out of order', { ...small, rows: 9 }, [40, 0, 63, 7, 8, 9, 31, 32, 33]],
    ['a prompt from the start', { ...small, rows: 17, type: 'f32' }, Array.from({ length: 17 }, (_, i) => i)],
    ['windows of a prompt', { ...small, rows: 12, window: 3, headDim: 8 }, Array.from({ length: 12 }, (_, i) => 20 + 2 * i)],
  ] as const)('%s', (_text, params, positions) =>
    expect(failuresOf(attention, ofOneSequence(params), caps, { given: { positions: Uint32Array.from(positions) } })).toEqual([]),
  )

  test.each([
    ['sequences of different lengths', ofSequences(4, { ...small, rows: 4, context: 300 }), [299, 0, 130, 64], [0, 1, 2, 3]],
    [
      'a prompt beside others',
      { ...ofSequences(3, { ...small, rows: 20 }), apart: false },
      [...Array.from({ length: 18 }, (_, i) => i), 63, 5],
      [...Array<number>(18).fill(2), 0, 1],
    ],
    [
      'a prompt between others',
      { ...ofSequences(3, { ...small, rows: 20, window: 7 }), apart: false },
      [60, ...Array.from({ length: 18 }, (_, i) => i + 9), 31],
      [1, ...Array<number>(18).fill(0), 2],
    ],
    [
      'rows that do not follow each other',
      { ...ofSequences(2, { ...small, rows: 9 }), apart: false },
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
      [0, 1, 0, 0, 1, 1, 1, 0, 1],
    ],
  ] as const)('%s', (_text, params, positions, slots) =>
    expect(
      failuresOf(attention, params, caps, { given: { positions: Uint32Array.from(positions), slots: Uint32Array.from(slots) } }),
    ).toEqual([]),
  )
})

test('each form is chosen where it is meant to be', () => {
  const chosen = (caps: Caps, more: object): string =>
    attention
      .work(caps, ofOneSequence({ ...small, ...more }))
      .launches.map(({ kernel }) => kernel.name)
      .join(' + ')
  expect(chosen(gpuCaps(32), {})).toBe('attention_f16_d16')
  expect(chosen(gpuCaps(32), { context: 1024 })).toBe('attention_f16_d16_of4 + attention_merge_d16_of4')
  expect(chosen(gpuCaps(32), { rows: 64 })).toBe('attention_f16_d16_rows')
  expect(chosen(gpuCaps(32, { tiles: true, f16: true }), { rows: 64 })).toBe('attention_f16_d16_tiles')
  expect(chosen(gpuCaps(0), {})).toBe('attention_f16')
  const cpu = cpuCaps(16, { parallel: 2, sharedBytes: 2 ** 20 })
  expect(chosen(cpu, { kvHeads: 4, heads: 4, rows: 64 })).toBe('attention_f16_lanes32')
  expect(chosen(cpu, { kvHeads: 4, heads: 32 })).toBe('attention_f16_lanes8')
  expect(chosen(cpu, { kvHeads: 4, heads: 4 })).toBe('attention_f16_v16_h1')
  expect(chosen(cpu, { context: 1024 })).toBe('attention_f16_v16_h1_split + attention_merge_v16')
  expect(chosen(cpu, { kvHeads: 4, heads: 4, rows: 64, headDim: 24 })).toBe('attention_f16_v8_h1')
  expect(chosen({ ...cpu, sharedBytes: 32768 }, { kvHeads: 4, heads: 4, rows: 64 })).toBe('attention_f16_v16_h1')
  expect(chosen(gpuCaps(0), { rows: 64, headDim: 10 })).toBe('attention_f16')
  // rows that share no keys are taken one by one
  const apart = (caps: Caps, more: object): string | undefined =>
    attention.form(caps, ofSequences(64, { ...small, rows: 64, ...more }))?.name
  expect(apart(cpu, { kvHeads: 4, heads: 4 })).toBe('serial')
  expect(apart(cpu, { kvHeads: 4, heads: 32 })).toBe('queries as lanes')
  expect(apart(gpuCaps(32), {})).toBe('decode')
  expect(apart(gpuCaps(32, { tiles: true, f16: true }), {})).toBe('decode')
})
