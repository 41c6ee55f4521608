// The packed layouts: repacked, multiplied with int8 activations, compared with the plain meaning within what int8 allows.

import { describe, expect, test } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { interpret } from '../../src/ir/interpret.ts'
import { type Kernel, buffersOf } from '../../src/ir/kernel.ts'
import { defineLinear } from '../../src/kernel/linear-params.ts'
import { packedLinear } from '../../src/kernel/packed-linear.ts'
import { quantize8, quantizedWords } from '../../src/kernel/quantize8.ts'
import type { Work } from '../../src/kernel/record.ts'
import { packedBytes, repack } from '../../src/kernel/repack.ts'
import { FORMATS, formatOf } from '../../src/quant/index.ts'
import { VARIANTS, runWasm } from '../emit/wasm-run.ts'
import { decodeBlocks, randomBlocks } from './block.ts'
import { cpuCaps } from './caps.ts'
import { errorOf, failuresOf, randomFrom } from './interpret-case.ts'

const formats = FORMATS.filter(({ packed }) => packed !== undefined).map(({ name }) => name)

type Buffers = Record<string, Uint8Array>
type Execute = (
  kernel: Kernel,
  run: { buffers: Buffers; uniforms: Readonly<Record<string, number>>; grid: [number, number, number] },
) => void

function run({ launches }: Work, buffers: Buffers, execute: Execute = interpret): void {
  for (const { kernel, uniforms, grid } of launches) {
    execute(kernel, {
      buffers: Object.fromEntries(buffersOf(kernel).map(({ name }) => [name, buffers[name]!])),
      uniforms: uniforms ?? {},
      grid: [...grid],
    })
  }
}

/** The largest error of a product of packed weights, against the plain meaning. */
function errorOfProduct(
  format: (typeof formats)[number],
  caps: Caps,
  { n, m }: { readonly n: number; readonly m: number },
  execute?: Execute,
): number {
  const k = 512
  const random = randomFrom(5)
  const w = randomBlocks(format, m * k, random)
  const x = Float32Array.from({ length: n * k }, () => 2 * random() - 1)
  const packed = new Uint8Array(packedBytes({ format, m, k }))
  run(repack({ format, m, k }), { w, y: packed }, execute)
  const { scaled } = formatOf(format).packed!
  const quantised = new Uint8Array(4 * quantizedWords(n, k, scaled))
  run(quantize8.work(caps, { n, k, scaled }), { x: new Uint8Array(x.buffer), y: quantised }, execute)
  const y = new Uint8Array(4 * n * m)
  const seen = { x: quantised, floats: quantised, w: packed, bytes: packed, halves: packed, y }
  run(packedLinear(caps, { format, m, k, n, bias: false }), seen, execute)
  return errorOf(new Float32Array(y.buffer), defineLinear({ x, w: decodeBlocks(format, w, m * k) }, { m, k, n })['y']!)
}

test.each(quantize8.cases)('quantize8 %o', (params) => expect(failuresOf(quantize8, params, cpuCaps(4))).toEqual([]))

describe.each(formats)('%s', (format) => {
  test.each([
    [16, 1, 35],
    [8, 3, 16],
    [4, 2, 17],
    [4, 1, 33],
    [16, 9, 16],
  ] as const)('width %i, %i columns, %i rows', (width, n, m) => {
    expect(errorOfProduct(format, cpuCaps(width), { n, m })).toBeLessThan(2e-4)
  })

  // several streams, and the matrix ends among them
  test.each([
    [1, 200],
    [3, 40],
  ] as const)('as WebAssembly: %i columns, %i rows', (n, m) => {
    const caps = { ...cpuCaps(4), parallel: 1, streams: 4 }
    const variants = VARIANTS.filter(([name]) => name.startsWith('sums') || name === 'no relaxed SIMD')
    for (const [name, features] of variants)
      expect([name, errorOfProduct(format, caps, { n, m }, (kernel, what) => runWasm(kernel, what, features)) < 2e-4]).toEqual([name, true])
  })
})
