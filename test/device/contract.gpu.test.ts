// The rules of a device, for WebGPU on the driver of this project.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { testContract } from './contract.ts'
import { missingGpu } from './missing.ts'

testContract('webgpu', () => webgpu.open(), { missing: await missingGpu() })
