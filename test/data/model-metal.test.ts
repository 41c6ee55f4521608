// The models of the data folder on Metal. Where that is software, every kernel runs under its checks: a few tokens of each.

import { missingMetal } from '../device/metal-soft.ts'
import { testModels } from './witness.ts'

const missing = await missingMetal()
const limits = process.platform === 'darwin' ? {} : { mostBytes: 40e6, mostTokens: (bytes: number) => (bytes > 6e6 ? 2 : 16) }

testModels({ name: 'metal', nmse: 1e-4, ...limits, missing })
