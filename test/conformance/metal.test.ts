// Metal: Apple's on a Mac, the software one elsewhere.

import { metal } from '../../src/device/metal/metal.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { testConformance } from './suite.ts'

testConformance('metal', { open: () => metal.open(), missing: missingMetal })
