// The hot kernels in their Metal forms (subgroups of 32, halves, matrix tiles), as MSL on soft-metal under all its checks, against
// their definitions.

import { expect, test } from 'vitest'
import { emitMsl } from '../../src/emit/msl.ts'
import { buffersOf, packUniforms, uniformsOf } from '../../src/ir/kernel.ts'
import { attention } from '../../src/kernel/attention.ts'
import { matmul } from '../../src/kernel/matmul.ts'
import { matvec } from '../../src/kernel/matvec.ts'
import type { KernelRecord, Launch } from '../../src/kernel/record.ts'
import { encodeBlocks } from '../kernel/block.ts'
import { gpuCaps } from '../kernel/caps.ts'
import { expectCase } from '../kernel/interpret-case.ts'
import { describeSoftMetal } from './harness.ts'

const caps = gpuCaps(32, { lanes: 1024, tiles: true, f16: true, parallel: 40 })
const named = (params: object): string => Object.values(params).join(' ')
/** One of a kind: forms are chosen by format and by whether n is 1, few or many. */
const each = <P extends { format: string; n: number }>(cases: readonly P[]): P[] =>
  cases.filter(({ format, n }, at) => cases.findIndex((other) => other.format === format && Math.min(other.n, 2) === Math.min(n, 2)) === at)

await describeSoftMetal('hot kernels on soft-metal', (metal) => {
  const run = ({ kernel, uniforms, grid }: Launch, buffers: Readonly<Record<string, Uint8Array>>): void => {
    const { text, entry } = emitMsl(kernel, caps)
    const bound = buffersOf(kernel).map(({ name }) => ({ bytes: buffers[name] as Uint8Array, handle: metal.buffer(buffers[name] as Uint8Array) }))
    const args = uniformsOf(kernel).length > 0 ? [packUniforms(kernel, uniforms)] : []
    const [x = 1, y = 1, z = 1] = kernel.workgroup
    const done = metal.dispatch(text, entry, [...bound.map(({ handle }) => handle), ...args], [...grid], [x, y, z])
    expect(`${done.error}${done.error === '' ? '' : text}`).toBe('')
    for (const { bytes, handle } of bound) {
      bytes.set(new Uint8Array(metal.bytes(handle)).subarray(0, bytes.length))
      metal.release(handle)
    }
  }
  const check = <P extends object>(record: KernelRecord<P>, params: P): void => expectCase(record, params, caps, { encoder: encodeBlocks, run })

  test.for(attention.cases.map((params) => [named(params), params] as const))('attention %s', ([, params]) => check(attention, params))
  test.for(each(matvec.cases).map((params) => [named(params), params] as const))('matvec %s', ([, params]) => check(matvec, params))
  test.for(matmul.cases.slice(0, 6).map((params) => [named(params), params] as const))('matmul %s', ([, params]) => check(matmul, params))
})
