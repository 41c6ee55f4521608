// The WebNN cases on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { compileQuickly } from '../device/quick-driver.ts'
import { testWebnn } from './webnn.ts'

compileQuickly()
testWebnn({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu() })
