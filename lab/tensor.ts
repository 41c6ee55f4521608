// The kernels of tensors that are neither products nor elementwise: moving by indices, sliding windows, sorting, random numbers.
// `node lab/run.js tensor [--device cpu,wasm,webgpu] [--threads 2] [--only convolve] [--rounds 9] [--quick] [--json]`

import { scatter } from '../src/kernel/move/scatter.ts'
import { takeAlong } from '../src/kernel/move/take-along.ts'
import { take } from '../src/kernel/move/take.ts'
import { random } from '../src/kernel/random/random.ts'
import { argsort } from '../src/kernel/select/argsort.ts'
import { type ConvolveParams, convolve } from '../src/kernel/window/convolve.ts'
import { fold } from '../src/kernel/window/fold.ts'
import { pool } from '../src/kernel/window/pool.ts'
import { unfold } from '../src/kernel/window/unfold.ts'
import { type Windows, windowCounts } from '../src/kernel/window/windows.ts'
import { type Entry, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

/** Square windows of a square image, which keep its size but for the stride. */
function square(size: number, kernel: number, stride = 1): Windows {
  const around = (kernel - 1) >> 1
  const windows = {
    in: [size, size],
    kernel: [kernel, kernel],
    strides: [stride, stride],
    dilations: [1, 1],
    padding: [
      [around, around],
      [around, around],
    ] as const,
  }
  return { ...windows, out: windowCounts(windows) }
}

const plain = { type: 'f32', n: 1, groups: 1, bias: false } as const
const convolution = (shape: string, quick: boolean, params: ConvolveParams): Entry => entryOf(convolve, params, { shape, quick })

export const entries: readonly Entry[] = [
  convolution('3x3 64->64 56', true, { ...plain, channels: 64, outputs: 64, ...square(56, 3) }),
  convolution('1x1 64->64 56', true, { ...plain, channels: 64, outputs: 64, ...square(56, 1) }),
  convolution('3x3 depthwise 64 56', true, { ...plain, channels: 64, outputs: 64, groups: 64, ...square(56, 3) }),
  convolution('3x3 128->128 28', false, { ...plain, channels: 128, outputs: 128, ...square(28, 3) }),
  convolution('3x3 256->256 14', false, { ...plain, channels: 256, outputs: 256, ...square(14, 3) }),
  convolution('3x3 512->512 7', false, { ...plain, channels: 512, outputs: 512, ...square(7, 3) }),
  convolution('1x1 256->64 56', false, { ...plain, channels: 256, outputs: 64, ...square(56, 1) }),
  convolution('1x1 2048->512 7', false, { ...plain, channels: 2048, outputs: 512, ...square(7, 1) }),
  convolution('3x3/2 64->128 56', false, { ...plain, channels: 64, outputs: 128, ...square(56, 3, 2) }),
  convolution('7x7/2 3->64 224', false, { ...plain, channels: 3, outputs: 64, ...square(224, 7, 2) }),
  convolution('3x3 64->64 56 f16', false, { ...plain, type: 'f16', channels: 64, outputs: 64, ...square(56, 3) }),
  entryOf(unfold, { type: 'f32', n: 64, value: 0, ...square(56, 3) }, { shape: '3x3 64x56x56', quick: true }),
  entryOf(unfold, { type: 'f32', n: 64, value: 0, ...square(56, 3, 2) }, { shape: '3x3/2 64x56x56' }),
  entryOf(fold, { type: 'f32', n: 64, ...square(56, 3) }, { shape: '3x3 64x56x56', quick: true }),
  entryOf(fold, { type: 'f32', n: 64, ...square(56, 3, 2) }, { shape: '3x3/2 64x56x56' }),
  entryOf(
    take,
    { type: 'f32', indexType: 'i32', outer: 1, axis: 32000, inner: 64, count: 4096 },
    { shape: '4096 rows of 64', quick: true },
  ),
  entryOf(
    pool,
    { kind: 'max', type: 'f32', n: 64, includePad: false, ...square(112, 3, 2) },
    { shape: 'max 3x3/2 64x112x112', quick: true },
  ),
  entryOf(pool, { kind: 'max', type: 'f32', n: 64, includePad: false, ...square(56, 3) }, { shape: 'max 3x3 64x56x56' }),
  entryOf(pool, { kind: 'average', type: 'f32', n: 64, includePad: false, ...square(56, 3) }, { shape: 'average 3x3 64x56x56' }),
  entryOf(pool, { kind: 'argmax', type: 'f32', n: 64, includePad: false, ...square(112, 3, 2) }, { shape: 'argmax 3x3/2 64x112x112' }),
  entryOf(argsort, { type: 'f32', rows: 1, cols: 1 << 20, descending: false }, { shape: '1M', quick: true }),
  entryOf(argsort, { type: 'f32', rows: 256, cols: 4096, descending: false }, { shape: '256x4096' }),
  entryOf(argsort, { type: 'f32', rows: 16384, cols: 64, descending: false }, { shape: '16384x64' }),
  entryOf(argsort, { type: 'f16', rows: 256, cols: 4096, descending: false }, { shape: '256x4096 f16' }),
  ...(['bits', 'uniform', 'normal'] as const).map((kind) =>
    entryOf(random, { kind, count: 1 << 20 }, { shape: `1M ${kind}`, quick: true }),
  ),
  entryOf(take, { type: 'f32', indexType: 'i32', outer: 1, axis: 65536, inner: 1, count: 1 << 20 }, { shape: '1M of 64K' }),
  entryOf(takeAlong, { type: 'f32', indexType: 'u32', outer: 64, axis: 4096, inner: 1, count: 4096 }, { shape: '64x4096', quick: true }),
  entryOf(
    scatter,
    { kind: 'add', ids: 'rows', type: 'f32', indexType: 'u32', outer: 1, axis: 32000, inner: 64, count: 512 },
    { shape: 'add 512 rows of 64', quick: true },
  ),
  entryOf(
    scatter,
    { kind: 'add', ids: 'rows', type: 'f32', indexType: 'u32', outer: 1, axis: 1000, inner: 1, count: 1 << 20 },
    { shape: 'add 1M into 1000' },
  ),
]

export const main = experiment(entries)
