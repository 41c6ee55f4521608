// The rules of a device on Metal (Apple's on a Mac, the software one elsewhere), with every optimisation and without any.

import { openMetalDevice } from '../../src/device/metal/metal.ts'
import { type MetalSettings, readSettings } from '../../src/device/metal/settings.ts'
import { testContract } from './contract.ts'
import { missingMetal } from './metal-soft.ts'

const missing = await missingMetal()
const open =
  (changes: Partial<MetalSettings> = {}) =>
  () =>
    openMetalDevice({ ...readSettings(), ...changes })

testContract('metal', open(), { missing })
testContract(
  'metal without its optimisations',
  open({ concurrent: false, indirect: false, residency: false, tiles: false, mapped: false }),
  { missing },
)
testContract('metal, one command buffer per kernel', open({ profile: true }), { missing })
