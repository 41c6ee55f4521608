// The models of the data folder on Metal, every position. Where that is software, every kernel runs under its checks.

import { missingMetal } from '../device/metal-soft.ts'
import { testModels } from './witness.ts'

const missing = await missingMetal()
const limits = process.platform === 'darwin' ? {} : { mostBytes: 40e6 }

testModels({ name: 'metal', nmse: 1e-4, ...limits, missing })
