// Overfitting on Metal. Where that is software, every kernel runs under its checks.

import { metal } from '../../src/device/metal/metal.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { testOverfitting } from './overfit.ts'

testOverfitting({ name: 'metal', open: () => metal.open(), missing: await missingMetal(), tolerance: 0.002 })
