// The plain decoders: their table is ggml's, and ours agrees with them bit for bit on random blocks of every format.

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { FORMATS } from '../../src/quant/index.ts'
import { gridOf } from '../../src/quant/iq2_xxs.ts'
import { randomFrom } from '../kernel/input.ts'
import { randomBlocks } from '../kernel/block.ts'
import { decodeValues } from './decode.ts'
import { decodePlain } from './plain.ts'

test('the grid of IQ2_XXS is the one of ggml', () => {
  expect(createHash('sha256').update(JSON.stringify(gridOf())).digest('hex')).toBe(
    'ac302e49e0373bae79ddd1aa688a177b1e360dd8cb3ac99f9d2e501aa0413471',
  )
})

test.each(FORMATS.map(({ name }) => name))('%s is decoded bit for bit', (format) => {
  const elements = 256 * 6
  const bytes = randomBlocks(format, elements, randomFrom(3))
  const bits = (values: Float32Array): string[] =>
    Array.from(new Uint32Array(values.buffer), (word, i) => `${i}: ${Number.isNaN(values[i]) ? 'NaN' : word}`)
  expect(bits(decodeValues(format, bytes, elements))).toEqual(bits(decodePlain(format, bytes, elements)))
})
