// Attention in every form, interpreted, against its definition.

import { describe, test } from 'vitest'
import { attention } from '../../src/kernel/attention.ts'
import { ALL_CAPS, expectCase } from './interpret-case.ts'

describe.each(Object.entries(ALL_CAPS))('%s', (_name, caps) => {
  test.each(attention.cases.map((params) => [Object.values(params).join(' '), params] as const))('%s', (_text, params) => {
    expectCase(attention, params, { ...caps, grid: 65535 }) // heads and rows never fill a grid
  })
})
