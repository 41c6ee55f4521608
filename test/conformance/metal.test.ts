// Metal: Apple's on a Mac, the software one elsewhere, with matrix tiles and without.

import { metal, openMetalDevice } from '../../src/device/metal/metal.ts'
import { readSettings } from '../../src/device/metal/settings.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { testConformance } from './suite.ts'

testConformance('metal', { open: () => metal.open(), missing: missingMetal })
testConformance('metal without tiles', { open: () => openMetalDevice({ ...readSettings(), tiles: false }), missing: missingMetal })
