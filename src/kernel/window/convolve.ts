// y [n, outputs, ...out]: windows of x [n, channels, ...in] times w [outputs, channels / groups, ...kernel], plus bias [outputs], over one
// or two axes.

import { family } from '../family.ts'
import { roundingError } from '../rounding.ts'
import { FLAT_WINDOW_CASES, LARGE_CASE, POINTS, TYPE_CASE } from './case.ts'
import { type ConvolveParams, type ConvolveType, convolveBuffers, defineConvolution } from './convolution.ts'
import { convolveDirect } from './convolve-direct.ts'
import { convolveLanes } from './convolve-lanes.ts'
import { product } from './windows.ts'

export type { ConvolveParams, ConvolveType }

const plain = { type: 'f32', n: 2, channels: 3, outputs: 9, groups: 1, bias: false } as const

export const convolve = family<ConvolveParams>({
  name: 'convolve',
  about: 'windows of one or two axes times weights, plus a bias; in groups',
  tolerance: ({ type }) => Math.max(1e-12, roundingError(type)), // of long sums
  cases: [
    ...FLAT_WINDOW_CASES.map((windows): ConvolveParams => ({ ...plain, ...windows })),
    ...(['f32', 'f16', 'bf16'] as const).flatMap((type) =>
      [false, true].flatMap((bias): ConvolveParams[] => [
        { ...plain, type, bias, ...TYPE_CASE },
        { ...plain, type, bias, channels: 6, outputs: 6, groups: 6, ...TYPE_CASE }, // depthwise
      ]),
    ),
    { ...plain, channels: 4, outputs: 10, groups: 2, bias: true, ...TYPE_CASE },
    { ...plain, n: 1, channels: 1, outputs: 1, ...TYPE_CASE },
    { ...plain, n: 1, channels: 5, outputs: 21, in: [8, 8], out: [8, 8], ...POINTS }, // whole vectors
    { ...plain, n: 2, channels: 5, outputs: 3, bias: true, in: [5, 7], out: [5, 7], ...POINTS },
    { ...plain, n: 1, channels: 2, outputs: 2, ...LARGE_CASE },
    { ...plain, n: 1, channels: 1, outputs: 2, in: [5000], out: [2], kernel: [4500], strides: [400], dilations: [1], padding: [[0, 0]] },
  ],
  buffers: convolveBuffers,
  forms: [convolveDirect, convolveLanes],
  cost: ({ n, channels, outputs, groups, kernel, out }) => ({
    operations: 2 * n * outputs * (channels / groups) * product(kernel) * product(out),
    arithmetic: 'f32',
  }),
  define: defineConvolution,
})
