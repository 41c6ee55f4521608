// Random kernels give the same on WebGPU as interpreted: bit by bit for integers, within each output's tolerance for floats.
// INGOT_RANDOM_KERNELS says how many; INGOT_RANDOM_SEED where to begin. Drivers compile several kernels at once, so they come in
// batches. With INGOT_RANDOM_ALL, all differences are collected instead of stopping at the first batch that has one.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { type RandomOptions, compareOutputs, randomKernel } from '../ir/random.ts'
import { type Gpu, openGpu } from './webgpu-run.ts'

const COUNT = Number(process.env.INGOT_RANDOM_KERNELS ?? 60)
const FIRST = Number(process.env.INGOT_RANDOM_SEED ?? 0)
const ALL = process.env.INGOT_RANDOM_ALL !== undefined
const BATCH = 20

let gpu: Gpu | string
beforeAll(async () => {
  gpu = await openGpu()
})
afterAll(() => {
  if (typeof gpu !== 'string') gpu.close()
})

it(`${COUNT} random kernels agree with the interpreter`, { timeout: 60_000 + COUNT * 4000 }, async ({ skip }) => {
  if (typeof gpu === 'string') return skip(gpu)
  const { caps } = gpu
  // Drivers need long for large kernels: many small ones tell more.
  const kinds: readonly RandomOptions[] = [
    { size: 6 },
    { subgroup: caps.subgroup, size: 6 },
    { f16: false, narrow: false, size: 8 },
    { workgroupMax: 1, size: 8 },
  ]
  const faults: string[] = []
  for (let start = FIRST; start < FIRST + COUNT; start += BATCH) {
    const seeds = Array.from({ length: Math.min(BATCH, FIRST + COUNT - start) }, (_, index) => start + index)
    const found = await Promise.all(seeds.map((seed) => faultOf(gpu as Gpu, seed, kinds[seed % kinds.length])))
    faults.push(...found.filter((fault) => fault !== undefined))
    if (!ALL) expect(faults).toEqual([])
  }
  expect(faults).toEqual([])
})

/** What is wrong with a kernel, and its text; nothing if all is well. Every other one runs without f16. */
async function faultOf({ caps, build, runBuilt }: Gpu, seed: number, options: RandomOptions | undefined): Promise<string | undefined> {
  let text = ''
  try {
    const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, options)
    const source = emitWgsl(kernel, seed % 2 === 0 ? { ...caps, f16: false } : caps)
    ;({ text } = source)
    const building = build(kernel, source)
    const [wanted, got] = [buffers(), buffers()]
    interpret(kernel, { buffers: wanted, uniforms, grid }, { check: false })
    await runBuilt(await building, { buffers: got, uniforms, grid })
    compareOutputs(wanted, got, outputs)
    return undefined
  } catch (error) {
    return `seed ${seed}: ${String(error)}\n${text}`
  }
}
