// Attention over caches of halves: one token at two contexts, which reads memory, and 128 at once, which computes. Heads as a 1.1B model
// has them, eight to a key head, and as a 160M model has them, each with its own.
// `node lab/run.js attention [--device cpu,wasm,webgpu] [--threads 2] [--only decode] [--rounds 9] [--quick] [--json]`

import { attention, ofOneSequence } from '../src/kernel/attention/attention.ts'
import { SHAPES } from '../src/weights/synth/synth.ts'
import { type Entry, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

const CASES = [
  ['decode', 1, 512],
  ['decode', 1, 1500],
  ['prefill', 128, 512],
] as const

export const entries = Object.values(SHAPES).flatMap(({ width, heads, kvHeads }) =>
  CASES.map(([name, rows, context]): Entry => {
    const headDim = width / heads
    const scale = headDim ** -0.5
    const params = ofOneSequence({ type: 'f16', rows, heads, kvHeads, headDim, context, scale, window: 0, softcap: 0 })
    const shape = `${rows} at ${context}, heads ${heads}/${kvHeads}x${headDim}`
    // a prompt finds its keys where it has just put them
    return entryOf(attention, params, { kernel: name, shape, quick: true, ...(rows === 1 ? {} : { cold: false }) })
  }),
)

export const main = experiment(entries)
