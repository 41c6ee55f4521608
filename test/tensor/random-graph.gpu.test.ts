// Random graphs on WebGPU, on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { compileQuickly } from '../device/quick-driver.ts'
import { testRandomGraphs } from './random-graph-suite.ts'

compileQuickly()
testRandomGraphs({ name: 'webgpu', open: () => webgpu.open(), missing: await missingGpu(), runs: 24 })
