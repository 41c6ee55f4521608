// The WGSL of the sample kernels compiles in Dawn without a warning and computes what the interpreter says, with and without
// the optional features.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { cases, dispatchOf, oracle, readable } from './sample-data.ts'
import { type Gpu, openGpu } from './webgpu-run.ts'

let gpu: Gpu | string
beforeAll(async () => {
  gpu = await openGpu()
})
afterAll(() => {
  if (typeof gpu !== 'string') gpu.close()
})

describe('WGSL on Dawn', () => {
  const names = cases(4)
    .map(({ kernel }) => kernel.name)
    .filter((name) => name !== 'vectors') // 16 lanes of everything take drivers long to compile
  it.for(names)('%s', async (name, { skip }) => {
    if (typeof gpu === 'string') return skip(gpu)
    if (gpu.caps.subgroup === 0 && ['matvec', 'tileMatmul'].includes(name)) return skip('the device has no subgroups of one size')
    const one = cases(Math.max(1, gpu.caps.subgroup)).find(({ kernel }) => kernel.name === name)
    if (one === undefined) throw new Error(`no case ${name}`)
    const plain = { subgroup: one.kernel.subgroup, f16: false, tiles: false }
    const forms = gpu.caps.f16 && name === 'convert' ? [gpu.caps, plain] : [plain]
    for (const caps of forms) {
      const source = emitWgsl(one.kernel, caps)
      const dispatch = dispatchOf(one)
      await gpu.run(one.kernel, source, dispatch)
      expect(readable(one, dispatch)).toEqual(readable(one, oracle(one)))
    }
  })
})
