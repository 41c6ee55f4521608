// Gradients on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { compileQuickly } from '../device/quick-driver.ts'
import { testGradients } from './gradient.ts'

compileQuickly()
testGradients({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu(), tolerance: 1e-4 })
