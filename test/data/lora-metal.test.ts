// Training on Metal. Where that is software, every kernel runs under its checks.

import { metal } from '../../src/device/metal/metal.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { testTraining } from './lora.ts'

testTraining({
  name: 'metal',
  open: () => metal.open(),
  missing: await missingMetal(),
  tolerance: 1e-3,
  mostSteps: (run) => (process.platform === 'darwin' ? Infinity : run === 'lora-masked' ? 0 : 2), // software takes 2 s for a step
})
