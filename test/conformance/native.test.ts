// The native kernels of the cpu device, at every instruction set of this architecture that the machine has. Emulated, only at the best one:
// the others differ in how they multiply bytes, which test/device/cpu-exact.test.ts looks at.

import { NATIVE_LEVELS } from '../device/native-library.ts'
import { EMULATED } from '../emulated.ts'
import { nativeLine } from './devices.ts'
import { testConformance } from './suite.ts'

for (const level of EMULATED ? NATIVE_LEVELS.slice(0, 1) : NATIVE_LEVELS) testConformance(`cpu ${level.name}`, await nativeLine(level))
