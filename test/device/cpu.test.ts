// The rules of a device, for the cpu device: on threads, and on this thread alone.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { testContract } from './contract.ts'

testContract('cpu on two threads', () => openCpu({ threads: 2, level: 'wasm' }))
testContract('cpu without shared memory', async () => openCpu({ features: { ...(await detectWasm()), threads: false } }))
