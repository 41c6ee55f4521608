// Optimisers and schedules on the devices that need no driver. Parameters are rounded to f32 (6e-8 of each) once in each of ten steps, and
// what is taken from them carries its own rounding, so errors of some 1e-7 are what the arithmetic allows; PyTorch's own f32 has up to 3e-7.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { testOptimizers, testSchedules } from './optim.ts'

testSchedules()
testOptimizers({ name: 'reference', open: async () => openReference({ check: false }), tolerance: 1e-6 })
testOptimizers({ name: 'cpu', open: () => openCpu(), tolerance: 1e-6 })
