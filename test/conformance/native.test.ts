// Native kernels at every instruction set that this CPU has: all cases compiled into one library per set. They are compiled with little
// optimisation; the libraries that models use are compiled with much of it and tested with models (test/device/native-model.test.ts).

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { cpuCaps } from '../../src/device/cpu/level.ts'
import { NATIVE_LEVELS, buildTestLibrary } from '../device/native-library.ts'
import { FORMAT_NAMES, classCases, formatCases, recordCases } from './case.ts'
import { testConformance } from './suite.ts'

const THREADS = 2
const all = [...[...recordCases().values()].flat(), ...FORMAT_NAMES.flatMap(formatCases), ...classCases()]

for (const level of NATIVE_LEVELS) {
  const caps = cpuCaps({ width: level.width, threads: THREADS, bufferBytes: 2 ** 30 })
  const kernels = all.flatMap(({ record, params }) => record.work(caps, params).launches.map(({ kernel }) => kernel))
  let built: ReturnType<typeof buildTestLibrary> | undefined
  const library = (): ReturnType<typeof buildTestLibrary> => (built ??= buildTestLibrary('conformance', level, kernels))
  testConformance(`cpu, ${level.title}`, {
    open: async () => openCpu({ threads: THREADS, level: level.name, libraries: (await library()).folder }),
    missing: async () => (await library()).missing,
  })
}
