// Overfitting on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { testOverfitting } from './overfit.ts'

testOverfitting({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu(), tolerance: 0.002 })
