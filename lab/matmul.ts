// Reading prompts: every weight format times several rows, in the sizes of a 1.1B model. Bound by arithmetic, the more so the more rows.
// `node lab/run.js matmul [--device cpu,wasm,webgpu] [--threads 2] [--only q4_k] [--rounds 9] [--quick] [--json]`

import { experiment } from './measure/experiment.ts'
import { linearEntries } from './measure/linear.ts'

export const entries = linearEntries(
  [
    [2048, 2048],
    [5632, 2048],
    [2048, 5632],
  ],
  [16, 128],
  (m, k) => m === 2048 && k === 2048,
)

export const main = experiment(entries)
