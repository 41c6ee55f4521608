// The MSL that Ingot emits runs on soft-metal under all its checks and computes what the interpreter says: the sample kernels
// of the emitter's tests, and random ones (INGOT_RANDOM_KERNELS says how many, INGOT_RANDOM_SEED where to begin).

import { expect, test } from 'vitest'
import type { Source } from '../../src/emit/source.ts'
import { emitMsl } from '../../src/emit/msl.ts'
import { type KernelArguments, interpret } from '../../src/ir/interpret/interpret.ts'
import { type Kernel, buffersOf, packUniforms, uniformsOf } from '../../src/ir/kernel.ts'
import { cases, dispatchOf, oracle, readable } from '../emit/sample-data.ts'
import { compareOutputs, randomKernel } from '../ir/random.ts'
import { describeSoftMetal } from './harness.ts'

const COUNT = Number(process.env.INGOT_RANDOM_KERNELS ?? 6)
const FIRST = Number(process.env.INGOT_RANDOM_SEED ?? 0)

await describeSoftMetal('emitted MSL on soft-metal', (metal) => {
  /** One dispatch; buffers are read back in place. */
  const run = (kernel: Kernel, { text, entry }: Source, { buffers, uniforms = {}, grid }: KernelArguments) => {
    const params = buffersOf(kernel)
    const bound = params.map(({ name }) => metal.buffer(buffers[name] as Uint8Array))
    const args = uniformsOf(kernel).length > 0 ? [packUniforms(kernel, uniforms)] : []
    const [x = 1, y = 1, z = 1] = kernel.workgroup
    const done = metal.dispatch(text, entry, [...bound, ...args], [...grid], [x, y, z])
    expect(`${done.error}${done.error === '' ? '' : text}`).toBe('')
    params.forEach(({ name }, i) => {
      const bytes = buffers[name] as Uint8Array
      bytes.set(new Uint8Array(metal.bytes(bound[i] as bigint)).subarray(0, bytes.length))
      metal.release(bound[i] as bigint)
    })
  }

  test.for(cases(32))('$kernel.name', (one) => {
    const dispatch = dispatchOf(one)
    run(one.kernel, emitMsl(one.kernel), dispatch)
    expect(readable(one, dispatch)).toEqual(readable(one, oracle(one)))
  })

  test(`${COUNT} random kernels agree with the interpreter`, { timeout: 60_000 + COUNT * 4000 }, () => {
    const kinds = [{ size: 6 }, { subgroup: 32, size: 6 }, { f16: false, narrow: false, size: 8 }, { workgroupMax: 1, size: 8 }]
    for (let seed = FIRST; seed < FIRST + COUNT; seed++) {
      const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, kinds[seed % kinds.length])
      const [wanted, got] = [buffers(), buffers()]
      interpret(kernel, { buffers: wanted, uniforms, grid }, { check: false })
      run(kernel, emitMsl(kernel), { buffers: got, uniforms, grid })
      expect(() => compareOutputs(wanted, got, outputs)).not.toThrow()
    }
  })
})
