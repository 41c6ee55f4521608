// Random kernels give the same on Dawn as interpreted. INGOT_RANDOM_KERNELS says how many; INGOT_RANDOM_SEED where to begin.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { interpret } from '../../src/ir/interpret.ts'
import { compareOutputs, randomKernel } from '../ir/random.ts'
import { type Gpu, openGpu } from './webgpu-run.ts'

const COUNT = Number(process.env.INGOT_RANDOM_KERNELS ?? 8)
const FIRST = Number(process.env.INGOT_RANDOM_SEED ?? 0)

let gpu: Gpu | string
beforeAll(async () => { gpu = await openGpu() })
afterAll(() => { if (typeof gpu !== 'string') gpu.close() })

it(`${COUNT} random kernels agree with the interpreter`, { timeout: 60_000 + COUNT * 4000 }, async ({ skip }) => {
  if (typeof gpu === 'string') return skip(gpu)
  const { caps } = gpu
  const kinds = [{ size: 6 }, { subgroup: caps.subgroup, size: 6 }, { f16: false, narrow: false, size: 8 }, { workgroupMax: 1, size: 8 }]
  for (let seed = FIRST; seed < FIRST + COUNT; seed++) {
    const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, kinds[seed % kinds.length])
    const [wanted, got] = [buffers(), buffers()]
    interpret(kernel, { buffers: wanted, uniforms, grid }, { check: false })
    const source = emitWgsl(kernel, seed % 2 === 0 ? { ...caps, f16: false } : caps)
    await gpu.run(kernel, source, { buffers: got, uniforms, grid }).catch((error: unknown) => { throw new Error(`seed ${seed}: ${String(error)}`) })
    expect(difference(seed, source.text, () => compareOutputs(wanted, got, outputs))).toBe('')
  }
})

/** What is wrong with which kernel, or nothing. */
function difference(seed: number, kernel: string, compare: () => void): string {
  try {
    compare()
    return ''
  } catch (error) {
    return `seed ${seed}: ${String(error)}\n${kernel}`
  }
}
