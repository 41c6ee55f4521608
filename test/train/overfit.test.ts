// Overfitting on CPUs: with native kernels where they are built, and on WebAssembly.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { testOverfitting } from './overfit.ts'

testOverfitting({ name: 'cpu', open: () => openCpu(), tolerance: 0.05 })
testOverfitting({ name: 'WebAssembly', open: () => openCpu({ level: 'wasm' }), tolerance: 0.05 })
