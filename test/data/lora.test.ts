// Training on the devices that need no driver.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { testTraining } from './lora.ts'

/** The interpreter takes some 7 s for a step of LoRA. */
const FEW: Readonly<Record<string, number>> = { 'lora-q8_0': 2, 'full-tied': 2 }

testTraining({ name: 'cpu', open: () => openCpu(), tolerance: 1e-4 })
testTraining({
  name: 'reference',
  open: async () => openReference({ check: false }),
  tolerance: 1e-4,
  mostSteps: (run) => FEW[run] ?? 0,
})
