// Blocks that ggml itself wrote: our decoding gives its values bit for bit.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { dequantize } from '../../src/kernel/linear/dequantize.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { cpuCaps } from '../kernel/caps.ts'
import { dataFolder } from './folder.ts'

const folder = join(dataFolder, 'quant')
const missing = existsSync(join(folder, 'index.json')) ? undefined : `no ${folder}`
const index =
  missing === undefined
    ? (JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as { types: Record<string, { cases: Record<string, unknown> }> })
    : { types: {} }

describe('dequantisation is exact', () => {
  test('there are blocks to decode', ({ skip }) => {
    if (missing !== undefined) skip(missing)
    expect(Object.keys(index.types).length).toBeGreaterThan(0)
  })
  for (const [type, { cases }] of Object.entries(index.types)) {
    for (const name of Object.keys(cases)) {
      const path = join(folder, `${type}.${name}`)
      if (!existsSync(`${path}.bin`)) continue
      test(`${type} ${name}`, ({ skip }) => {
        const format = FORMATS.find((known) => known.name === type.toLowerCase())
        if (format === undefined) return skip(`${type} is not a format of Ingot`)
        const bytes = new Uint8Array(readFileSync(`${path}.bin`))
        const expected = new Float32Array(new Uint8Array(readFileSync(`${path}.deq.f32`)).buffer)
        const y = new Uint8Array(expected.byteLength)
        for (const { kernel, uniforms, grid } of dequantize.work(cpuCaps(4), { format: format.name, elements: expected.length }).launches) {
          interpret(kernel, { buffers: { w: bytes, y }, uniforms, grid: [...grid] })
        }
        expect(bitsOf(y)).toEqual(bitsOf(new Uint8Array(expected.buffer)))
      })
    }
  }
})

/** Words, with every NaN alike: which NaN comes out is not part of a format. */
function bitsOf(bytes: Uint8Array): number[] {
  return Array.from(new Float32Array(bytes.slice().buffer), (value, i) =>
    Number.isNaN(value) ? -1 : (new Uint32Array(bytes.slice(4 * i, 4 * i + 4).buffer)[0] ?? 0),
  )
}
