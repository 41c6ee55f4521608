// The devices that need nothing but Node. The interpreter has a file of its own, since it is slow.

import { DEVICES } from './devices.ts'
import { testConformance } from './suite.ts'

for (const name of ['null', 'null with 8x8 tiles', 'cpu', 'cpu on one thread', 'cpu without relaxed SIMD'] as const)
  testConformance(name, DEVICES[name])
