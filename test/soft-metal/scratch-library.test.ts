import { expect, test, vi } from 'vitest'
import type { Dispatch } from '../../src/ir/interpret.ts'
import { type Kernel, buffersOf, packUniforms, uniformsOf } from '../../src/ir/kernel.ts'
import { emitMsl } from '../../src/emit/msl.ts'
import { kernelRecords } from '../../src/kernel/index.ts'
import { encodeBlocks } from '../kernel/block.ts'
import { gpuCaps } from '../kernel/caps.ts'
import { failuresOf } from '../kernel/interpret-case.ts'
import { describeSoftMetal, type SoftMetal } from './harness.ts'

const state: { metal?: SoftMetal } = {}
vi.mock('../../src/ir/interpret.ts', () => ({
  interpret: (kernel: Kernel, { buffers, uniforms = {}, grid }: Dispatch) => {
    const metal = state.metal!
    const { text, entry } = emitMsl(kernel, { f16: true, tiles: true, subgroup: kernel.subgroup })
    const params = buffersOf(kernel)
    const bound = params.map(({ name }) => metal.buffer(buffers[name] as Uint8Array))
    const args = uniformsOf(kernel).length > 0 ? [packUniforms(kernel, uniforms)] : []
    const [x = 1, y = 1, z = 1] = kernel.workgroup
    const done = metal.dispatch(text, entry, [...bound, ...args], [...grid] as [number, number, number], [x, y, z])
    if (done.error !== '') throw new Error(done.error + text)
    params.forEach(({ name }, i) => {
      const bytes = buffers[name] as Uint8Array
      bytes.set(new Uint8Array(metal.bytes(bound[i] as bigint)).subarray(0, bytes.length))
      metal.release(bound[i] as bigint)
    })
  },
}))
await describeSoftMetal('library', (metal) => {
  state.metal = metal
  for (const [form, caps] of [['tiles', gpuCaps(32, { tiles: true, f16: true })], ['plain', gpuCaps(32)]] as const)
  for (const record of kernelRecords())
    test(`${form} ${record.name}`, { timeout: 300_000 }, () => {
      const r = { ...record, tolerance: Math.max(record.tolerance, 1e-6) }
      const bad: string[] = []
      for (const p of record.cases) {
        try { bad.push(...failuresOf(r, p, caps, { encoder: encodeBlocks })) } catch (e) { bad.push(String(e).slice(0, 3000)) }
      }
      expect(bad).toEqual([])
    })
})
