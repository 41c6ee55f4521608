// The rules of a device, for the devices that are always there.

import { openNull } from '../../src/device/null/null.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { testContract } from './contract.ts'

testContract('reference', async () => openReference())
testContract('null', async () => openNull(), { runs: false })
