// The packed layouts: repacked, multiplied with int8 activations, compared with the plain meaning within what int8 allows.

import { describe, expect, test } from 'vitest'
import { interpret } from '../../src/ir/interpret.ts'
import { buffersOf } from '../../src/ir/kernel.ts'
import { defineLinear } from '../../src/kernel/linear-params.ts'
import { packedLinear } from '../../src/kernel/packed-linear.ts'
import { quantize8, quantizedWords } from '../../src/kernel/quantize8.ts'
import type { Work } from '../../src/kernel/record.ts'
import { packedBytes, repack } from '../../src/kernel/repack.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { decodeBlocks, randomBlocks } from './block.ts'
import { cpuCaps } from './caps.ts'
import { errorOf, failuresOf, randomFrom } from './interpret-case.ts'

const formats = FORMATS.filter(({ packed }) => packed !== undefined).map(({ name }) => name)

function run({ launches }: Work, buffers: Record<string, Uint8Array>): void {
  for (const { kernel, uniforms, grid } of launches) {
    interpret(kernel, { buffers: Object.fromEntries(buffersOf(kernel).map(({ name }) => [name, buffers[name]!])), uniforms, grid: [...grid] })
  }
}

test.each(quantize8.cases)('quantize8 %o', (params) => expect(failuresOf(quantize8, params, cpuCaps(4))).toEqual([]))

describe.each(formats)('%s', (format) => {
  test.each([[16, 1, 35], [8, 3, 16], [4, 2, 17], [16, 9, 16]] as const)('width %i, %i columns, %i rows', (width, n, m) => {
    const k = 512
    const random = randomFrom(5)
    const w = randomBlocks(format, m * k, random)
    const x = Float32Array.from({ length: n * k }, () => 2 * random() - 1)
    const packed = new Uint8Array(packedBytes({ format, m, k }))
    run(repack({ format, m, k }), { w, y: packed })
    const quantised = new Uint8Array(4 * quantizedWords(n, k))
    run(quantize8.work(cpuCaps(width), { n, k }), { x: new Uint8Array(x.buffer), y: quantised })
    const y = new Uint8Array(4 * n * m)
    run(packedLinear(cpuCaps(width), { format, m, k, n, bias: false }), {
      x: quantised, floats: quantised, w: packed, bytes: packed, signed: packed, halves: packed, y,
    })
    const values = { x, w: decodeBlocks(format, w, m * k) }
    expect(errorOf(new Float32Array(y.buffer), defineLinear(values, { m, k, n })['y']!)).toBeLessThan(2e-4)
  })
})
