// WebGPU on the driver of this project.

import { DEVICES } from './devices.ts'
import { testConformance } from './suite.ts'

testConformance('webgpu', DEVICES.webgpu)
