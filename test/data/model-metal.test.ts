// The models of the data folder on Metal, in software: every kernel under its checks, so a few tokens of each.

import { findSoft } from '../device/metal-soft.ts'
import { testModels } from './witness.ts'

const { soft, missing } = await findSoft()
if (soft?.settings.software !== undefined) process.env.INGOT_SOFT_METAL = soft.settings.software

testModels({ name: 'metal', nmse: 1e-4, mostBytes: 40e6, mostTokens: (bytes) => (bytes > 6e6 ? 2 : 8), missing })
