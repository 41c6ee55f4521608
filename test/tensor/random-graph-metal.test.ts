// Random graphs on Metal. Where that is software, every kernel runs under its checks.

import { metal } from '../../src/device/metal/metal.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { testRandomGraphs } from './random-graph-suite.ts'

testRandomGraphs({ name: 'metal', open: () => metal.open(), missing: await missingMetal(), runs: 6 })
