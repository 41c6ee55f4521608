// Training on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { testTraining } from './lora.ts'

testTraining({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu(), tolerance: 1e-3, mostSteps: () => 3 })
