// ONNX Runtime as native code, on the CPU.

import ort from 'onnxruntime-node'
import { versionOf } from './input.js'
import { preparer } from './onnxruntime.js'

export async function open(/** @type {number | undefined} */ threads) {
  const own = threads === undefined ? {} : { intraOpNumThreads: threads }
  const options = { executionProviders: ['cpu'], interOpNumThreads: 1, graphOptimizationLevel: 'all', ...own }
  const count = threads === undefined ? 'its own number of threads' : `${threads} thread${threads === 1 ? '' : 's'}`
  return {
    info: { version: versionOf('onnxruntime-node'), device: 'cpu', detail: `native, ${count}` },
    prepare: preparer(ort, { options, into: true }),
  }
}
