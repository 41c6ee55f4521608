// The small kernels between the products, in the sizes of a 1.1B model, for one token and for 128. Their tensors are small and were just
// written, so they come from caches: above 100 % of reads is possible, and for one token the time is mostly that of a dispatch, which the
// first row shows.
// `node lab/run.js small [--device cpu,wasm,webgpu] [--threads 2] [--only rope] [--rounds 9] [--quick] [--json]`

import { cacheWrite } from '../src/kernel/attention/cache.ts'
import { PAGE } from '../src/kernel/attention/pages.ts'
import { rope } from '../src/kernel/attention/rope.ts'
import { tileColumns } from '../src/kernel/linear/activations.ts'
import { type Quantize8Source, quantize8 } from '../src/kernel/linear/quantize8.ts'
import { type MapExpr, type MapParams, map } from '../src/kernel/map/map.ts'
import { gather } from '../src/kernel/move/gather.ts'
import { norm } from '../src/kernel/reduce/norm.ts'
import { softmax } from '../src/kernel/reduce/softmax.ts'
import { SHAPES } from '../src/weights/synth/synth.ts'
import { type Entry, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

const { width, heads, kvHeads, hidden, vocabulary } = SHAPES['1b']!
const headDim = width / heads
const CAPACITY = 2048
const ROWS = [1, 128]

const gated: MapExpr = { op: 'mul', args: [{ op: 'silu', args: [{ input: 0 }] }, { input: 1 }] }
/** as decoding moves on to the next position */
const next: MapParams = {
  expr: { op: 'add', args: [{ input: 0 }, { const: 1, type: 'u32' }] },
  type: 'u32',
  shape: [1],
  inputs: [{ type: 'u32', strides: [1] }],
  inPlace: 0,
}
const rms = { kind: 'rms', eps: 1e-5, weight: true, bias: false } as const

function quantizeEntry(n: number, k: number, source: Quantize8Source): Entry {
  const facts = { kernel: `quantize8 ${source.kind}`, shape: `${n}x${k}`, quick: true }
  return entryOf(quantize8, { n, k, scaled: 256, columns: 1, source }, facts, (caps, params) => ({
    ...params,
    columns: tileColumns(caps, n),
  }))
}

export const entries = ROWS.flatMap((n): Entry[] => {
  const shape = `${n}x${width}`
  const cols = n === 1 ? vocabulary : CAPACITY
  const inputs = [0, 1].map(() => ({ type: 'f32', strides: [hidden, 1] }) as const)
  return [
    ...(n === 1 ? [entryOf(map, next, { kernel: 'position + 1', shape: '1', quick: true })] : []),
    entryOf(norm, { ...rms, rows: n, cols: width }, { kernel: 'rmsNorm', shape, quick: true }),
    entryOf(rope, { style: 'adjacent', rows: n, heads, headDim, dims: headDim, magnitude: 1 }, { shape, quick: true }),
    quantizeEntry(n, width, { kind: 'plain' }),
    quantizeEntry(n, width, { kind: 'norm', norm: rms }),
    quantizeEntry(n, hidden, { kind: 'map', expr: gated, inputs: 2 }),
    entryOf(
      map,
      { type: 'f32', shape: [n, hidden], expr: gated, inputs },
      { kernel: 'map silu*mul', shape: `${n}x${hidden}`, quick: true },
    ),
    entryOf(softmax, { rows: n, cols }, { shape: `${n}x${cols}`, quick: true }),
    entryOf(
      cacheWrite,
      { type: 'f16', rows: n, heads: kvHeads, headDim, context: CAPACITY, slots: 1, pages: CAPACITY / PAGE },
      { shape: `${n}x${kvHeads * headDim}`, quick: true },
    ),
    entryOf(gather, { format: 'q4_k', rows: n, cols: width, tableRows: vocabulary }, { kernel: 'gather q4_k', shape, quick: true }),
  ]
})

export const main = experiment(entries)
