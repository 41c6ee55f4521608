// The WebNN cases on WebGPU, on the driver of this project.

import '../device/quick-driver.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { testWebnn } from './webnn.ts'

testWebnn({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu() })
