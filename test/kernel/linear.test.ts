// Mat-vec and mat-mat in every form and format, interpreted, against their definition.

import { describe, expect, test } from 'vitest'
import { matmul } from '../../src/kernel/matmul.ts'
import { matvec } from '../../src/kernel/matvec.ts'
import { encodeBlocks } from './block.ts'
import { gpuCaps } from './caps.ts'
import { ALL_CAPS, failuresOf } from './interpret-case.ts'

const forms = { ...ALL_CAPS, 'matrix tiles': gpuCaps(32, { tiles: true, f16: true }) }
const named = (params: object): string => Object.values(params).join(' ')

describe.each(Object.entries(forms))('%s', (_name, caps) => {
  test.each(matvec.cases.map((params) => [named(params), params] as const))('matvec %s', (_text, params) => {
    expect(failuresOf(matvec, params, caps, { encoder: encodeBlocks })).toEqual([])
  })
  // Tiles are staged in f16: a matter of the form, not of the sums.
  const record = caps.tiles ? { ...matmul, tolerance: 1e-6 } : matmul
  test.each(matmul.cases.map((params) => [named(params), params] as const))('matmul %s', (_text, params) => {
    expect(failuresOf(record, params, caps, { encoder: encodeBlocks })).toEqual([])
  })
})
