// Encoding against ggml's own blocks: the plain formats byte for byte, the searched ones at least as near to their input.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FORMATS } from '../../src/quant/index.ts'
import { decodeValues, rmse } from '../quant/decode.ts'
import { dataFolder } from './folder.ts'

interface Index {
  readonly types: Readonly<Record<string, { readonly cases: Readonly<Record<string, { readonly rmse: number }>> }>>
}

const folder = join(dataFolder, 'quant')
const missing = existsSync(join(folder, 'index.json')) ? undefined : `no ${folder}`
const index: Index = missing === undefined ? (JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as Index) : { types: {} }
const EXACT = ['f32', 'f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'mxfp4']

describe('encoding matches ggml', () => {
  test.skipIf(missing !== undefined)(`data present (${missing ?? folder})`, () =>
    expect(Object.keys(index.types).length).toBeGreaterThan(0),
  )
  for (const [type, { cases }] of Object.entries(index.types)) {
    for (const [name, { rmse: known }] of Object.entries(cases)) {
      const input = join(folder, `input.${name}.f32`)
      const format = FORMATS.find((each) => each.name === type.toLowerCase())
      // A format that Ingot only reads, or an input that is not shipped, has nothing to compare.
      if (!existsSync(input) || format?.encode === undefined) continue
      test(`${type} ${name}`, () => {
        const values = floats(input)
        const bytes = format.encode!(values)
        const theirs = join(folder, `${type}.${name}.bin`)
        if (EXACT.includes(format.name) && existsSync(theirs)) expect(Buffer.from(bytes).equals(readFileSync(theirs))).toBe(true)
        expect(rmse(decodeValues(format.name, bytes, values.length), values)).toBeLessThanOrEqual(known * (1 + 1e-5))
      })
    }
  }
})

function floats(path: string): Float32Array {
  return new Float32Array(new Uint8Array(readFileSync(path)).buffer)
}
