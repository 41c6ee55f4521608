// Compiled programs on Metal: the real one on a Mac, in software elsewhere.
import { afterAll, beforeAll, describe } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { metal } from '../../src/device/metal/metal.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { describeCompiled } from './compiled.ts'
import { describeDoubles } from './double.ts'
import { testRandomPrograms } from './random.ts'

const missing = await missingMetal()

describe.skipIf(missing !== undefined)(`on metal${missing === undefined ? '' : ` (${missing})`}`, () => {
  let executor: Executor
  beforeAll(async () => {
    executor = new Executor(await metal.open())
  })
  afterAll(() => executor.close())
  describeCompiled(() => executor)
  describeDoubles(() => executor)

  testRandomPrograms(() => executor, { programs: 4, f64: false })
})
