// The native kernels of the cpu device, at every instruction set of this architecture that the machine has.

import { NATIVE_LEVELS } from '../device/native-library.ts'
import { nativeLine } from './devices.ts'
import { testConformance } from './suite.ts'

for (const level of NATIVE_LEVELS) testConformance(`cpu ${level.name}`, await nativeLine(level))
