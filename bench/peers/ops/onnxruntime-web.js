// ONNX Runtime as WebAssembly, with SIMD and threads.

import { availableParallelism } from 'node:os'
import * as ort from 'onnxruntime-web'
import { versionOf } from './input.js'
import { preparer } from './onnxruntime.js'

export async function open(/** @type {number | undefined} */ threads) {
  const count = threads ?? availableParallelism()
  ort.env.wasm.numThreads = count
  const options = { executionProviders: ['wasm'], graphOptimizationLevel: 'all' }
  return {
    info: {
      version: versionOf('onnxruntime-web'),
      device: 'wasm',
      detail: `WebAssembly SIMD, ${count} thread${count === 1 ? '' : 's'}`,
    },
    prepare: preparer(ort, { options, into: false }),
  }
}
