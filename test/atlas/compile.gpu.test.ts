// Compiled programs on WebGPU, on the driver of this project.
import { afterAll, beforeAll, describe } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { describeCompiled } from './compiled.ts'
import { describeDoubles } from './double.ts'
import { testIntegers } from './integers.ts'
import { testRandomPrograms } from './random.ts'

const missing = await missingGpu()

describe.skipIf(missing !== undefined)(`on webgpu${missing === undefined ? '' : ` (${missing})`}`, () => {
  let executor: Executor
  beforeAll(async () => {
    executor = new Executor(await webgpu.open())
  })
  afterAll(() => executor.close())
  describeCompiled(() => executor)
  testIntegers(() => executor, ['i64'])

  describeDoubles(() => executor)

  testRandomPrograms(() => executor, { programs: 3, f64: false })
})
