// Packed products as WebAssembly, in every variant of the engine's features: each has its own way to multiply bytes.

import { describe, expect, test } from 'vitest'
import { packedLinear } from '../../src/kernel/linear/packed-linear.ts'
import { PACKED_FORMATS } from '../../src/kernel/linear/repack.ts'
import { VARIANTS, runWasm } from '../emit/wasm-run.ts'
import { cpuCaps } from './caps.ts'
import { type Runner, casesFor, failuresOf } from './interpret-case.ts'

const caps = { ...cpuCaps(4), parallel: 1, streams: 4 } // several streams, and matrices that end among them

describe.each(PACKED_FORMATS)('%s', (format) => {
  test.each(VARIANTS)('%s', (_name, features) => {
    const run: Runner = ({ kernel, uniforms, grid }, buffers) => runWasm(kernel, { buffers, uniforms, grid: [...grid] }, features)
    const cases = casesFor(packedLinear, caps).filter((params) => params.format === format)
    expect(cases.length).toBeGreaterThan(3)
    expect(cases.flatMap((params) => failuresOf(packedLinear, params, caps, { run }))).toEqual([])
  })
})
