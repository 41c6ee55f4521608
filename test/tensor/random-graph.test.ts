// Random graphs on the devices that need no driver, against the interpreter with all of its checks.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { testRandomGraphs } from './random-graph-suite.ts'

testRandomGraphs({ name: 'cpu', open: () => openCpu(), runs: 40 })
testRandomGraphs({ name: 'cpu as WebAssembly', open: () => openCpu({ level: 'wasm' }), runs: 40 })
