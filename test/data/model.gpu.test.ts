// The models of the data folder on WebGPU, on the driver of this project.

import { missingGpu } from '../device/missing.ts'
import { testModels } from './witness.ts'

testModels({ name: 'webgpu', nmse: 1e-4, mostBytes: 200e6, missing: await missingGpu() })
