// Native kernels at every instruction set that this CPU has, from the libraries that set-up builds: all kernels that models run are in
// them. The few forms that no model uses run as WebAssembly between them, as they would for a user.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { findNative } from '../../src/device/cpu/native.ts'
import { NATIVE_LEVELS } from '../device/native-library.ts'
import { testConformance } from './suite.ts'

for (const { name, title } of NATIVE_LEVELS) {
  testConformance(`cpu, ${title}`, {
    open: () => openCpu({ threads: 2, level: name }),
    missing: async () => (await findNative({ level: name })).reason,
  })
}
