// The small kernels between the products, in the sizes of a 1.1B model, for one token and for 128. Their tensors are small and were just
// written, so they come from caches: above 100 % of reads is possible, and for one token the time is mostly that of a dispatch, which the
// first row shows. Operations count what the result needs for each element, with exp, division or root as one.
// `node lab/run.js small [--device cpu,wasm,webgpu] [--threads 2] [--only rope] [--rounds 9] [--quick] [--json]`

import { advance, cacheWrite } from '../src/kernel/cache.ts'
import { gather } from '../src/kernel/gather.ts'
import { type MapExpr, map } from '../src/kernel/map.ts'
import { norm } from '../src/kernel/norm.ts'
import { type Quantize8Source, quantize8 } from '../src/kernel/quantize8.ts'
import { rope } from '../src/kernel/rope.ts'
import { softmax } from '../src/kernel/softmax.ts'
import { SHAPES } from '../src/weights/synth.ts'
import { type Entry, bytesOf, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

const { width, heads, kvHeads, hidden, vocabulary } = SHAPES['1b']!
const headDim = width / heads
const CAPACITY = 2048
const ROWS = [1, 128]
/** Of each element: square, sum, scale, weight. */
const NORM = 4
/** exp, sum and quotient of silu, and the product */
const GATED = 5
/** Of each element: maximum, scale, rounding, sum. */
const QUANTIZE = 5

const gated: MapExpr = { op: 'mul', args: [{ op: 'silu', args: [{ input: 0 }] }, { input: 1 }] }
const rms = { kind: 'rms', eps: 1e-5, weight: true, bias: false } as const

function quantizeEntry(n: number, k: number, kind: Quantize8Source['kind'], source: Quantize8Source, operations: number): Entry {
  const params = { n, k, source }
  const made = entryOf(quantize8, params, {
    kernel: `quantize8 ${kind}`,
    shape: `${n}x${k}`,
    operations: (operations + QUANTIZE) * n * k,
    quick: true,
  })
  return { ...made, work: (caps) => (caps.dot ? made.work(caps) : undefined) }
}

export const entries = ROWS.flatMap((n): Entry[] => {
  const shape = `${n}x${width}`
  const rowBytes = bytesOf({ name: 'table', role: 'in', type: 'q4_k', elements: n * width })
  return [
    ...(n === 1 ? [entryOf(advance, { count: 1, by: 1 }, { kernel: 'advance', shape: '1', operations: 1, quick: true })] : []),
    entryOf(norm, { ...rms, rows: n, cols: width }, { kernel: 'rmsNorm', shape, operations: NORM * n * width, quick: true }),
    entryOf(
      rope,
      { style: 'adjacent', rows: n, heads, headDim, dims: headDim, magnitude: 1 },
      { shape, operations: 3 * n * width, quick: true },
    ),
    quantizeEntry(n, width, 'plain', { kind: 'plain' }, 0),
    quantizeEntry(n, width, 'norm', { kind: 'norm', norm: rms }, NORM),
    quantizeEntry(n, hidden, 'map', { kind: 'map', expr: gated, inputs: 2 }, GATED),
    entryOf(
      map,
      { type: 'f32', shape: [n, hidden], expr: gated, inputs: [0, 1].map(() => ({ type: 'f32', strides: [hidden, 1] }) as const) },
      {
        kernel: 'map silu*mul',
        shape: `${n}x${hidden}`,
        operations: GATED * n * hidden,
        quick: true,
      },
    ),
    entryOf(
      softmax,
      { rows: n, cols: n === 1 ? vocabulary : CAPACITY },
      {
        shape: `${n}x${n === 1 ? vocabulary : CAPACITY}`,
        operations: 5 * n * (n === 1 ? vocabulary : CAPACITY),
        quick: true,
      },
    ),
    entryOf(
      cacheWrite,
      { type: 'f16', rows: n, heads: kvHeads, headDim, capacity: CAPACITY },
      {
        shape: `${n}x${kvHeads * headDim}`,
        operations: 0,
        bytes: (4 + 2) * n * kvHeads * headDim,
        quick: true,
      },
    ),
    entryOf(
      gather,
      { format: 'q4_k', rows: n, cols: width, tableRows: vocabulary },
      {
        kernel: 'gather q4_k',
        shape,
        operations: 2 * n * width,
        bytes: rowBytes + 4 * n * width,
        cold: ['table'],
        quick: true,
      },
    ),
  ]
})

export const main = experiment(entries)
