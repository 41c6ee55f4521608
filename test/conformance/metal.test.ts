// Metal: the real one on a Mac, in software elsewhere.

import { DEVICES } from './devices.ts'
import { testConformance } from './suite.ts'

testConformance('metal', DEVICES.metal)
