// WebGPU on the driver of this project.

import { compileQuickly } from '../device/quick-driver.ts'
import { DEVICES } from './devices.ts'
import { testConformance } from './suite.ts'

compileQuickly()
testConformance('webgpu', DEVICES.webgpu)
