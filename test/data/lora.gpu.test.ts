// Training on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { testTraining } from './lora.ts'

/** Software drivers compile the kernels of a first run for half a minute. */
const FEW: Readonly<Record<string, number>> = { 'lora-q8_0': 3, 'full-untied': 3, 'full-tied': 3 }

testTraining({
  name: 'webgpu',
  open: () => webgpu.open(),
  missing: await missingGpu(),
  tolerance: 1e-3,
  mostSteps: (run) => FEW[run] ?? 0,
})
