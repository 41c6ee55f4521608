// The kernel library by name, one line each: what tools list and the conformance suite runs.

import { attention } from './attention.ts'
import { advance, cacheWrite } from './cache.ts'
import { copy, fill } from './copy.ts'
import { dequantize } from './dequantize.ts'
import { gather } from './gather.ts'
import { iota } from './iota.ts'
import { map } from './map.ts'
import { matmul } from './matmul.ts'
import { matvec } from './matvec.ts'
import { norm } from './norm.ts'
import { quantize8 } from './quantize8.ts'
import type { KernelRecord } from './record.ts'
import { reduce } from './reduce.ts'
import { rope } from './rope.ts'
import { argmax, topk } from './select.ts'
import { softmax } from './softmax.ts'

export const KERNELS = {
  map,
  reduce,
  softmax,
  norm,
  rope,
  gather,
  dequantize,
  matvec,
  matmul,
  attention,
  cacheWrite,
  advance,
  argmax,
  topk,
  copy,
  fill,
  iota,
  quantize8,
} as const

export type KernelName = keyof typeof KERNELS

/** All entries alike, for tools that treat parameters as data. */
export function kernelRecords(): readonly KernelRecord[] {
  return Object.values(KERNELS) as unknown as readonly KernelRecord[]
}
