// Gradients on the devices that need no driver.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { testGradients } from './gradient.ts'

testGradients({ name: 'reference', open: async () => openReference({ check: false }), tolerance: 1e-5 })
testGradients({ name: 'cpu', open: () => openCpu(), tolerance: 1e-5 })
