// Decoding: every weight format times one row, in the sizes of a 1.1B and a 160M model. Bound by memory.
// `node lab/run.js matvec [--device cpu,wasm,webgpu] [--threads 2] [--only q4_k,2048x2048] [--rounds 9] [--quick] [--json]`

import { experiment } from './measure/experiment.ts'
import { linearEntries, weightSizes } from './measure/linear.ts'

const sizes = [...weightSizes('1b'), ...weightSizes('160m')]
export const entries = linearEntries(sizes, [1], (m, k) => m === 2048 || (m === 768 && k === 768))

export const main = experiment(entries)
