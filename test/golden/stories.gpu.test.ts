// The story on WebGPU, on the driver of this project.

import { missingGpu } from '../device/missing.ts'
import { testGolden } from './story.ts'

testGolden({ name: 'webgpu', nmse: 1e-8, missing: await missingGpu() })
