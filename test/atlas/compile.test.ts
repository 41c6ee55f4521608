// Compiled programs on the devices that are everywhere, held against the interpreter.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { interpretProgram } from '../../src/atlas/interpret.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { INTEGER_TYPES } from '../../src/atlas/type.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { describeCompiled } from './compiled.ts'
import { testIntegers } from './integers.ts'
import { testRandomPrograms } from './random.ts'

/** With c-random.test.ts, 200 are tried on CPUs; INGOT_RANDOM_PROGRAMS says another number. */
const DEVICES = {
  reference: { programs: 20, open: async () => openReference() },
  cpu: { programs: 150, open: () => openCpu({ level: 'wasm', threads: 2 }) },
}

describe.each(Object.entries(DEVICES))('on %s', (_name, { programs, open }) => {
  let executor: Executor
  beforeAll(async () => {
    executor = new Executor(await open())
  })
  afterAll(() => executor.close())
  describeCompiled(() => executor)
  testIntegers(() => executor, INTEGER_TYPES)

  testRandomPrograms(() => executor, { programs, f64: true })

  it('resaccum adds up by class', async () => {
    const text = 'clsget r1\ncvt.f64.u8 r2, r1\nresaccum r1, r2\nmovimm.f64 r3, 0.5\nresaccum r1, r3'
    const launch = { grid: [98], block: [2] } as const
    const { accumulators } = await executor.execute(parseProgram(text), launch)
    expect(accumulators).toEqual(interpretProgram(parseProgram(text), { buffers: new Map() }, launch).accumulators)
    expect(accumulators.slice(0, 3)).toEqual(Float64Array.of(2, 6, 5))
  })

  it('f64 is native', async () => {
    const program = parseProgram('movimm.f64 r1, 3\nsqrt.f64 r2, r1\nexp.f64 r3, r2\nstg.f64 r3, [buf1 + 8]')
    const handle = executor.allocate(16)
    await executor.execute(program, { buffers: { 1: handle } })
    const bytes = await executor.copyFrom(handle)
    executor.free(handle)
    expect(new DataView(bytes.buffer, bytes.byteOffset).getFloat64(8, true)).toBeCloseTo(Math.exp(Math.sqrt(3)), 12)
  })
})
