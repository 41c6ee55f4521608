// The hot kernels in their Metal forms (subgroups of 32, halves, matrix tiles), as MSL on soft-metal under all its checks, against
// their definitions.

import { expect, test } from 'vitest'
import { emitMsl } from '../../src/emit/msl.ts'
import { buffersOf, packUniforms, uniformsOf } from '../../src/ir/kernel.ts'
import { attention, ofOneSequence } from '../../src/kernel/attention/attention.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import type { Launch } from '../../src/kernel/family.ts'
import { gpuCaps } from '../kernel/caps.ts'
import { failuresOf } from '../kernel/interpret-case.ts'
import { describeSoftMetal } from './harness.ts'

const caps = gpuCaps(32, { lanes: 1024, tiles: true, f16: true, parallel: 40 })
const named = (params: object): string => Object.values(params).join(' ')
const heads = { type: 'f16', rows: 1, heads: 2, kvHeads: 1, headDim: 16, context: 64, scale: 0.25, window: 0, softcap: 0 } as const
/** One of each form; every case of the records runs on the Metal device in the conformance suite. */
const attentions = [
  ofOneSequence({ ...heads, rows: 2, context: 600 }),
  ofOneSequence({ ...heads, rows: 21, window: 17 }),
  ofOneSequence({ ...heads, rows: 9, type: 'f32', softcap: 5 }),
]
const matvecs = [
  { format: 'q4_k', m: 7, k: 1024, n: 1, bias: true },
  { format: 'q6_k', m: 6, k: 512, n: 1, bias: false },
  { format: 'q5_0', m: 9, k: 96, n: 1, bias: false },
  { format: 'q8_0', m: 3, k: 64, n: 5, bias: false },
]
const matmuls = [
  { format: 'q4_k', m: 67, k: 256, n: 35, bias: false },
  { format: 'q8_0', m: 64, k: 96, n: 32, bias: false },
  { format: 'f32', m: 9, k: 67, n: 12, bias: true },
]

await describeSoftMetal('hot kernels on soft-metal', (metal) => {
  const run = ({ kernel, uniforms, grid }: Launch, buffers: Readonly<Record<string, Uint8Array>>): void => {
    const { text, entry } = emitMsl(kernel, caps)
    const bound = buffersOf(kernel).map(({ name }) => ({
      bytes: buffers[name] as Uint8Array,
      handle: metal.buffer(buffers[name] as Uint8Array),
    }))
    const args = uniformsOf(kernel).length > 0 ? [packUniforms(kernel, uniforms)] : []
    const [x = 1, y = 1, z = 1] = kernel.workgroup
    const done = metal.dispatch(text, entry, [...bound.map(({ handle }) => handle), ...args], [...grid], [x, y, z])
    expect(`${done.error}${done.error === '' ? '' : text}`).toBe('')
    for (const { bytes, handle } of bound) {
      bytes.set(new Uint8Array(metal.bytes(handle)).subarray(0, bytes.length))
      metal.release(handle)
    }
  }
  const options = { run }

  test.each(attentions.map((params) => [named(params), params] as const))('attention %s', (_text, params) => {
    expect(failuresOf(attention, params, caps, options)).toEqual([])
  })
  test.each(matvecs.map((params) => [named(params), params] as const))('matvec %s', (_text, params) => {
    expect(failuresOf(linear, params, caps, options)).toEqual([])
  })
  test.each(matmuls.map((params) => [named(params), params] as const))('matmul %s', (_text, params) => {
    expect(failuresOf(linear, params, caps, options)).toEqual([])
  })
})
