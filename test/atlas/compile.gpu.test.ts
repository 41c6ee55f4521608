// Compiled programs on WebGPU, on the driver of this project.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { describeCompiled } from './compiled.ts'
import { testIntegers } from './integers.ts'
import { expectSameResults } from './random.ts'

const missing = await missingGpu()

describe.skipIf(missing !== undefined)(`on webgpu${missing === undefined ? '' : ` (${missing})`}`, () => {
  let executor: Executor
  beforeAll(async () => {
    executor = new Executor(await webgpu.open())
  })
  afterAll(() => executor.close())
  describeCompiled(() => executor)
  testIntegers(() => executor, ['i64'])

  it('f64 is refused', async () => {
    const program = parseProgram('movimm.f64 r1, 3\nstg.f64 r1, [buf1 + 0]')
    const handle = executor.allocate(8)
    await expect(executor.execute(program, { buffers: { 1: handle } })).rejects.toMatchObject({ code: 'unsupported' })
    executor.free(handle)
  })

  it('agrees with the interpreter about random programs', async () => {
    await expectSameResults(executor, { programs: 3, f64: false })
  })
})
