// The rules of a device, for native kernels at every instruction set that this CPU has.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { testContract } from './contract.ts'
import { grow, scale, step, subtract } from './kernels.ts'
import { NATIVE_LEVELS, buildTestLibrary } from './native-library.ts'

for (const level of NATIVE_LEVELS) {
  const { folder, missing } = await buildTestLibrary('contract', level, [scale, step, subtract, grow])
  testContract(`cpu, ${level.title}`, () => openCpu({ threads: 2, level: level.name, libraries: folder }), { missing })
}
